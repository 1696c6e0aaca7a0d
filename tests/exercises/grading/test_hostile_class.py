"""A hostile class among honest students: it gains nothing, and the honest marks are the same bytes without it."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import lplab
from lplab import cli
from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.verdict import FAILED, NOT_JUDGED, PASSED, Verdict
from lplab.exercises.grading import judging
from lplab.exercises.grading.grading import grade
from lplab.exercises.grading.journal import JOURNAL, Journal
from lplab.exercises.grading.judging import judge_all, verdicts_of
from lplab.exercises.grading.marks_files import as_json, write_marks
from lplab.exercises.grading.submissions import MAX_CODE_CHARACTERS, read_submission
from lplab.exercises.grading.workers import Workers, threads
from lplab.exercises.isolation import Limits, fences, landlock, seccomp
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue
from tests.exercises.hostile import CLASS, FORGE
from tests.exercises.in_process import judge_here, marks_object

DECODE, ROUND = (exercise_catalogue.get(key) for key in ("01.1", "01.2"))
quick = partial(judge, limits=Limits(cpu_seconds=1, wall_seconds=2))
needs_the_fence = pytest.mark.skipif(
    not (landlock.abi() and seccomp.available()), reason="this kernel lacks Landlock or seccomp"
)
ONE_OF_EACH = list({attack.kind: attack for attack in reversed(CLASS)}.values())


def notebook(*cells: str) -> str:
    made = [{"cell_type": "code", "source": cell} for cell in ("import numpy as np\nimport math", *cells)]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made})


def checked(exercise, source: str) -> str:
    return f"{source}\n\ncheck({exercise.id!r}, {exercise.name})"


def honest(folder: Path) -> None:
    """Three students who do their own work."""
    wrong = ROUND.mistakes[0].apply(ROUND.solution)
    for name, cells in {
        "ada": [checked(DECODE, DECODE.solution), checked(ROUND, ROUND.solution)],
        "bob": [checked(ROUND, wrong), checked(DECODE, f"def {DECODE.name}(code):\n    print(code)\n    return 0.0")],
        "zoe": [checked(DECODE, f"def {DECODE.name}(code):\n    raise NotImplementedError")],
    }.items():
        (folder / f"{name}.ipynb").write_text(notebook(*cells))


@pytest.fixture
def places(tmp_path, monkeypatch):
    for name in ("home", "class", "out", "temp", "honest"):
        (tmp_path / name).mkdir()
    (tmp_path / "home" / "exam.txt").write_text("SECRET of home")
    monkeypatch.setenv("LPLAB_TOKEN", "SECRET of the environment")
    honest(tmp_path / "honest")
    honest(tmp_path / "class")
    return {
        "HOME": str(tmp_path / "home"),
        "MATE": str(tmp_path / "class" / "ada.ipynb"),
        "OUT": str(tmp_path / "out"),
        "TEMP": str(tmp_path / "temp"),
        "LPLAB": str(Path(str(lplab.__file__)).parent),
    }


@needs_the_fence
def test_a_hostile_class_gains_nothing(places, tmp_path):
    """With an attack of each kind; isolation/test_fence.py tries every attack alone."""
    folder = tmp_path / "class"
    for attack in ONE_OF_EACH:
        source = attack.source(ROUND.name, "x", **places)
        (folder / f"eve_{attack.kind}_{attack.name}.ipynb").write_text(notebook(checked(ROUND, source)))
    before = {path: path.read_bytes() for path in (*folder.iterdir(), *(tmp_path / "home").iterdir())}
    marks = {jobs: marks_object(grade(folder, ["01"], jobs=jobs, judged_by=quick)) for jobs in (1, 4)}
    alone = marks_object(grade(tmp_path / "honest", ["01"], jobs=2, judged_by=quick))

    assert {path: path.read_bytes() for path in (*folder.iterdir(), *(tmp_path / "home").iterdir())} == before
    assert not list((tmp_path / "out").iterdir())
    worth = judge(ROUND, Answer(f"def {ROUND.name}(x): return 448.0", ROUND.name)).points
    for one in marks.values():
        hostile = [student for student in one["students"] if student["name"].startswith("eve_")]
        assert len(hostile) == len(ONE_OF_EACH) and len(one["students"]) == len(ONE_OF_EACH) + 3
        for student in hostile:
            forger = student["name"].startswith("eve_forge")
            assert student["total"] <= (worth if forger else 0), student["name"]
            assert not student["problem"] and all(mark["status"] != NOT_JUDGED for mark in student["marks"])
        told = json.dumps(hostile).replace("'loot: {attack()}'", "")
        assert "SECRET of" not in told and "loot:" not in told
        others = [student for student in one["students"] if not student["name"].startswith("eve_")]
        assert as_json(others) == as_json(alone["students"])


@needs_the_fence
def test_what_a_forger_writes_is_text_in_every_form(places, tmp_path):
    attack = next(one for one in FORGE if one.name == "a_live_page")
    (tmp_path / "class" / "eve.ipynb").write_text(notebook(checked(ROUND, attack.source(ROUND.name, "x", **places))))
    files = write_marks(grade(tmp_path / "class", ["01"], judged_by=quick), tmp_path / "out")
    (page,) = (path.read_text("utf-8") for path in files if path.name == "overview.html")
    assert "alert(1)" in page and "<script>alert(1)" not in page
    (form,) = (json.loads(path.read_text("utf-8")) for path in files if path.name == "eve.json")
    texts = [form, *form["tests"]]
    assert {part["output_format"] for part in texts} == {"text"}, "Gradescope shows it as it is"
    assert any("<script>alert(1)</script>" in part["output"] for part in texts)


def test_the_marks_say_what_fenced_the_code(tmp_path, capsys, monkeypatch):
    honest(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    monkeypatch.setattr(seccomp, "available", lambda: False)
    assert cli.main(["grade", ".", "--lab", "00"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"fence: {fences.ACCIDENTS}"
    assert json.loads(Path("marks/marks.json").read_text())["fence"].startswith("accidents only")
    monkeypatch.setattr(seccomp, "available", lambda: True)
    assert fences.summary().startswith("no Landlock, so not all is closed")
    monkeypatch.setattr(landlock, "abi", lambda: 6)
    assert "signals and abstract sockets; seccomp closes processes" in fences.summary()


# ---- what one student can take ---------------------------------------------------------------------------------------


def verdict_on(exercise, line="It is wrong.", status=FAILED):
    return Verdict(exercise.id, exercise.version, exercise.title, status, "form", ("headline", line), 0, 4)


def tasks(count: int, exercise=ROUND, owner="eve"):
    return [(exercise.id, Answer(f"# {owner} {number}\ndef f(x): pass", "f")) for number in range(count)]


def judged(work, jobs, judged_by):
    """The verdicts of each student, and the journal, after all work was judged."""
    journal = Journal(None)
    with threads(jobs) as workers:
        judge_all(iter(work), workers, journal, judged_by)
    return [verdicts_of(some, journal) for some in work], journal


@pytest.mark.parametrize("jobs", [1, 4])
def test_of_many_answers_to_an_exercise_the_last_are_judged(jobs):
    asked = []
    many, mate = tasks(300), tasks(2, owner="ada")
    shared = many[0]  # ada has it too: hers is judged
    work = [many, [*mate, shared]]
    (eve, ada), _ = judged(work, jobs, lambda exercise, answer: asked.append(answer) or verdict_on(exercise))
    assert len(asked) == judging.MAX_ANSWERS + 3 and (len(eve), len(ada)) == (300, 3)
    assert eve[many[5]].lines[1] == "More than 10 answers to this exercise were handed in; the last 10 were run."
    assert eve[many[5]].points == 0 and eve[many[-1]].lines[1] == ada[shared].lines[1] == "It is wrong."
    assert eve[shared].lines[1] == eve[many[5]].lines[1], "what ada hands in changes nothing for eve"


@pytest.mark.parametrize("jobs", [1, 4, 16])
def test_answers_that_do_not_end_use_up_their_students_time_alone(jobs):
    asked = []

    def endless(exercise, answer):
        asked.append(answer)
        time.sleep(0.002)
        return verdict_on(
            exercise, "Stopped after 20 s of waiting, in call 1 of 2." if "eve" in answer.source else "Wrong."
        )

    exercises = [exercise_catalogue.get(key) for key in exercise_catalogue.names()[:20]]
    eve = [task for exercise in exercises for task in tasks(1, exercise)]
    ada = [task for exercise in exercises for task in tasks(1, exercise, "ada")]
    found, _ = judged([eve, ada], jobs, endless)
    verdicts = found[0] | found[1]
    left_out = [task for task in [*eve, *ada] if verdicts[task].lines[0].endswith("was not run.")]
    assert left_out == eve[6:], "100 s are used up by five, and the sixth is allowed to begin"
    assert len(asked) <= 20 + 6 + judging.AHEAD * jobs
    assert verdicts[left_out[0]].lines[1] == "Answers to the exercises before it took more than 100 s and did not end."


def test_what_a_journal_knows_of_endless_answers_counts_as_if_they_ran():
    """A grading that goes on leaves out the same answers."""
    eve = [task for key in exercise_catalogue.names()[:9] for task in tasks(1, exercise_catalogue.get(key))]

    def endless(exercise, answer):
        return verdict_on(exercise, "Stopped after 20 s of waiting, in call 1 of 2.")

    (first,), journal = judged([eve], 1, endless)
    asked = []
    with threads(1) as workers:
        assert judge_all([eve], workers, journal, lambda exercise, answer: asked.append(answer)) == 0
    assert verdicts_of(eve, journal) == first and not asked


def test_the_time_of_an_endless_loop_is_its_limit_not_what_a_busy_machine_made_of_it():
    verdict = quick(ROUND, Answer(f"def {ROUND.name}(x):\n    while True: pass", ROUND.name))
    assert judging._stopped_after(verdict) == 1.0


def test_no_more_work_is_taken_than_is_judged():
    """A class of any size is work that is made as it goes on."""
    taken, finished, most = [], [], 0

    def students():
        for number in range(200):
            taken.append(number)
            yield tasks(1, owner=f"student {number}")

    def judge_one(exercise, answer):
        nonlocal most
        finished.append(answer)
        most = max(most, len(taken) - len(finished))
        return verdict_on(exercise)

    journal = Journal(None)
    with threads(2) as workers:
        assert judge_all(students(), workers, journal, judge_one) == 200
    assert len(journal) == 200 and most <= 2 * judging.AHEAD + 2


@pytest.mark.parametrize(("cells", "told"), [
    (["x = 1\n" * (MAX_CODE_CHARACTERS // 6 + 1)], "characters of code; at most 200,000 are read"),
    (["x = 1"] * 40_000, "characters of code"),
])  # fmt: skip
def test_too_much_code_is_not_read(cells, told, tmp_path):
    (tmp_path / "eve.ipynb").write_text(notebook(*cells))
    begun = time.process_time()
    assert told in read_submission(tmp_path / "eve.ipynb").problem
    assert time.process_time() - begun < 3


def test_a_file_of_many_lists_is_not_read(tmp_path):
    (tmp_path / "eve.ipynb").write_text('{"cells": [' + "[]," * 1_000_000 + "[]]}")
    assert "more than 1,000,000 lists" in read_submission(tmp_path / "eve.ipynb").problem


# ---- a grading that is killed ----------------------------------------------------------------------------------------


def test_a_journal_gives_the_same_marks_and_judges_nothing_again(tmp_path):
    (tmp_path / "class").mkdir()
    honest(tmp_path / "class")
    path = tmp_path / "marks" / JOURNAL
    first = grade(tmp_path / "class", journal=Journal(path), judged_by=judge_here, jobs=1)

    def never(exercise, answer):
        raise AssertionError("it was judged already")

    again = grade(tmp_path / "class", journal=Journal(path), judged_by=never)
    assert as_json(marks_object(again)) == as_json(marks_object(first))


def test_a_journal_keeps_no_verdict_that_is_none(tmp_path):
    journal = Journal(tmp_path / "journal")
    one, other, third = tasks(3)
    journal.add(one, verdict_on(ROUND, status=NOT_JUDGED))
    journal.add(other, verdict_on(ROUND, status=PASSED))
    assert journal.get(one).status == NOT_JUDGED and len(journal) == 1
    journal.close()
    kept = Journal(tmp_path / "journal")
    assert kept.get(one) is None and kept.get(third) is None and kept.get(other) == verdict_on(ROUND, status=PASSED)


class AtOnce(Executor):
    """Does the work when it is handed over, so that all of it is finished together."""

    def submit(self, work, *args):
        future = Future()
        try:
            future.set_result(work(*args))
        except BaseException as problem:
            future.set_exception(problem)
        return future


def test_what_is_finished_together_with_an_interruption_is_kept(tmp_path):
    def judge_one(exercise, answer):
        if answer == some[0][1]:
            raise KeyboardInterrupt
        return verdict_on(exercise)

    some, journal, pool = tasks(16), Journal(tmp_path / JOURNAL), AtOnce()
    with pytest.raises(KeyboardInterrupt):
        judge_all([some[:8], some[8:]], Workers(pool, 8, "", pool), journal, judge_one)
    journal.close()
    assert len(Journal(tmp_path / JOURNAL)) == 15


def test_what_has_begun_before_ctrl_c_is_finished_and_kept(tmp_path, monkeypatch):
    begun, wait = [], judging.wait

    def interrupted(*args, **more):
        monkeypatch.setattr(judging, "wait", wait)
        while not begun:
            time.sleep(0.01)
        raise KeyboardInterrupt

    def judge_one(exercise, answer):
        begun.append(answer)
        time.sleep(0.2)
        return verdict_on(exercise)

    monkeypatch.setattr(judging, "wait", interrupted)
    journal = Journal(tmp_path / JOURNAL)
    with pytest.raises(KeyboardInterrupt), threads(1) as workers:
        judge_all([tasks(5)], workers, journal, judge_one)
    journal.close()
    assert len(begun) == 1 and len(Journal(tmp_path / JOURNAL)) == 1


def test_each_verdict_is_in_the_file_before_the_next_is_awaited(tmp_path):
    path, seen = tmp_path / JOURNAL, []

    def judge_one(exercise, answer):
        seen.append(kept_in(path))
        return verdict_on(exercise)

    pool = AtOnce()
    with threads(1) as workers:
        judge_all([tasks(8)], Workers(pool, 1, "", workers.pool), Journal(path), judge_one)
    assert seen == [0, 0, 2, 2, 4, 4, 6, 6], "two are handed over at a time"


def kept_in(path: Path) -> int:
    """How many verdicts are in a journal that a grading has open: its text, as no other process may read it."""
    return path.read_bytes().count(b'"most_points"') if path.exists() else 0


def test_a_second_grading_in_the_same_folder_gets_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "class").mkdir()
    honest(tmp_path / "class")
    first = Journal(tmp_path / "marks" / JOURNAL)
    first.add(tasks(1)[0], verdict_on(ROUND))
    with pytest.raises(SystemExit) as stop:
        cli.main(["grade", "class"])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and "another grading is running that writes" in said and said.count("\n") == 1
    first.commit()
    first.close()
    late = Journal(tmp_path / "late" / JOURNAL)
    (first := Journal(tmp_path / "late" / JOURNAL)).add(tasks(1)[0], verdict_on(ROUND))
    with pytest.raises(OSError, match="another grading is running"):
        len(late)
    first.close()


def test_an_interruption_leaves_the_marks_so_far_and_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "class").mkdir()
    honest(tmp_path / "class")
    whole = grade(tmp_path / "class", jobs=1, judged_by=judge_here)
    asked, stopped = [], []

    def interrupted(exercise, answer):
        asked.append(exercise.id)
        if len(asked) >= 3 and not stopped:
            raise KeyboardInterrupt
        return judge_here(exercise, answer)

    monkeypatch.setattr(grade, "__kwdefaults__", {**grade.__kwdefaults__, "judged_by": interrupted})
    assert cli.main(["grade", "class", "--jobs", "1"]) == 130
    marks = json.loads(Path("marks/marks.json").read_text())
    statuses = [mark["status"] for student in marks["students"] for mark in student["marks"]]
    assert statuses.count(NOT_JUDGED) >= 1 and statuses.count(PASSED) >= 1
    assert len(Journal(Path("marks", JOURNAL))) == 2
    stopped.append(asked.clear())
    assert cli.main(["grade", "class", "--jobs", "1"]) == 0
    assert not Path("marks", JOURNAL).exists() and len(asked) == 3, "two of five were judged before"
    assert Path("marks/marks.json").read_text() == as_json(marks_object(whole))
    capsys.readouterr()


def test_a_file_that_is_no_journal_gets_one_line(tmp_path, capsys):
    (tmp_path / "class").mkdir()
    honest(tmp_path / "class")
    (tmp_path / "marks").mkdir()
    (tmp_path / "marks" / JOURNAL).write_text("dear professor, " * 100)
    with pytest.raises(SystemExit) as stop:
        cli.main(["grade", str(tmp_path / "class"), "--out", str(tmp_path / "marks")])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and "is no journal of lplab" in said and said.count("\n") == 1


def test_a_verdict_of_another_version_of_an_exercise_does_not_count(monkeypatch):
    journal, (task,) = Journal(None), tasks(1)
    journal.add(task, verdict_on(ROUND))
    assert journal.get(task) == verdict_on(ROUND)
    newer = replace(ROUND, version=ROUND.version + 1)
    monkeypatch.setattr(exercise_catalogue, "get", lambda key: newer)
    assert journal.get(task) is None


def test_nothing_in_a_journal_says_whose_answer_it_is(tmp_path):
    (tmp_path / "class").mkdir()
    honest(tmp_path / "class")
    journal = Journal(tmp_path / JOURNAL)
    grade(tmp_path / "class", journal=journal, judged_by=judge_here, jobs=1)
    journal.commit()
    raw = (tmp_path / JOURNAL).read_bytes()
    assert b"It passes" in raw or b"passed" in raw
    assert not [name for name in (b"ada", b"bob", b"zoe", b"ipynb") if name in raw]


def test_a_journal_that_a_student_hands_in_is_not_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    answer = Answer(f"def {ROUND.name}(x):\n    return 0.0\n", ROUND.name)
    (tmp_path / "eve.ipynb").write_text(notebook(checked(ROUND, answer.source)))
    journal = Journal(tmp_path / "marks" / JOURNAL)
    journal.begin(fences.summary(), ())
    journal.add((ROUND.id, answer), replace(verdict_on(ROUND, status=PASSED), points=9))
    assert grade(tmp_path, leave_out=tmp_path / "marks", journal=journal).students[0].total == 9
    assert cli.main(["grade", "."]) == 0
    assert f"{ROUND.id} {ROUND.title}: 0 of 1 pass" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.slow
def test_a_killed_grading_goes_on_where_it_was(tmp_path):
    (tmp_path / "class").mkdir()
    honest(tmp_path / "class")
    for number in range(8):
        source = f"def {ROUND.name}(x):\n    return {number}.0"
        (tmp_path / "class" / f"s{number}.ipynb").write_text(notebook(checked(ROUND, source)))
    command = [
        sys.executable,
        "-c",
        "from lplab import cli; raise SystemExit(cli.main())",
        "grade",
        "class",
        "--jobs=1",
    ]
    grading = subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": os.getcwd()})
    path = tmp_path / "marks" / JOURNAL
    end = time.monotonic() + 60
    while kept_in(path) < 5:
        assert time.monotonic() < end and grading.poll() is None
        time.sleep(0.05)
    grading.kill()
    grading.wait()
    journal = Journal(path)
    judged = len(journal)
    assert 3 <= judged < 13, "two verdicts at most were being written when it was killed"
    asked = []
    marks = grade(tmp_path / "class", journal=journal, judged_by=lambda e, a: asked.append(a) or judge(e, a))
    assert len(asked) == 13 - judged
    assert marks_object(marks) == marks_object(grade(tmp_path / "class"))
