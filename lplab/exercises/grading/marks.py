"""The marks of a class as data: what every answer of every student got, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lplab.exercises.capstone.capstone_exercise import CapstoneJudge
from lplab.exercises.checks.verdict import NOT_JUDGED, NOT_YET, PASSED, Verdict
from lplab.exercises.grading.roster import Roster
from lplab.exercises.grading.similar import Alike
from lplab.exercises.grading.submissions import clean
from lplab.exercises.grading.weights import Weights
from lplab.exercises.model.exercise import STAGES, Exercise

MISSING = "not handed in"
OUTCOMES = (PASSED, *reversed(STAGES), NOT_YET, MISSING, NOT_JUDGED)  # how far an answer can get, best first
UNMARKED = (MISSING, NOT_YET, NOT_JUDGED)  # without points: nothing was handed in, or nobody has judged it


@dataclass(frozen=True)
class Mark:
    """What one answer got; `Verdict` explains the fields.

    >>> Mark("01.2").outcome
    'not handed in'
    """

    exercise: str
    status: str = MISSING
    ring: str = ""
    misconception: str = ""
    convention: str = ""
    points: float = 0.0
    right: int = 0
    total: int = 0
    lines: tuple[str, ...] = ()
    where: str = ""

    @property
    def passed(self) -> bool:
        """Whether the answer passes all checks."""
        return self.status == PASSED

    @property
    def outcome(self) -> str:
        """The furthest point that the answer reached: one of `OUTCOMES`."""
        return self.ring or self.status

    @property
    def message(self) -> str:
        """The message of the check without its last line, which tells the student what to do next."""
        return " ".join(self.lines[:-1] if self.ring else self.lines)

    @property
    def complaint(self) -> str:
        """The line that says what is wrong, the headline with its counts left out; "" after a pass."""
        return "" if self.passed else self.lines[min(1, len(self.lines) - 1)] if self.lines else ""


def mark_of(verdict: Verdict, where: str, all_or_nothing: bool) -> Mark:
    """The mark for a verdict; only passes count if ``all_or_nothing``."""
    points = 0.0 if all_or_nothing and not verdict.passed else float(verdict.points)
    return Mark(
        verdict.exercise, verdict.status, verdict.ring, verdict.misconception, verdict.convention, points,
        verdict.right, verdict.total, tuple(clean(line, 2000) for line in verdict.lines), where,
    )  # fmt: skip


@dataclass(frozen=True)
class Student:
    """One submission with its marks.

    Args:
        name, file: of the student, and the path in the folder of the class: of the file, or of a folder of several.
        marks: by exercise id; every exercise that is graded has one.
        notes: remarks about the file.
        problem: why it could not be graded, or "".
        predictions, history: from a report: see `Submission`.
        id, email: from the roster, "" without one.
        place: in the roster; None if the student is not in it.
        absent: whether the roster has the student, and nothing was handed in.
    """

    name: str
    file: str
    marks: Mapping[str, Mark] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problem: str = ""
    predictions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    history: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    id: str = ""
    email: str = ""
    place: int | None = None
    absent: bool = False

    @property
    def total(self) -> float:
        """All points."""
        return sum(mark.points for mark in self.marks.values())

    @property
    def remarks(self) -> str:
        """Problem and notes in one line."""
        if self.absent:
            return "; ".join([MISSING, *self.notes])
        return "; ".join([f"the file {self.problem}"] * bool(self.problem) + list(self.notes))


@dataclass(frozen=True)
class Similar:
    """Answers that are alike, and who gave them: name and file of each student. A hint, which no mark depends on."""

    alike: Alike
    students: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Class:
    """All students, sorted by name, the exercises that were graded, how many files there were, the rules.

    Args:
        exercises: that were graded.
        students: each is read from disk when it is asked for: go through them once rather than often.
        broken: students whose file could not be graded.
        marks_of: the marks for one exercise, by its id, of all files that could be read.
        all_or_nothing, each_file, weights, roster: as `grade` was told.
        files: how many there were.
        similar: answers that are alike; None where nobody looked for them.
        fence: what fenced the students' code.
        capstones: have the field that recipes of a capstone were compared with; of those that were handed in.
        capstone_seeds: that recipes were scored with; empty where there was none.
        judged, judging_seconds: how many different answers were judged this time, and how long that took.
        handed_in: each file, its student, whether it was read, and why not.
    """

    exercises: tuple[Exercise, ...]
    students: Sequence[Student]
    broken: Sequence[Student]
    marks_of: Callable[[str], Iterator[Mark]]
    all_or_nothing: bool = False
    files: int = 0
    each_file: bool = False
    weights: Weights = field(default_factory=Weights)
    roster: Roster | None = None
    similar: tuple[Similar, ...] | None = None
    fence: str = ""
    capstones: tuple[CapstoneJudge, ...] = ()
    judged: int = 0
    judging_seconds: float = 0.0
    capstone_seeds: tuple[int, ...] = ()
    handed_in: Callable[[], Iterable[tuple[str, str, str, str]]] = tuple

    def points_of(self, exercise: Exercise) -> float:
        """The points for a pass of one exercise: those of the weights, or its own."""
        return self.weights.points.get(exercise.id, exercise.points)

    @property
    def most_points(self) -> float:
        """The highest possible total."""
        return sum(self.points_of(exercise) for exercise in self.exercises)
