"""What the progress file holds, as data: a record for each exercise, for each question a guess or a skip."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from lplab.exercises.checks.verdict import NOT_YET, Verdict
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.progress.safe_file import CorruptFileError

KINDS: dict[str, type | tuple[type, ...]] = {  # what a field of that type may hold in a file
    "int": int,
    "float": (int, float),
    "str": str,
    "float | str": (int, float, str),
}


@dataclass(frozen=True)
class ExerciseRecord:
    """What is known of one exercise; times are UTC, "" means never.

    Args:
        attempts: different answers that were checked; the same one again, or an empty stub, counts as none.
        status, ring, misconception, convention, version, seconds: of the latest check.
        points, most_points: the best so far, of how many.
        passed_version, passed_at: of the exercise when it was first passed, and the time; 0 and "" before that.
        hints: opened so far.
        solution_at: when the solution was first shown.
        function, latest: name and source of the latest answer.
        passing_function, passing: name and source of the latest passing answer; files of early versions lack the name.
    """

    attempts: int = 0
    status: str = ""
    ring: str = ""
    misconception: str = ""
    convention: str = ""
    version: int = 0
    seconds: float = 0.0
    points: float = 0.0
    most_points: int = 0
    passed_version: int = 0
    passed_at: str = ""
    hints: int = 0
    solution_at: str = ""
    function: str = ""
    latest: str = ""
    passing: str = ""
    passing_function: str = ""

    @property
    def passed(self) -> bool:
        """Whether some answer has passed all checks."""
        return bool(self.passed_at)

    def after(self, verdict: Verdict, answer: Answer | None, now: str) -> ExerciseRecord:
        """The record after one more check."""
        source = answer.source if answer else ""
        first_pass = verdict.passed and not self.passed
        passes = verdict.passed and answer is not None
        return replace(
            self,
            attempts=self.attempts + (verdict.status != NOT_YET and (not source or source != self.latest)),
            **{name: getattr(verdict, name) for name in ("status", "ring", "misconception", "convention", "version")},
            seconds=round(float(verdict.seconds), 4),
            points=max(self.points, float(verdict.points)),
            most_points=verdict.most_points,
            passed_version=verdict.version if first_pass else self.passed_version,
            passed_at=now if first_pass else self.passed_at,
            function=answer.name if answer else self.function,
            latest=source or self.latest,
            passing=source if passes else self.passing,
            passing_function=answer.name if answer and passes else self.passing_function,
        )


@dataclass(frozen=True)
class Guess:
    """A prediction as it was locked: numbers or text; infinities and NaN as text, since JSON has none."""

    question: str = ""
    guess: float | str = ""
    truth: float | str = ""
    unit: str = ""
    time: str = ""


@dataclass(frozen=True)
class OwnRecipe:
    """The recipe of a capstone that was scored last.

    Args:
        recipe: its data as JSON.
        bits, seconds: its costs in lab 14.
        sent, positions, meetings: its costs in lab 16.
        gaps, seeds: its gap on each seed of practice, and these seeds, with blanks between.
        diverged: on how many of them its training diverged.
        scored: how many different recipes were scored so far.
        time: of the last score, UTC.
    """

    recipe: str = ""
    bits: float = 0.0
    seconds: float = 0.0
    sent: float = 0.0
    positions: float = 0.0
    meetings: float = 0.0
    gaps: str = ""
    seeds: str = ""
    diverged: int = 0
    scored: int = 0
    time: str = ""


@dataclass(frozen=True)
class ProgressState:
    """The contents of the file."""

    exercises: Mapping[str, ExerciseRecord] = field(default_factory=dict)
    predictions: Mapping[str, Guess] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)  # by question: its wording, as another one is asked again
    capstone: OwnRecipe = field(default_factory=OwnRecipe)  # of lab 14
    meetings: OwnRecipe = field(default_factory=OwnRecipe)  # of lab 16

    def with_record(self, exercise_id: str, change: Callable[[ExerciseRecord], ExerciseRecord]) -> ProgressState:
        """The state after a change of one exercise's record."""
        changed = change(self.exercises.get(exercise_id, ExerciseRecord()))
        return replace(self, exercises={**self.exercises, exercise_id: changed})

    def with_guess(self, question_id: str, guess: Guess) -> ProgressState:
        """The state after a prediction; the first guess at a question stays."""
        known = self.predictions.get(question_id)
        if known and known.question == guess.question:
            return self
        return replace(self, predictions={**self.predictions, question_id: guess})

    def with_skipped(self, question_id: str, question: str) -> ProgressState:
        """The state after a question was skipped."""
        return replace(self, skipped={**self.skipped, question_id: question})

    def with_capstone(self, key: str, scored: OwnRecipe) -> ProgressState:
        """The state after a recipe of the capstone of this key was scored; the same one again counts once."""
        known: OwnRecipe = getattr(self, key)
        changed: dict[str, Any] = {key: replace(scored, scored=known.scored + (scored.recipe != known.recipe))}
        return replace(self, **changed)


def state_of(data: Mapping[str, Any]) -> ProgressState:
    """The contents of a file as a `ProgressState`; CorruptFileError if a value is not of its type."""
    try:
        return ProgressState(
            {key: _checked(ExerciseRecord, values) for key, values in data.get("exercises", {}).items()},
            {key: _checked(Guess, values) for key, values in data.get("predictions", {}).items()},
            {key: _checked_text(question) for key, question in data.get("skipped", {}).items()},
            *(_checked(OwnRecipe, data.get(key, {})) for key in ("capstone", "meetings")),
        )
    except (AttributeError, TypeError) as error:
        raise CorruptFileError(str(error)) from error


def _checked_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _checked(kind: type, values: Mapping[str, Any]) -> Any:
    if not isinstance(values, Mapping):
        raise TypeError(f"{values!r} is no object")
    known = {spot.name: values[spot.name] for spot in fields(kind) if spot.name in values}
    for spot in fields(kind):
        value = known.get(spot.name, spot.default)
        absurd = isinstance(value, int) and abs(value) > 10**15
        if absurd or isinstance(value, bool) or not isinstance(value, KINDS[str(spot.type)]):
            raise TypeError(f"{spot.name} is {value!r}")
    return kind(**known)
