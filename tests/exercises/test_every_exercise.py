"""Every exercise: its solution passes, its stub is reported as not yet done, every known mistake is caught.

A new exercise gets these tests by being in the catalogue. ``lplab exercises --kills`` prints the kill table.
Mistakes are judged in this process, and some of each exercise in a child, too: both verdicts must be the same.
"""

import dataclasses
import functools
from pathlib import Path

import pytest

from lplab.cli import main
from lplab.exercises import pages
from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.variants import function_of
from lplab.exercises.checks.verdict import Verdict
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.model.exercise import STAGES
from tests.exercises.in_process import judge_here
from tests.kinds import tiered

PROJECT = Path(__file__).parents[2]
NAMES = exercise_catalogue.names()
BY_DEFAULT = NAMES[1::6]  # the exercises whose mistakes are judged by default
COMPARED = {field.name for field in dataclasses.fields(Verdict)} - {"counterexample", "seconds"}


each_exercise = pytest.mark.parametrize("exercise", NAMES, indirect=True)
each_exercise_with_its_mistakes = pytest.mark.parametrize(
    "exercise", tiered(NAMES, lambda name: name in BY_DEFAULT), indirect=True
)


@pytest.fixture
def exercise(request):
    return exercise_catalogue.get(request.param)


def answer_with(exercise, source):
    return Answer("import math\nimport numpy as np\n" + source, exercise.name)


@functools.cache
def verdict_on_mistake(name, number):
    exercise = exercise_catalogue.get(name)
    return judge_here(exercise, answer_with(exercise, exercise.mistakes[number].apply(exercise.solution)))


def kinds_of_mistakes(exercise):
    """The first mistake of each kind: by the stage that catches it, and by whether it raises or makes numpy warn."""
    found = {}
    for number, mistake in enumerate(exercise.mistakes):
        verdict = verdict_on_mistake(exercise.id, number)
        found.setdefault((verdict.ring, bool(mistake.raises), bool(verdict.printed)), number)
    return list(found.values())


@each_exercise
def test_the_solution_passes(exercise):
    verdict = judge(exercise, Answer(exercise.solution, exercise.name))
    assert verdict.passed, verdict.text
    assert verdict.points == exercise.points
    assert "passes all checks" in verdict.lines[0] and "correct" not in verdict.text


@each_exercise
def test_the_stub_is_met_politely(exercise):
    verdict = judge(exercise, answer_with(exercise, exercise.stub_source))
    assert verdict.status == ("failed" if exercise.is_repair else "not yet"), verdict.text
    assert "Traceback" not in verdict.text and "Error" not in verdict.text


def complaint(mistake, verdict):
    """What is wrong with the verdict on a known mistake, if anything."""
    if mistake.equivalent:
        return "" if verdict.passed else f"it is said to be equivalent, but: {verdict.text}"
    if verdict.status != "failed" or verdict.ring not in STAGES:
        return "it survived"
    return "" if verdict.ring == "form" or verdict.misconception == mistake.name else verdict.text


@each_exercise_with_its_mistakes
def test_every_known_mistake_is_caught_and_named(exercise):
    found = {one.name: complaint(one, verdict_on_mistake(exercise.id, k)) for k, one in enumerate(exercise.mistakes)}
    assert len(found) == len(exercise.mistakes)
    assert not {name: text for name, text in found.items() if text}


NOTHING_BETWEEN = ("00.2", "01.3", "01.4", "07.3")  # one search or one table, which is right or wrong as a whole


def points_of_mistakes(exercise):
    """What each known mistake earns."""
    return [
        verdict_on_mistake(exercise.id, number).points
        for number, mistake in enumerate(exercise.mistakes)
        if not mistake.equivalent
    ]


@each_exercise_with_its_mistakes
def test_a_known_mistake_earns_something_between_a_blank_and_a_pass(exercise):
    points = points_of_mistakes(exercise)
    assert min(points) >= 0 and max(points) <= 2 / 3 * exercise.points
    assert any(points) == (exercise.id not in NOTHING_BETWEEN)


@pytest.mark.slow
def test_most_known_mistakes_earn_something():
    points = [each for name in NAMES for each in points_of_mistakes(exercise_catalogue.get(name))]
    told = (PROJECT / "docs" / "teaching.md").read_text("utf-8")
    assert f"Of {len(points)} known mistakes {sum(map(bool, points))} earn something." in told
    assert sum(map(bool, points)) > 0.7 * len(points)


@pytest.mark.slow
def test_who_returns_the_input_or_zeros_earns_next_to_nothing():
    bodies = ("a[0]", "0.0", "np.zeros_like(a[0])", "(0.0, 0.0)", "(0.0, 0.0, 0.0)", "np.asarray(a[0]) * 1.0")
    best = []
    for exercise in map(exercise_catalogue.get, NAMES):
        sources = [f"import numpy as np\ndef {exercise.name}(*a):\n    return {body}\n" for body in bodies]
        best.append(max(judge_here(exercise, Answer(source, exercise.name)).points for source in sources))
    assert max(best) <= 1 and sum(map(bool, best)) <= 5


@each_exercise_with_its_mistakes
def test_a_child_gives_the_same_verdict(exercise):
    """For one mistake of each kind: the other tests do not start the child process that students' checks use."""
    for number in kinds_of_mistakes(exercise):
        here = verdict_on_mistake(exercise.id, number)
        there = judge(exercise, answer_with(exercise, exercise.mistakes[number].apply(exercise.solution)))
        assert all(getattr(there, name) == getattr(here, name) for name in COMPARED)


@each_exercise
def test_legal_ways_pass_and_are_named(exercise):
    for way in exercise.conventions:
        verdict = judge_here(exercise, answer_with(exercise, way.apply(exercise.solution)))
        assert verdict.passed and verdict.convention == way.name, verdict.text


@each_exercise
def test_there_are_enough_mistakes_and_they_differ(exercise):
    assert 8 <= len(exercise.mistakes) <= 20
    sources = [mistake.apply(exercise.solution) for mistake in exercise.mistakes]
    assert len(set(sources)) == len(sources) and exercise.solution not in sources
    for mistake in exercise.mistakes:
        assert callable(function_of(exercise, mistake))


def test_the_nineteen_mistakes_of_a_rounding_are_known():
    assert len(exercise_catalogue.get("01.2").mistakes) == 19


@each_exercise_with_its_mistakes
def test_what_the_check_says_is_short(exercise):
    for number in range(len(exercise.mistakes)):
        verdict = verdict_on_mistake(exercise.id, number)
        assert len(verdict.lines) <= 7 and max(map(len, verdict.lines)) < 500, verdict.text


# ---- the documentation, which is made of the verdicts ----------------------------------------------------------------


@each_exercise_with_its_mistakes
def test_its_page_says_which_stage_catches_each_mistake(exercise, monkeypatch, capsys):
    judged = lambda exercise, mistake: verdict_on_mistake(exercise.id, exercise.mistakes.index(mistake))  # noqa: E731
    monkeypatch.setattr(pages, "verdict_on", judged)
    assert main(["exercises", exercise.id]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][1:]
    assert [line.rpartition(" | ")[0] for line in rows] == [f"| {mistake.name}" for mistake in exercise.mistakes]
    for line, mistake in zip(rows, exercise.mistakes, strict=True):
        stage = line.rpartition(" | ")[2].removesuffix(" |").partition(":")[0]
        assert stage == (pages.EQUIVALENT if mistake.equivalent else judged(exercise, mistake).ring), line


def test_all_pages_have_a_head_and_no_solution(capsys, monkeypatch):
    monkeypatch.setattr(pages, "caught_by", lambda exercise, mistake: STAGES[0])
    assert main(["exercises", "--all"]) == 0
    made = capsys.readouterr().out
    assert made.startswith("# The exercises\n") and made.count("\n## Exercise ") == len(NAMES)
    for name in NAMES:
        assert exercise_catalogue.get(name).solution.rpartition('"""')[2].strip() not in made


def test_the_kill_table_counts_and_a_survivor_is_an_error(capsys, monkeypatch):
    rings = iter(["form", "named examples", "boundary set", pages.SURVIVES, *["properties"] * 20])
    monkeypatch.setattr(pages, "caught_by", lambda exercise, mistake: next(rings))
    assert main(["exercises", "00.1", "--kills"]) == 1
    assert "| 00.1 | 8 | 1 | 1 | 1 | 4 |  | 1 |" in capsys.readouterr().out
