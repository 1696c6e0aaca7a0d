"""Every exercise proves itself: its solution passes, its stub is met politely, every known mistake is caught.

A new exercise gets these tests by being in the catalogue. ``lplab exercises --kills`` prints the kill table.
"""

import functools
from pathlib import Path

import pytest

from lplab.cli import main
from lplab.exercises import catalogue, pages
from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.variants import function_of
from lplab.exercises.exercise import RINGS
from lplab.exercises.isolation.answers import Answer

PROJECT = Path(__file__).parents[2]
EXERCISES = [catalogue.get(name) for name in catalogue.names()]
MISTAKES = [(exercise, mistake) for exercise in EXERCISES for mistake in exercise.mutants]


def verdict_on(exercise, source):
    return judge(exercise, Answer("import math\nimport numpy as np\n" + source, exercise.name))


@functools.cache
def verdict_on_mistake(name, number):
    exercise = catalogue.get(name)
    return verdict_on(exercise, exercise.mutants[number].apply(exercise.solution))


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
    verdict = verdict_on_mistake(exercise.id, exercise.mutants.index(mistake))
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


def test_the_eighteen_mistakes_of_a_rounding_are_known():
    assert len(catalogue.get("01.2").mutants) == 18


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_what_the_check_says_is_short(exercise):
    for number in range(len(exercise.mutants)):
        verdict = verdict_on_mistake(exercise.id, number)
        assert len(verdict.lines) <= 7 and max(map(len, verdict.lines)) < 500, verdict.text


def test_the_documentation_is_what_the_exercises_say(capsys, monkeypatch):
    judged = lambda exercise, mistake: verdict_on_mistake(exercise.id, exercise.mutants.index(mistake))  # noqa: E731
    monkeypatch.setattr(pages, "verdict_on", judged)
    assert main(["exercises", "--all"]) == 0
    made = capsys.readouterr().out
    assert made == (PROJECT / "docs" / "exercises.md").read_text("utf-8"), (
        "run: lplab exercises --all > docs/exercises.md"
    )
    for exercise in EXERCISES:
        assert exercise.solution.rpartition('"""')[2].strip() not in made


def test_the_kill_table_counts_and_a_survivor_is_an_error(capsys, monkeypatch):
    rings = iter(["form", "named examples", "boundary set", pages.SURVIVES, *["properties"] * 20])
    monkeypatch.setattr(pages, "caught_by", lambda exercise, mistake: next(rings))
    assert main(["exercises", "00.1", "--kills"]) == 1
    assert "| 00.1 | 8 | 1 | 1 | 1 | 4 |  | 1 |" in capsys.readouterr().out
