"""Every exercise proves itself: its solution passes, its stub is met politely, every known mistake is caught.

A new exercise gets these tests by being in the catalogue. ``-s`` prints the kill table.
"""

import time
from collections import Counter

import pytest

from lplab.exercises import catalogue
from lplab.exercises.answers import Answer
from lplab.exercises.exercise import RINGS
from lplab.exercises.judge import judge
from lplab.exercises.variants import function_of

EXERCISES = [catalogue.get(name) for name in catalogue.names()]
MISTAKES = [(exercise, mistake) for exercise in EXERCISES for mistake in exercise.mutants]


def verdict_on(exercise, source):
    return judge(exercise, Answer("import math\nimport numpy as np\n" + source, exercise.name))


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_the_solution_passes(exercise):
    verdict = judge(exercise, Answer(exercise.solution, exercise.name))
    assert verdict.passed, verdict.text
    assert verdict.points == exercise.points
    assert "passes all checks" in verdict.lines[0] and "correct" not in verdict.text


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_the_stub_is_met_politely(exercise):
    verdict = verdict_on(exercise, exercise.stub_source)
    assert verdict.status == ("failed" if exercise.starts_broken else "not yet"), verdict.text
    assert "Traceback" not in verdict.text and "Error" not in verdict.text


@pytest.mark.parametrize(("exercise", "mistake"), [pytest.param(e, m, id=f"{e.id}: {m.name}") for e, m in MISTAKES])
def test_every_known_mistake_is_caught_and_named(exercise, mistake):
    verdict = verdict_on(exercise, mistake.apply(exercise.solution))
    if mistake.equivalent:
        assert verdict.passed, f"it is said to be equivalent, but: {verdict.text}"
        return
    assert verdict.status == "failed", f"survived: {mistake.name}"
    assert verdict.ring in RINGS
    if verdict.ring != "form":
        assert verdict.misconception == mistake.name, verdict.text


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_legal_ways_pass_and_are_named(exercise):
    for way in exercise.conventions:
        verdict = verdict_on(exercise, way.apply(exercise.solution))
        assert verdict.passed and verdict.convention == way.name, verdict.text


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_there_are_enough_mistakes_and_they_differ(exercise):
    assert 8 <= len(exercise.mutants) <= 20
    sources = [mistake.apply(exercise.solution) for mistake in exercise.mutants]
    assert len(set(sources)) == len(sources) and exercise.solution not in sources
    for mistake in exercise.mutants:
        assert callable(function_of(exercise, mistake))


def test_the_eighteen_bugs_of_a_rounding_are_known():
    bugs = Counter(word for mistake in catalogue.get("01.2").mutants for word in (mistake.name,))
    assert len(bugs) >= 18


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_what_the_check_says_is_short(exercise):
    for mistake in exercise.mutants[:3]:
        verdict = verdict_on(exercise, mistake.apply(exercise.solution))
        assert len(verdict.lines) <= 7 and max(map(len, verdict.lines)) < 500, verdict.text


def kill_table():
    """For each exercise how many mistakes each ring caught."""
    rows = []
    for exercise in EXERCISES:
        begun = time.perf_counter()
        caught = Counter(
            "equivalent" if mistake.equivalent else verdict_on(exercise, mistake.apply(exercise.solution)).ring
            for mistake in exercise.mutants
        )
        seconds = (time.perf_counter() - begun) / len(exercise.mutants)
        rows.append(
            (exercise.id, len(exercise.mutants), *[caught[ring] for ring in (*RINGS, "equivalent")], f"{seconds:.2f} s")
        )
    return rows
