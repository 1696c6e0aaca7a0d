"""The overview of a class: who got what, where answers stop, which mistakes are frequent, what was predicted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lplab
from lplab.exercises.grading.capstone_view import capstone_view
from lplab.exercises.grading.html_pages import Bar, bars, histogram, render
from lplab.exercises.grading.marks import MISSING, NOT_JUDGED, OUTCOMES, Class, Mark
from lplab.exercises.model.exercise import Exercise

MAX_MISTAKES = 12  # frequent mistakes listed for an exercise
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


def view_of(exercise: Exercise, marks: Sequence[Mark], most: float) -> ExerciseView:
    """The results of the class in one exercise that gives at most so many points."""
    answered = [mark for mark in marks if mark.status != MISSING]
    outcomes = Counter(mark.outcome for mark in marks)
    known = Counter(mark.misconception for mark in marks if mark.misconception)
    others = Counter(mark.complaint for mark in marks if mark.ring and not mark.misconception)
    return ExerciseView(
        exercise,
        bars([(LABELS[outcome], outcomes[outcome]) for outcome in OUTCOMES if outcomes[outcome]]),
        _frequent(known),
        _frequent(others),
        len(answered),
        sum(mark.points for mark in answered) / max(len(answered), 1),
        most,
    )


def _frequent(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_MISTAKES]


def questions_of(marks: Class) -> list[QuestionView]:
    """The predictions of all reports, question by question; guesses at another wording are counted apart."""
    guesses: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for student in marks.students:
        for key, guess in student.predictions.items():
            guesses[key, guess["question"]].append(guess)
    views = []
    for (key, question), some in sorted(guesses.items()):
        truth, unit = some[0]["truth"], some[0]["unit"]
        shown = truth if isinstance(truth, str) else f"{truth:g}{' ' * bool(unit)}{unit}"
        bars_of_guesses = histogram([guess["guess"] for guess in some], truth, unit)
        views.append(QuestionView(key, question, shown, len(some), bars_of_guesses))
    return views


def overview_page(marks: Class) -> str:
    """The page for the instructor."""
    return render(
        "overview.html",
        marks=marks,
        views=[
            view_of(exercise, marks.marks_of(exercise.id), marks.points_of(exercise)) for exercise in marks.exercises
        ],
        questions=questions_of(marks),
        capstone=capstone_view(marks.capstone, marks.students) if marks.capstone and marks.capstone.field else None,
        signs=SIGNS,
        labels=LABELS,
        missing=MISSING,
        version=lplab.__version__,
    )
