"""The overview of a class: who got what, where answers stop, which mistakes are frequent, what was predicted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import lplab
from lplab.exercises.checks.verdict import NOT_JUDGED
from lplab.exercises.grading.capstone_view import capstone_view
from lplab.exercises.grading.html_pages import Bar, bars, histogram, render
from lplab.exercises.grading.marks import MISSING, OUTCOMES, UNMARKED, Class, Mark, Student
from lplab.exercises.model.exercise import Exercise

MAX_MISTAKES = 12  # frequent mistakes listed for an exercise
MAX_ROWS = 1000  # students in a table of the page: a browser shows no larger one; marks.csv has all
LABELS = {  # of a mark's outcome
    "passed": "passes all checks",
    "properties": "fails a property",
    "boundary set": "fails in the boundary set",
    "named examples": "fails an example",
    "form": "fails in form",
    "not yet": "stub not filled in",
    MISSING: "not handed in",
    NOT_JUDGED: "could not be judged",
}
SIGNS = {"passed": "✓", "not yet": "…", MISSING: "–", NOT_JUDGED: "?"}  # in the table, beside the points; else ✗


@dataclass(frozen=True)
class ExerciseView:
    """One exercise in a class: how far its answers came, frequent mistakes with their counts, mean points."""

    exercise: Exercise
    outcomes: Sequence[Bar]
    misconceptions: Sequence[tuple[str, int]]
    complaints: Sequence[tuple[str, int]]
    answers: int
    mean: float
    most: float


@dataclass(frozen=True)
class QuestionView:
    """All guesses at one question."""

    id: str
    question: str
    truth: str
    count: int
    bars: Sequence[Bar]


def view_of(exercise: Exercise, marks: Iterable[Mark], most: float) -> ExerciseView:
    """The results of the class in one exercise that gives at most so many points."""
    outcomes, known, others = Counter[str](), Counter[str](), Counter[str]()
    answers, points = 0, 0.0
    for mark in marks:
        outcomes[mark.outcome] += 1
        answers += mark.status != MISSING
        points += mark.points
        if mark.misconception:
            known[mark.misconception] += 1
        elif mark.ring:
            others[mark.complaint] += 1
    return ExerciseView(
        exercise,
        bars([(LABELS[outcome], outcomes[outcome]) for outcome in OUTCOMES if outcomes[outcome]]),
        _frequent(known),
        _frequent(others),
        answers,
        points / max(answers, 1),
        most,
    )


def _frequent(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_MISTAKES]


def questions_of(students: Iterable[Student]) -> list[QuestionView]:
    """The predictions of all reports, question by question; guesses at another wording are counted apart."""
    guesses: dict[tuple[str, str], list[float | str]] = defaultdict(list)
    truths: dict[tuple[str, str], tuple[float | str, str]] = {}
    for student in students:
        for key, guess in student.predictions.items():
            guesses[key, guess["question"]].append(guess["guess"])
            truths.setdefault((key, guess["question"]), (guess["truth"], guess["unit"]))
    views = []
    for (key, question), some in sorted(guesses.items()):
        truth, unit = truths[key, question]
        shown = truth if isinstance(truth, str) else f"{truth:g}{' ' * bool(unit)}{unit}"
        views.append(QuestionView(key, question, shown, len(some), histogram(some, truth, unit)))
    return views


def overview_page(marks: Class) -> str:
    """The page for the instructor."""
    return render(
        "overview.html",
        marks=marks,
        views=[
            view_of(exercise, marks.marks_of(exercise.id), marks.points_of(exercise)) for exercise in marks.exercises
        ],
        questions=questions_of(marks.students),
        students=islice(marks.students, MAX_ROWS),
        broken=islice(marks.broken, MAX_ROWS),
        most_rows=MAX_ROWS,
        capstones=[capstone_view(each, marks.students) for each in marks.capstones if each.field],
        signs=SIGNS,
        labels=LABELS,
        unmarked=UNMARKED,
        version=lplab.__version__,
    )
