"""A class of two hundred files: each gets its row, whatever is in it, and the marks are reproducible."""

import csv
import functools
import html.parser
import json
import random
import re
import zipfile
from pathlib import Path

import pytest

from lplab import cli
from lplab.exercises.capstone.capstone_exercise import CapstoneJudge
from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.verdict import NOT_JUDGED
from lplab.exercises.grading.grading import find_files, grade
from lplab.exercises.grading.html_pages import histogram
from lplab.exercises.grading.marks import MISSING
from lplab.exercises.grading.marks_files import write_marks
from lplab.exercises.grading.report_file import digest
from lplab.exercises.isolation import Limits
from lplab.exercises.model import exercise_catalogue
from tests.exercises.in_process import judge_here, marks_object
from tests.kinds import one_in_three
from tests.labs import notebooks

quick = functools.partial(judge, limits=Limits(cpu_seconds=1, wall_seconds=10))  # endless loops end sooner
LABS = Path(__file__).parents[3] / "labs"
LAB = [exercise_catalogue.get(key) for key in exercise_catalogue.names() if key[:2] == "01"]
DECODE, ROUND = LAB[:2]
FULL = sum(exercise.points for exercise in LAB)
PLANTED = {  # files that cannot be graded, and what their row says
    "empty": (b"", "is empty"),
    "half": (b'{"cells": [{"cell_type": "code", "sour', "is no JSON"),
    "text": (b"dear professor", "is no JSON"),
    "binary": (bytes(range(256)) * 40, "is no JSON"),
    "other_json": (b'{"marks": 6}', "neither a notebook nor a report"),
    "old": (b'{"nbformat": 3, "worksheets": []}', "old format"),
    "prose": (b'{"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "hello"}]}', "no code cells"),
    "nothing": (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = 1"}]}', "checks no exercise"),
    "deep": (b"[" * 100_000, "is no JSON"),
}


def solved(exercise, variant=None):
    source = exercise.solution if variant is None else variant.apply(exercise.solution)
    return f"{source}\n\ncheck({exercise.id!r}, {exercise.name})"


def notebook(*cells):
    made = [{"cell_type": "code", "source": "import numpy as np\nimport math\nfrom lplab.exercises import check"}]
    made += [{"cell_type": "code", "source": cell.splitlines(True)} for cell in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}, ensure_ascii=False)


def a_report(name, source, guess):
    entry = {"id": ROUND.id, "function": ROUND.name, "latest": source, "attempts": 3, "hints": 2, "solution_at": "2026",
             "version": ROUND.version}  # fmt: skip
    guesses = [{"id": "01.a", "question": "How many codes?", "guess": guess, "truth": 118.0, "unit": "codes"}]
    data = {"lplab_report": 1, "name": name, "exercises": [entry], "predictions": guesses}
    return json.dumps({**data, "sha256": digest(data)})


def rounding(body):
    return f"def {ROUND.name}(x):\n    {body}\n\ncheck({ROUND.id!r}, {ROUND.name})"


ODD = {  # answers to the second exercise that go wrong in the child, and a word of the message
    "loop": ("while True: pass", "of computing"),
    "exit": ("raise SystemExit", "ends Python"),
    "memory": ("return [0.0] * 10**12", "memory"),
    "printing": ("while True: print('x' * 1000)", "print"),
    "forbidden": ("import requests", "requests"),
    "cheat": ("from lplab.exercises import catalogue\n    return catalogue.get('01.2').reference(x)", "lplab"),
    "raises": ("return 1 / 0", "ZeroDivisionError"),
    "none": ("pass; x + 1", "returns None"),
    "deep": (f"return {ROUND.name}(x)", "RecursionError"),
}


def make_class(folder):
    """Two hundred files: notebooks of all qualities, reports, and the planted ones. Returns the expected totals."""
    chance, expected = random.Random(1), {}

    def put(name, text, total, encoding="utf-8"):
        expected[name.rpartition(".")[0]] = total
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))

    for name, (raw, _) in PLANTED.items():
        put(f"planted/{name}.ipynb", raw, 0)
    for name, (body, _) in ODD.items():
        put(f"odd/{name}.ipynb", notebook(rounding(body), solved(DECODE)), DECODE.points)
    for encoding in ("utf-8-sig", "utf-16", "cp1252"):
        put(f"encodings/{encoding}.ipynb", notebook("# Größe", solved(DECODE)), DECODE.points, encoding)
    all_solved = [solved(exercise) for exercise in LAB]
    wrong = solved(ROUND, ROUND.mistakes[0])
    put("ways/copied.ipynb", notebook(*all_solved, wrong, solved(ROUND), wrong), FULL)
    put("ways/half_run.ipynb", notebook(*all_solved[:2], "def half(:"), DECODE.points + ROUND.points)
    both = DECODE.points + ROUND.points
    put("ways/magics.ipynb", notebook("%%time\n" + all_solved[0], "!ls\n" + all_solved[1]), both)
    put("ways/check_first.ipynb", notebook(f"check('{ROUND.id}', {ROUND.name})", ROUND.solution), ROUND.points)
    put("ways/no_check.ipynb", notebook(all_solved[0], ROUND.solution), DECODE.points + ROUND.points)
    put("ways/stubs.ipynb", notebook(*(exercise.cell for exercise in LAB)), 0)
    for i in range(30):
        put(f"reports/r{i}.json", a_report(f"Reporter {i}", ROUND.solution, chance.choice([118, 12, 60])), ROUND.points)
    for exercise in (DECODE, ROUND):
        for i, mutant in enumerate(exercise.mistakes[:6]):
            for copy in range(2 if i else 3):
                put(f"mutants/{exercise.id}-{i}-{copy}.ipynb", notebook(solved(exercise, mutant)), None)
    for i in range(200 - len(expected)):
        cells = chance.sample(all_solved, len(all_solved))
        put(f"solved/s{i:03}.ipynb", notebook(*cells), FULL)
    return expected


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of the class, and the expected totals."""
    folder = tmp_path_factory.mktemp("class")
    return folder, make_class(folder)


@pytest.fixture(scope="module")
def marks(made):
    return grade(made[0], jobs=4, each_file=True, judged_by=quick)


@pytest.fixture(scope="module")
def out(marks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("marks")
    write_marks(marks, folder)
    return folder


@pytest.fixture(scope="module")
def by_file(marks):
    return {student.file.rpartition(".")[0]: student for student in marks.students}


# ---- the class -------------------------------------------------------------------------------------------------------


def test_two_hundred_files_give_two_hundred_rows(marks, made):
    assert len(marks.students) == len(made[1]) == 200
    assert len({student.name for student in marks.students}) == 200
    assert [exercise.id for exercise in marks.exercises] == [exercise.id for exercise in LAB]


def test_every_file_has_the_points_that_it_should(by_file, made):
    expected = {name: total for name, total in made[1].items() if total is not None}
    assert {name: by_file[name].total for name in expected} == expected


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_file_is_one_row_that_says_why(name, by_file, marks, out):
    student = by_file[f"planted/{name}"]
    assert PLANTED[name][1] in student.problem and student in marks.broken and len(marks.broken) == len(PLANTED)
    rows = csv.DictReader((out / "marks.csv").open(encoding="utf-8-sig"))
    (row,) = [row for row in rows if row["student"] == student.name]
    assert row["total"] == "0" and PLANTED[name][1] in row["notes"]


@pytest.mark.parametrize("name", ODD)
def test_an_answer_that_goes_wrong_says_how_and_the_others_count(name, by_file):
    mark = by_file[f"odd/{name}"].marks[ROUND.id]
    assert mark.ring == "form" and mark.points == 0 and ODD[name][1] in mark.message, mark.message
    assert by_file[f"odd/{name}"].marks[DECODE.id].passed


def test_no_mutant_passes(by_file):
    for exercise in (DECODE, ROUND):
        for i, mutant in enumerate(exercise.mistakes[:6]):
            assert not mutant.equivalent
            for copy in range(2):
                mark = by_file[f"mutants/{exercise.id}-{i}-{copy}"].marks[exercise.id]
                assert mark.status == "failed" and mark.points < exercise.points, mutant.name


def test_notes_say_what_was_done(by_file):
    assert f"{ROUND.id}: the best of 2 answers (code cell 3)" in by_file["ways/copied"].notes
    assert any("is no Python" in note for note in by_file["ways/half_run"].notes)
    assert any("no cell checks" in note for note in by_file["ways/no_check"].notes)
    assert any("UTF-16" in note for note in by_file["encodings/utf-16"].notes)
    assert by_file["encodings/utf-8-sig"].notes == by_file["ways/check_first"].notes == ()
    assert by_file["ways/half_run"].marks[LAB[3].id].status == MISSING
    assert {mark.status for mark in by_file["ways/stubs"].marks.values()} == {"not yet"}


def test_the_table_has_points_totals_and_names_of_reports(out):
    rows = list(csv.DictReader((out / "marks.csv").open(encoding="utf-8-sig")))
    assert list(rows[0]) == ["student", *(exercise.id for exercise in LAB), "total", "of", "notes"]
    assert [row["student"] for row in rows] == sorted((row["student"] for row in rows), key=str.casefold)
    row = next(row for row in rows if row["student"] == "Reporter 7")
    assert row[ROUND.id] == row["total"] == str(ROUND.points) and row["of"] == str(FULL)
    for row in rows:
        assert float(row["total"]) == sum(float(row[exercise.id] or 0) for exercise in LAB)


def test_an_answer_that_was_not_handed_in_is_no_zero(out, by_file):
    table = csv.DictReader((out / "marks.csv").open(encoding="utf-8-sig"))
    (row,) = [row for row in table if row["student"] == "odd/none"]
    assert by_file["odd/none"].marks[ROUND.id].status == "failed" and row[ROUND.id] == "0"
    assert [row[exercise.id] for exercise in LAB[2:]] == ["", ""] and row["total"] == str(DECODE.points)
    rows = list(csv.DictReader((out / "details.csv").open(encoding="utf-8-sig")))
    found = {(row["status"], row["points"]) for row in rows if row["student"] == "odd/none"}
    assert found == {("passed", "6"), ("failed", "0"), (MISSING, "")}


def test_details_name_stage_misconception_and_history(out):
    rows = list(csv.DictReader((out / "details.csv").open(encoding="utf-8-sig")))
    assert len(rows) == 200 * len(LAB)
    found = {(row["student"], row["exercise"]): row for row in rows}
    report = found["Reporter 7", ROUND.id]
    assert (report["attempts"], report["hints"], report["solution_seen"]) == ("3", "2", "yes")
    assert report["right"] == report["total"] != "0" and report["where"] == "latest answer"
    mutant = found[f"mutants/{ROUND.id}-0-0", ROUND.id]
    assert mutant["misconception"] == ROUND.mistakes[0].name and mutant["ring"] and mutant["attempts"] == ""
    assert "Smallest wrong one" in mutant["message"] or "First example missed" in mutant["message"]


def test_the_json_is_strict_and_holds_no_place_or_time(out, tmp_path):
    text = (out / "marks.json").read_text("utf-8")
    data = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert len(data["students"]) == 200 and data["exercises"][0]["points"] == LAB[0].points
    assert "/tmp" not in text and str(tmp_path.parents[1]) not in text
    assert not re.search(r"20\d\d-\d\d-\d\d", text)


def test_gradescope_gets_the_fields_that_it_knows(out, marks, by_file):
    files = list((out / "gradescope").glob("*.json"))
    assert len(files) == 200
    top = {"score", "output", "output_format", "visibility", "stdout_visibility", "tests", "extra_data"}
    inner = {"number", "name", "score", "max_score", "status", "output", "output_format", "tags", "visibility"}
    for file in files:
        results = json.loads(file.read_text("utf-8"))
        assert set(results) == top and all(set(test) == inner for test in results["tests"])
        assert results["score"] == sum(test["score"] for test in results["tests"])
        assert {test["status"] for test in results["tests"]} <= {"passed", "failed"}
    loop = json.loads((out / "gradescope" / "odd_loop.json").read_text("utf-8"))
    assert [test["score"] for test in loop["tests"]][:2] == [DECODE.points, 0]
    assert "of computing" in loop["tests"][1]["output"]


def no_recipe_is_scored(others, seeds, jobs, capstone):
    """The published recipe of a lab's cell earns nothing, so that its training can be left out."""
    return CapstoneJudge(others, {}, (), problem="no training in this test", capstone=capstone)


@pytest.mark.parametrize("path", one_in_three(sorted(LABS.glob("*.ipynb"))), ids=lambda path: path.stem)
def test_a_solved_lab_gets_all_points(path, tmp_path):
    lab = json.loads(path.read_text("utf-8"))
    (tmp_path / "unsolved.ipynb").write_text(json.dumps(lab))
    (tmp_path / "solved.ipynb").write_text(json.dumps(notebooks.solved(lab)))
    marks = grade(tmp_path, jobs=1, judged_by=judge_here, capstone_judge=no_recipe_is_scored)
    assert [exercise.lab for exercise in marks.exercises] == [path.name[:2]] * len(marks.exercises)
    points = sum(exercise.points for exercise in marks.exercises if exercise.id not in exercise_catalogue.CAPSTONES)
    assert [student.total for student in marks.students] == [points, 0] and points > 0
    told = "".join(f"not judged: {own}" for own in exercise_catalogue.CAPSTONES if own[:2] == path.name[:2])
    assert [student.remarks for student in marks.students] == [told, told]


# ---- the page --------------------------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """The text of a page, its tags, and whether they are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.words, self.open, self.tags, self.links = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for key, value in attrs if key in ("src", "href")]
        if tag not in ("meta", "br", "link", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def test_the_page_shows_stages_mistakes_predictions_and_the_broken(out, marks):
    page = Page((out / "overview.html").read_text("utf-8"))
    assert page.open == [] and "script" not in page.tags and all(link.startswith("#") for link in page.links)
    assert f"Known mistakes with which answers coincide answers mistake 3 {DECODE.mistakes[0].name} 2" in page.text
    assert f"3 {ROUND.mistakes[0].name} 2" in page.text and "Other frequent messages" in page.text
    assert "01.a How many codes? 30 guesses; the truth is 118 codes." in page.text
    assert "118 codes (the truth)" in page.text
    for student in marks.broken:
        assert f"{student.file} It {student.problem}." in page.text
    assert f"Marks of 200 submissions {len(LAB)} exercises, {FULL} points" in page.text


def test_the_page_escapes_what_students_write(tmp_path):
    evil = "<script>alert(1)</script>"
    (tmp_path / "a.json").write_text(a_report(evil, f"def {ROUND.name}(x):\n    raise ValueError({evil!r})", evil))
    marks = grade(tmp_path, jobs=1)
    write_marks(marks, tmp_path / "out")
    text = (tmp_path / "out" / "overview.html").read_text("utf-8")
    assert "<script" not in text and text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 3


def test_formulas_and_broken_unicode_reach_no_spreadsheet(tmp_path):
    source = f"def {ROUND.name}(x):\n    raise ValueError('=1+1 \\ud800 \\x1b[31m')"
    (tmp_path / "a.json").write_text(a_report("=HYPERLINK(0)", source, 1))
    (tmp_path / "b.json").write_text(a_report("@b\ud800", source, 1))
    write_marks(grade(tmp_path, jobs=1), tmp_path / "out")
    rows = list(csv.reader((tmp_path / "out" / "marks.csv").open(encoding="utf-8-sig")))
    assert [row[0] for row in rows[1:]] == ["'=HYPERLINK(0)", "'@b?"]
    assert "\x1b" not in (tmp_path / "out" / "details.csv").read_text("utf-8")


def test_histograms_put_many_numbers_in_ranges():
    made = histogram([float(i) for i in range(80)], 15.0, "%")
    assert [(bar.label, bar.count) for bar in made[:2]] == [("0 to 10 %", 10), ("10 to 20 %", 10)]
    assert [bar.is_truth for bar in made] == [False, True] + [False] * 6 and sum(bar.count for bar in made) == 80
    for odd in (
        [-3e-9 * i for i in range(20)],
        [1e300 * i for i in range(1, 30)],
        [5e-324 * 2.0**i for i in range(999)],
    ):
        assert sum(bar.count for bar in histogram(odd, 0)) == len(odd)
    wide = histogram([10.0**i for i in range(-3, 7)] + ["inf", "no idea", "no idea"], 1e9)
    assert sum(bar.count for bar in wide) == 13 and not any(bar.is_truth for bar in wide)
    assert [bar.label for bar in wide[-2:]] == ["no idea", "inf"]
    words = histogram(["up", "down", "up"], "down")
    assert [(bar.label, bar.count, bar.is_truth) for bar in words] == [("up", 2, False), ("down", 1, True)]


# ---- rules -----------------------------------------------------------------------------------------------------------


def test_equal_sources_are_judged_once(tmp_path):
    for i in range(20):
        (tmp_path / f"s{i}.ipynb").write_text(notebook(solved(DECODE)))
    asked = []
    marks = grade(tmp_path, judged_by=lambda exercise, answer: asked.append(answer) or judge(exercise, answer))
    assert len(asked) == 1 and all(student.total == DECODE.points for student in marks.students)


def test_only_passes_count_if_so_wanted(tmp_path):
    partial = next(mutant for mutant in ROUND.mistakes if "subnormals are flushed" in mutant.name)
    (tmp_path / "a.ipynb").write_text(notebook(solved(DECODE), solved(ROUND, partial)))
    assert grade(tmp_path).students[0].total > grade(tmp_path, all_or_nothing=True).students[0].total == DECODE.points


def test_labs_can_be_chosen(tmp_path):
    (tmp_path / "a.ipynb").write_text(notebook(solved(DECODE)))
    other = grade(tmp_path, ["00"])
    assert [exercise.id for exercise in other.exercises] == [
        exercise.id for exercise in exercise_catalogue.of_lab("00")
    ]
    assert other.students[0].total == 0 and other.students[0].notes == ("no answer to an exercise that is graded",)


def test_an_answer_that_lplab_cannot_judge_stops_nobody(tmp_path):
    (tmp_path / "a.ipynb").write_text(notebook(solved(DECODE)))
    (tmp_path / "b.ipynb").write_text(notebook(rounding("return 0.0")))
    tries = []

    def fails(exercise, answer):
        tries.append(exercise.id)
        if exercise is ROUND or tries.count(exercise.id) == 1:
            raise RuntimeError("no more\nprocesses")
        return judge(exercise, answer)

    first, second = grade(tmp_path, jobs=2, judged_by=fails).students
    assert first.marks[DECODE.id].passed and second.marks[ROUND.id].status == NOT_JUDGED
    assert "RuntimeError: no more processes" in second.marks[ROUND.id].message and tries.count(ROUND.id) == 2


def test_an_interruption_ends_the_grading(tmp_path):
    (tmp_path / "a.ipynb").write_text(notebook(solved(DECODE)))

    def interrupted(exercise, answer):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade(tmp_path, judged_by=interrupted)


def test_students_of_one_name_are_told_apart(tmp_path):
    for name in ("x", "y"):
        (tmp_path / f"{name}.json").write_text(a_report("Ada", ROUND.solution, 1))
    (tmp_path / "ada.ipynb").write_text(notebook(solved(DECODE)))
    marks = grade(tmp_path)
    assert [student.name for student in marks.students] == ["Ada (x.json)", "Ada (y.json)", "ada"]
    assert len(write_marks(marks, tmp_path / "out")) == 8


def test_files_in_a_folder_are_one_student_whose_best_answers_count(tmp_path):
    wrong = solved(ROUND, ROUND.mistakes[0])
    for name, text in {"ada/00.ipynb": notebook(wrong), "ada/01.ipynb": notebook(solved(DECODE), solved(ROUND)),
                       "ada/x.ipynb": "{", "bob/1.ipynb": notebook(solved(DECODE)), "eve.ipynb": notebook(wrong),
                       "fay.ipynb": notebook(solved(DECODE)), "gus/1.ipynb": "{", "gus/2.pdf": "%PDF",
                       }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    marks = grade(tmp_path)
    assert [student.name for student in marks.students] == ["ada", "bob", "eve", "fay", "gus"] and marks.files == 8
    ada, bob, *_, gus = marks.students
    assert ada.total == DECODE.points + ROUND.points and ada.problem == "" and ada.file == "ada"
    assert ada.marks[ROUND.id].where == "01.ipynb, code cell 3"
    assert ada.notes[0] == "3 files: 00.ipynb, 01.ipynb, x.ipynb" and ada.notes[1].startswith(
        "the file x.ipynb is no JSON"
    )
    assert ada.notes[2:] == (f"{ROUND.id}: the best of 2 answers (01.ipynb, code cell 3)",)
    assert (bob.file, bob.notes, bob.total) == ("bob/1.ipynb", (), DECODE.points)
    assert "1.ipynb is no JSON" in gus.problem and "2.pdf is a .pdf file" in gus.problem and gus.total == 0
    assert len(grade(tmp_path, each_file=True).students) == 8
    assert marks_object(marks) == marks_object(grade(tmp_path, jobs=1))


def test_reports_of_two_people_in_one_folder_are_noticed(tmp_path):
    (tmp_path / "group").mkdir()
    for name in ("Ada", "Bob"):
        (tmp_path / "group" / f"{name}.json").write_text(a_report(f"{name} L.", ROUND.solution, 1))
    (student,) = grade(tmp_path).students
    assert "reports of different names: Ada L., Bob L.; --each-file gives each its own row" in student.notes


def test_answers_that_are_judged_alike_are_not_mentioned(tmp_path):
    (tmp_path / "a.ipynb").write_text(notebook(solved(ROUND), "x = 1", solved(ROUND).replace("):", "):  # again", 1)))
    (student,) = grade(tmp_path).students
    assert student.notes == () and student.total == ROUND.points


def test_which_files_are_looked_at(tmp_path):
    for name in ("a.ipynb", ".ipynb_checkpoints/a.ipynb", "__MACOSX/a.ipynb", "b/c.JSON", "d.PDF", "e.json", "e.html",
                 "f.html", "data.csv", "marks/marks.json", ".hidden.ipynb", "._a.ipynb", ".gitignore", "b/.DS_Store",
                 "b/.git/config", "x.ipynb/y.txt"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("a.ipynb", "{}")
    (tmp_path / "empty.ipynb").mkdir()
    found = {one.path.relative_to(tmp_path).as_posix(): one for one in find_files(tmp_path, [tmp_path / "marks"])}
    assert list(found) == [".hidden.ipynb", "a.ipynb", "all.zip", "d.PDF", "data.csv", "e.html", "e.json", "f.html",
                           "b/.DS_Store", "b/.git", "b/c.JSON", "empty.ipynb", "x.ipynb/y.txt"]  # fmt: skip
    assert [name for name, one in found.items() if one.aside] == ["e.html", "b/.DS_Store", "b/.git"]
    problems = {student.file: student.problem for student in grade(tmp_path, leave_out=tmp_path / "marks").students}
    assert problems["all.zip"] == "is a zip archive; unpack it" and problems["empty.ipynb"] == "is a folder"
    assert problems["d.PDF"] == "is a .pdf file; hand in the notebook or the report"


# ---- the command -----------------------------------------------------------------------------------------------------


def test_the_command_writes_everything_and_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "ada.ipynb").write_text(notebook(solved(DECODE)))
    (tmp_path / "class" / "broken.ipynb").write_text("{")
    assert cli.main(["grade", "class", "--lab", "01", "--jobs", "2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        f"2 submissions, of which 1 could not be read\nfrom 2 files; files in a folder of their own are one "
        f"student\n01.1 {DECODE.title}: 1 of 1 pass\n"
    )
    assert {path.name for path in (tmp_path / "marks").iterdir()} == {
        "marks.csv", "details.csv", "marks.json", "files.csv", "overview.html", "gradescope"}  # fmt: skip
    assert cli.main(["grade", ".", "--each-file", "--out", "marks", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again == json.loads((tmp_path / "marks" / "marks.json").read_text()), "its own output was left out"
    assert again == marks_object(grade(tmp_path, each_file=True, leave_out=tmp_path / "marks"))
    assert [student["name"] for student in again["students"]] == ["class/ada", "class/broken"]


@pytest.mark.parametrize(("argv", "told"), [
    (["nowhere"], "there is no folder nowhere"), (["empty"], "no notebook (.ipynb) and no report (.json) in empty"),
    (["full", "--lab", "77"], "lab '77' has no exercises; labs with exercises: 00, 01, 02"),
    (["full", "--jobs", "0"], "--jobs must be at least 1"), (["full", "--out", "full/a.ipynb"], "is a file"),
    ([], "folder"),
    (["full", "--out", "full/a.ipynb/deeper"], "full/a.ipynb"),
])  # fmt: skip
def test_bad_input_gets_one_line_and_code_2(argv, told, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.ipynb").write_text("{}")
    with pytest.raises(SystemExit) as stop:
        cli.main(["grade", *argv])
    said = capsys.readouterr()
    assert stop.value.code == 2 and said.out == "" and told in said.err and said.err.count("\n") == 1


def test_a_missing_package_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "lplab.exercises.grading.grading", None)
    (tmp_path / "a.ipynb").write_text("{}")
    with pytest.raises(ModuleNotFoundError):
        cli.main(["grade", str(tmp_path)])
    monkeypatch.undo()
    monkeypatch.delitem(__import__("sys").modules, "lplab.exercises.grading.grading")
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    with pytest.raises(SystemExit) as stop:
        cli.main(["grade", str(tmp_path)])
    assert stop.value.code == 2 and "tqdm is not installed: pip install 'lplab[course]'" in capsys.readouterr().err
