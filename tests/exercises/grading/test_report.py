"""The report: made from the progress file and read by the grading."""

import html.parser
import json
import os
import re
import socket
from pathlib import Path

import pytest

from lplab import cli
from lplab.exercises import check, progress
from lplab.exercises.grading.grading import grade
from lplab.exercises.grading.report import report_of, report_page, stages_of, versions, write_report
from lplab.exercises.grading.report_file import digest
from lplab.exercises.grading.submissions import read_submission
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.model.exercise import STAGES

ROUND = exercise_catalogue.get("01.2")


@pytest.fixture
def worked(monkeypatch, tmp_path):
    """A student's progress: one exercise passed at the second try, one not begun, two predictions; and where it is."""
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "home" / "progress.json"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "answers"
    folder.mkdir()
    for name, source in (("first", ROUND.mistakes[0].apply(ROUND.solution)), ("second", ROUND.solution)):
        (folder / f"{name}_{tmp_path.name}.py").write_text(f"import math\n{source}")
        monkeypatch.syspath_prepend(str(folder))
        check(ROUND.id, getattr(__import__(f"{name}_{tmp_path.name}"), ROUND.name))
    progress.open_hint(ROUND.id)
    progress.open_hint("01.1")
    progress.record_prediction("01.a", "How many <codes>?", 12, 118, "codes")
    progress.record_prediction("02.a", "Which one wins?", "the coin", "the coin")
    return tmp_path


def test_the_report_has_what_was_done(worked):
    report = report_of(progress.default_progress().state, name="Ada")
    one = next(entry for entry in report["exercises"] if entry["id"] == ROUND.id)
    assert (one["attempts"], one["hints"], one["points"], one["version"]) == (2, 1, ROUND.points, ROUND.version)
    assert one["rings"] == dict.fromkeys(STAGES, "held") and one["passed_at"] and one["seconds"] > 0
    assert f"def {ROUND.name}" in one["passing"] == one["latest"]
    assert report["predictions"][0]["guess"] == 12 and report["predictions"][1]["guess"] == "the coin"
    assert [lab["lab"] for lab in report["labs"]] == ["01", "02"] and report["labs"][0]["done"] == 1
    assert report["versions"] == versions() and {"lplab", "python", "numpy"} <= set(report["versions"])
    assert report["sha256"] == digest(report) and len(report["sha256"]) == 64


def test_the_report_names_no_place_of_this_machine(worked):
    report = report_of(progress.default_progress().state)
    text = json.dumps(report) + report_page(report)
    places = [str(worked), str(Path.home()), str(Path(__file__).parents[3]), socket.gethostname(), os.sep + "tmp"]
    assert [place for place in places if len(place) > 1 and place in text] == []


def test_a_lab_can_be_chosen(worked):
    report = report_of(progress.default_progress().state, ["02"])
    assert report["exercises"] == [] and [guess["id"] for guess in report["predictions"]] == ["02.a"]


def test_stages_that_an_exercise_does_not_have_are_not_in_its_report():
    for exercise in map(exercise_catalogue.get, exercise_catalogue.names()):
        there = {"boundary set": exercise.boundary(), "properties": exercise.properties}
        assert list(stages_of(exercise, "passed", "")) == [ring for ring in STAGES if there.get(ring, True)]
    assert set(stages_of(ROUND, "not yet", "").values()) == {"not reached"}
    assert list(stages_of(ROUND, "failed", "named examples").values()) == [
        "held",
        "fails",
        "not reached",
        "not reached",
    ]


def test_a_report_is_graded_as_it_was_checked(worked):
    write_report(report_of(progress.default_progress().state, name="Ada Lovelace"), worked / "class")
    files = sorted(path.name for path in (worked / "class").iterdir())
    assert files == ["lplab-report_Ada_Lovelace.html", "lplab-report_Ada_Lovelace.json"]
    found = read_submission(worked / "class" / files[1])
    assert found.name == "Ada Lovelace" and found.notes == () and found.history[ROUND.id]["attempts"] == 2
    (student,) = grade(worked / "class").students
    assert student.marks[ROUND.id].passed and student.notes == () and student.predictions["01.a"]["truth"] == 118


@pytest.mark.parametrize("early", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_passed_answer_keeps_its_points_after_a_check_of_another_function(worked, early):
    (worked / "answers" / f"slip_{worked.name}.py").write_text("def exposing_input():\n    return 1.0\n")
    check(ROUND.id, __import__(f"slip_{worked.name}").exposing_input)
    report = report_of(progress.default_progress().state)
    one = next(entry for entry in report["exercises"] if entry["id"] == ROUND.id)
    assert (one["function"], one["passing_function"], one["status"]) == ("exposing_input", ROUND.name, "failed")
    assert one["rings"] == dict.fromkeys(STAGES, "held"), "those of the passing answer"
    if early:  # as files were before each source had its name
        del one["passing_function"]
    write_report(report, worked / "class")
    (student,) = grade(worked / "class").students
    assert student.marks[ROUND.id].passed and student.total == ROUND.points


def test_the_page_can_be_read_alone_and_is_escaped(worked):
    class Page(html.parser.HTMLParser):
        def __init__(self):
            super().__init__()
            self.words, self.open, self.wrong = [], [], []

        def handle_starttag(self, tag, attrs):
            self.wrong += [tag] * (tag in ("script", "img", "iframe", "link"))
            self.wrong += [value for key, value in attrs if key in ("src", "href") and not value.startswith("#")]
            self.open += [tag] * (tag not in ("meta", "br"))

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

        def handle_data(self, data):
            self.words.append(data)

    page = Page()
    text = report_page(report_of(progress.default_progress().state, name="<b>Ada</b>"))
    page.feed(text)
    said = " ".join(" ".join(page.words).split())
    assert page.open == page.wrong == [] and "url(" not in text and "http" not in text
    assert "lplab report: <b>Ada</b>" in said and "01.a How many <codes>? 12 codes 118 codes" in said
    assert "prefers-color-scheme: dark" in text and "@media print" in text
    assert f"{ROUND.id} {ROUND.title} ✓ passed (version {ROUND.version}) held held held held" in said


# ---- the command -----------------------------------------------------------------------------------------------------


def test_the_command_writes_both_files(worked, capsys):
    assert cli.main(["report", "--name", "Ada\n Lovelace ", "--lab", "01", "--out", "to hand in"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [f"to hand in{os.sep}lplab-report_Ada_Lovelace.{kind}" for kind in ("json", "html")]
    assert re.fullmatch(r"Lab 01: 1 of \d exercises passed, \d+ of \d+ points; 1 prediction made", said[2])
    data = json.loads(Path(said[0]).read_text("utf-8"), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert data["name"] == "Ada Lovelace" and [lab["lab"] for lab in data["labs"]] == ["01"]
    assert cli.main(["report"]) == 0 and Path("lplab-report.json").exists()


@pytest.mark.parametrize(("argv", "told"), [
    (["--lab", "77"], "lab '77' has no exercises"), (["--lab", "00"], "nothing of lab 00 has been done yet"),
    (["--out", "answers/first.txt/deeper"], "first.txt"),
])  # fmt: skip
def test_bad_input_gets_one_line_and_code_2(worked, capsys, argv, told):
    (worked / "answers" / "first.txt").write_text("")
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", *argv])
    said = capsys.readouterr()
    assert stop.value.code == 2 and said.out == "" and told in said.err and said.err.count("\n") == 1


@pytest.mark.parametrize(("text", "told"), [
    (None, "nothing has been done yet"), ("{", "is corrupt"), ('{"schema": 99}', "newer lplab"),
])  # fmt: skip
def test_a_progress_file_without_a_report(tmp_path, monkeypatch, capsys, text, told):
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "progress.json"))
    if text is not None:
        (tmp_path / "progress.json").write_text(text)
    with pytest.raises(SystemExit) as stop:
        cli.main(["report"])
    assert stop.value.code == 2 and told in capsys.readouterr().err
    assert text is None or (tmp_path / "progress.json").read_text() == text
