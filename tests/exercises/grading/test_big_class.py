"""A large class: made from the known mistakes, graded in constant memory, each different answer judged once."""

import gc
import json
import sys
import threading
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from lplab import cli
from lplab.exercises.checks.verdict import FAILED, Verdict
from lplab.exercises.grading import slicing
from lplab.exercises.grading.grading import grade
from lplab.exercises.grading.journal import Journal
from lplab.exercises.grading.judging import judge_all
from lplab.exercises.grading.marks import MISSING
from lplab.exercises.grading.marks_files import as_json, write_marks
from lplab.exercises.grading.overview import MAX_ROWS
from lplab.exercises.grading.workers import Workers
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue
from tests.exercises import big_class
from tests.exercises.in_process import judge_here, marks_object

SOME = ["00", "01"]
EXERCISES = [exercise for lab in SOME for exercise in exercise_catalogue.of_lab(lab)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A class of thirty."""
    made = tmp_path_factory.mktemp("thirty") / "class"
    big_class.write_class(made, 30, seed=1, labs=SOME)
    return made


@pytest.fixture(scope="module")
def given():
    """What the thirty gave, by the names of their files."""
    return {f"s{student:06}": big_class.answers_of(student, 1, labs=SOME) for student in range(30)}


@pytest.fixture(scope="module")
def graded(folder):
    """The class and its journal."""
    journal, asked = Journal(None), []
    marks = grade(folder, judged_by=lambda e, a: asked.append((e.id, a)) or judge_here(e, a), jobs=1, journal=journal)
    return marks, journal, asked


def test_every_student_gets_what_the_answers_deserve(graded, given):
    marks = graded[0]
    assert [student.name for student in marks.students] == sorted(given) and len(marks.broken) == 0
    for student in marks.students:
        for exercise in EXERCISES:
            mark, one = student.marks[exercise.id], given[student.name][exercise.id]
            where = f"{student.name} {exercise.id}: {one.kind}"
            assert mark.passed == (one.kind == big_class.SOLVED), where
            assert (mark.status == MISSING) == (one.kind == big_class.MISSING), where
            assert mark.points < exercise.points or mark.passed, where


def test_each_different_answer_is_judged_once(graded, given):
    marks, journal, asked = graded
    different = {(key, one.source) for some in given.values() for key, one in some.items() if one.source}
    assert len(asked) == len(set(asked)) == marks.judged == len(journal) == len(different)
    assert len(different) < sum(bool(one.source) for some in given.values() for one in some.values()) / 1.5


def test_a_grading_that_goes_on_judges_the_rest_and_gives_the_same_bytes(graded, folder):
    whole = as_json(marks_object(graded[0]))
    journal, asked = Journal(None), []

    def killed(exercise, answer):
        asked.append(answer)
        if len(asked) > 20:
            raise KeyboardInterrupt
        return judge_here(exercise, answer)

    with pytest.raises(KeyboardInterrupt):
        grade(folder, judged_by=killed, jobs=1, journal=journal)
    assert len(journal) == 20
    before = len(journal)
    marks = grade(folder, judged_by=judge_here, jobs=1, journal=journal)
    assert marks.judged == graded[0].judged - before and as_json(marks_object(marks)) == whole


def test_marks_that_are_written_student_by_student_are_one_json_object(graded, tmp_path):
    files = write_marks(graded[0], tmp_path)
    text = (tmp_path / "marks.json").read_text("utf-8")
    marks = json.loads(text)
    assert text == as_json(marks) and len(marks["students"]) == 30
    assert marks["fence"] and marks["capstone_seeds"] == [], "nobody handed in a recipe"
    assert len(files) == 5 + 30 == len([path for path in tmp_path.rglob("*") if path.is_file()])


def test_the_shares_are_those_of_a_class_and_the_seed_is_all(given):
    kinds = Counter(one.kind for some in given.values() for one in some.values())
    total = kinds.total()
    assert 0.5 < kinds[big_class.SOLVED] / total < 0.75 and min(kinds.values()) >= 1 and len(kinds) == 5
    assert big_class.answers_of(3, 1, labs=SOME) == given["s000003"] != big_class.answers_of(3, 2, labs=SOME)
    texts = [one.source for one in big_class.answers_of(3, 1, own=1.0).values() if one.source]
    assert all(text.endswith("# in the words of student 3\n") for text in texts)


def test_whole_labs_are_graded_like_their_answers_alone(tmp_path, graded):
    big_class.write_class(tmp_path / "class", 2, seed=1, whole_labs=True, labs=SOME)
    assert sorted(path.name[:2] for path in (tmp_path / "class" / "s000001").iterdir()) == SOME
    marks = grade(tmp_path / "class", judged_by=judge_here, jobs=1, journal=graded[1])
    assert marks.judged == 0, "the answers are the same texts"
    assert [student.total for student in marks.students] == [student.total for student in graded[0].students[:2]]


@pytest.mark.parametrize(("students", "own", "told"), [(0, 0, "one student or more"), (1, 2, "share from 0 to 1")])
def test_a_class_that_makes_no_sense_is_refused(students, own, told, tmp_path):
    with pytest.raises(ValueError, match=told):
        big_class.write_class(tmp_path / "class", students, 0, own)
    assert not (tmp_path / "class").exists()


def test_nothing_is_written_over(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    monkeypatch.setattr(sys, "argv", ["big_class", str(tmp_path), "--students", "1"])
    assert big_class.main() == 2 and capsys.readouterr().err == f"{tmp_path} is not empty\n"


# ---- memory ----------------------------------------------------------------------------------------------------------


def wrong(exercise, answer):
    return Verdict(exercise.id, exercise.version, exercise.title, FAILED, "form", ("headline", answer.source), 0, 6)


def peak_of(students, place):
    """Python's largest memory in MB while a class is graded in which all answers differ, and its marks are written."""
    (place / "class").mkdir(parents=True)
    for number in range(students):
        source = f"def midpoint(low, high):\n    return {number} * low\n\ncheck('00.1', midpoint)"
        cells = [{"cell_type": "code", "source": source}]
        text = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
        (place / "class" / f"s{number:06}.ipynb").write_text(text)
    # Python looks for old garbage once it is a quarter of all old objects: those of other tests must not count.
    gc.freeze()
    gc.collect()
    tracemalloc.start()
    try:
        marks = grade(place / "class", judged_by=wrong, jobs=2)
        write_marks(marks, place / "marks")
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_class(tmp_path, monkeypatch):
    """A student whose marks were held would take 3 kB and more for each exercise; names and paths take 1 kB."""
    monkeypatch.setattr("lplab.exercises.grading.overview.MAX_ROWS", 5)  # the page is as large as so many rows
    monkeypatch.setattr(slicing, "names_of", slicing.names_of.__wrapped__)  # its cache is bounded
    peak_of(3, tmp_path / "warm")
    few, many = peak_of(30, tmp_path / "few"), peak_of(330, tmp_path / "many")
    assert many < few + 0.6, f"{few:.2f} MB for thirty, {many:.2f} MB for three hundred more"


def test_the_page_of_a_large_class_shows_the_first_thousand(tmp_path, monkeypatch):
    monkeypatch.setattr("lplab.exercises.grading.overview.MAX_ROWS", 2)
    assert MAX_ROWS == 1000
    big_class.write_class(tmp_path / "class", 3, seed=1, labs=["00"])
    (tmp_path / "class" / "x.ipynb").write_text("{")
    write_marks(grade(tmp_path / "class", judged_by=wrong, jobs=1), tmp_path / "marks")
    page = (tmp_path / "marks" / "overview.html").read_text("utf-8")
    assert "The first 2 students; marks.csv has all." in page and "Marks of 4 submissions" in page
    assert "s000001</th>" in page and "s000002</th>" not in page


# ---- a cluster -------------------------------------------------------------------------------------------------------


def test_a_scheduler_that_does_not_answer_gets_one_line(folder, tmp_path, capsys, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("lplab.exercises.grading.workers.CONNECT_SECONDS", 1)
    with pytest.raises(SystemExit) as stop:
        cli.main(["grade", str(folder), "--lab", "00", "--dask", "tcp://127.0.0.1:9", "--out", str(tmp_path / "marks")])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and "no Dask scheduler answers at tcp://127.0.0.1:9" in said and said.count("\n") == 1


def test_a_scheduler_that_does_not_answer_is_told_before_anything_is_done(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("lplab.exercises.grading.workers.CONNECT_SECONDS", 1)
    done = []
    monkeypatch.setattr("lplab.exercises.grading.grading.read_submission", lambda *args: done.append(args))
    (tmp_path / "ada.ipynb").write_text("{}")
    with pytest.raises(ValueError, match="no Dask scheduler answers"):
        grade(tmp_path, scheduler="tcp://127.0.0.1:9", capstone_judge=lambda *args: done.append(args))
    assert not done


def test_recipes_are_judged_on_the_machine_that_grades(tmp_path):
    """There float32 was trained, with which they are compared."""
    with ThreadPoolExecutor(1, "cluster") as cluster, ThreadPoolExecutor(1, "here") as here:
        seen = set()

        def judge_one(exercise, answer):
            seen.add((exercise.id, threading.current_thread().name.partition("_")[0]))
            if exercise.id == "00.2":
                raise ValueError("once more")
            return wrong(exercise, answer)

        some = [
            ("00.1", Answer("1", "f")),
            ("00.2", Answer("2", "f")),
            ("14.4", Answer("{}", "f")),
        ]
        judge_all([some], Workers(cluster, 1, "", here), Journal(None), judge_one)
    assert seen == {("00.1", "cluster"), ("00.2", "cluster"), ("14.4", "here")}


@pytest.mark.parametrize(
    ("more", "told"),
    [(["--jobs", "2"], "leave --jobs out"), (["--in-container"], "leave --dask out")],
)
def test_what_does_not_go_with_a_cluster(more, told, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lplab.cli.grade.find_spec", lambda name: object())
    with pytest.raises(SystemExit):
        cli.main(["grade", str(tmp_path), "--dask", "tcp://127.0.0.1:9", *more])
    assert told in capsys.readouterr().err


def test_without_dask_the_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lplab.cli.grade.find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        cli.main(["grade", str(tmp_path), "--dask", "tcp://127.0.0.1:9"])
    assert "pip install 'lplab[cluster]'" in capsys.readouterr().err


@pytest.fixture
def cluster():
    """A local cluster of two workers, each a process."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs="ERROR"
    ) as made:
        yield made


@pytest.mark.slow
def test_two_workers_of_a_cluster_give_the_same_bytes(cluster, tmp_path, capsys):
    big_class.write_class(tmp_path / "class", 8, seed=1, labs=["00"])
    here = grade(tmp_path / "class", jobs=1)
    out = tmp_path / "marks"
    assert cli.main(["grade", str(tmp_path / "class"), "--dask", cluster.scheduler_address, "--out", str(out)]) == 0
    assert f"{here.judged} different answers were judged, in " in capsys.readouterr().out and here.judged > 5
    assert (out / "marks.json").read_text("utf-8") == as_json(marks_object(here))


@pytest.mark.slow
def test_workers_of_another_version_are_refused(cluster, folder, monkeypatch):
    monkeypatch.setattr("lplab.__version__", "0.0.1")
    with pytest.raises(ValueError, match=r"has lplab .*; here is lplab 0\.0\.1"):
        grade(folder, scheduler=cluster.scheduler_address)
