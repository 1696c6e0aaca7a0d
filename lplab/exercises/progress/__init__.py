"""A student's progress in one local file: attempts, points, answers, hints, predictions.

The file is progress.json in the user's data folder, or wherever the environment variable LPLAB_PROGRESS points. If it
cannot be written, one line says so, all else works, and the changes are written the next time. In a browser it is
progress.json beside the notebook, which the browser keeps; where a package that the file needs is missing, progress is
kept in memory (`storage_place` says which of these it is).
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lplab.exercises.checks.verdict import Verdict
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.progress.records import ExerciseRecord, Guess, OwnRecipe, ProgressState, state_of
from lplab.exercises.progress.safe_file import CorruptFileError, MemoryFile, NotSavedError, SafeFile
from lplab.lookup import refuse_calls

if TYPE_CHECKING:
    from lplab.exercises.progress.bar import ProgressBar

SCHEMA = 1
UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}  # none yet: 1 is the first schema


class Progress:
    """The progress kept in one file.

    Args:
        path: of the file; None keeps it in memory.
        notify: called with one line when something is wrong with the file; each line once.

    >>> import tempfile
    >>> progress = Progress(Path(tempfile.mkdtemp()) / "progress.json")
    >>> progress.open_hint("01.2")
    1
    >>> progress.record_prediction("01.codes", "How many codes are NaN?", 12, 2, "codes")
    >>> progress.hints_opened("01.2"), progress.prediction("01.codes")
    (1, 12.0)
    """

    def __init__(self, path: str | os.PathLike[str] | None, notify: Callable[[str], Any] = print) -> None:
        self._file = MemoryFile(SCHEMA) if path is None else SafeFile(Path(path), SCHEMA, UPGRADES)
        self._notify, self._notified = notify, set[str]()
        self._pending: list[Callable[[ProgressState], ProgressState]] = []  # changes not yet in the file

    @property
    def state(self) -> ProgressState:
        """The current state, including changes that could not be written."""
        try:
            state = state_of(self._file.read())
        except (NotSavedError, CorruptFileError):
            state = ProgressState()
        for change in self._pending:
            state = change(state)
        return state

    def problem(self) -> str:
        """Why the file cannot be read, in one line; "" if it can, or is not there yet."""
        try:
            state_of(self._file.read())
        except NotSavedError as problem:
            return str(problem)
        except CorruptFileError:
            return f"{self._file.path} is corrupt; the next check renames it and begins a new one"
        return ""

    def _change(self, change: Callable[[ProgressState], ProgressState]) -> None:
        self._pending.append(change)
        try:
            with self._file.locked():
                self._write()
        except NotSavedError as problem:
            self._notify_once(f"Your progress is not being saved: {problem}. Checks work all the same.")

    def _write(self) -> None:
        try:
            state = state_of(self._file.read())
        except CorruptFileError:
            other = self._file.set_aside()
            self._notify_once(f"Your progress file could not be read. It is kept as {other}, and a new one was begun.")
            state = ProgressState()
        for change in self._pending:
            state = change(state)
        self._file.write(asdict(state))
        self._pending.clear()

    def _notify_once(self, sentence: str) -> None:
        if sentence not in self._notified:
            self._notified.add(sentence)
            self._notify(sentence)

    def of(self, exercise_id: str) -> ExerciseRecord:
        """The record of an exercise; an empty one if nothing is known."""
        return self.state.exercises.get(exercise_id, ExerciseRecord())

    def of_lab(self, lab: str) -> dict[str, ExerciseRecord]:
        """The records of a lab such as "01", by exercise id, sorted; exercises that were never touched are missing."""
        return {key: value for key, value in sorted(self.state.exercises.items()) if key[:2] == lab}

    def has_passed(self, exercise_id: str) -> bool:
        """Whether some answer to the exercise has passed all checks."""
        return self.of(exercise_id).passed

    def record(self, verdict: Verdict, answer: Answer | None = None) -> None:
        """Note the result of a check, and the answer that was checked."""
        now = _now()
        self._change(lambda state: state.with_record(verdict.exercise, lambda old: old.after(verdict, answer, now)))

    def hints_opened(self, exercise_id: str) -> int:
        """How many hints of an exercise have been opened."""
        return self.of(exercise_id).hints

    def open_hint(self, exercise_id: str, number: int | None = None) -> int:
        """Note that hint ``number`` (from 1; by default the next) is open; returns how many are."""
        count = self.hints_opened(exercise_id) + 1 if number is None else number
        change: Callable[[ExerciseRecord], ExerciseRecord] = lambda old: replace(old, hints=max(old.hints, count))  # noqa: E731
        self._change(lambda state: state.with_record(exercise_id, change))
        return self.hints_opened(exercise_id)

    def solution_seen(self, exercise_id: str) -> None:
        """Note that the solution was shown."""
        now = _now()

        def change(old: ExerciseRecord) -> ExerciseRecord:
            return replace(old, solution_at=old.solution_at or now)

        self._change(lambda state: state.with_record(exercise_id, change))

    def record_prediction(self, question_id: str, question: str, guess: Any, truth: Any, unit: str = "") -> None:
        """Note a guess and the truth; a second guess at the same question changes nothing."""
        locked = Guess(question, _plain(guess), _plain(truth), unit, _now())
        self._change(lambda state: state.with_guess(question_id, locked))

    def prediction(self, question_id: str) -> float | str | None:
        """The recorded guess, or None."""
        known = self.state.predictions.get(question_id)
        return known.guess if known else None

    def skip_prediction(self, question_id: str, question: str) -> None:
        """Note that the answer to a question was shown without a guess."""
        self._change(lambda state: state.with_skipped(question_id, question))

    def has_skipped(self, question_id: str, question: str) -> bool:
        """Whether the question, in this wording, was skipped."""
        return self.state.skipped.get(question_id) == question

    def record_capstone(
        self,
        key: str,
        recipe: str,
        costs: Mapping[str, float],
        gaps: Sequence[float],
        seeds: Sequence[int],
        diverged: int,
    ) -> None:
        """Note a recipe of a capstone, as JSON text, with its score; it takes the place of the one before."""
        numbers: dict[str, Any] = {name: float(value) for name, value in costs.items()}
        scored = OwnRecipe(
            recipe,
            **numbers,
            gaps=" ".join(f"{gap:.6f}" for gap in gaps),
            seeds=" ".join(map(str, seeds)),
            diverged=diverged,
            time=_now(),
        )
        self._change(lambda state: state.with_capstone(key, scored))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _plain(value: Any) -> float | str:
    """A number as a float, text as it is.

    >>> _plain(3), _plain("half"), _plain(math.inf)
    (3.0, 'half', 'inf')
    """
    if isinstance(value, str):
        return value
    return float(value) if math.isfinite(float(value)) else str(float(value))


# ---- the student's own file ------------------------------------------------------------------------------------------


def progress_path() -> Path | None:
    """Where the student's file is: LPLAB_PROGRESS, or progress.json in the user's data folder; None: in memory."""
    if missing_packages():
        return None
    if named := os.environ.get("LPLAB_PROGRESS"):
        return Path(named)
    if _in_a_browser():
        return Path("progress.json")
    import platformdirs

    try:
        return platformdirs.user_data_path("lplab", appauthor=False) / "progress.json"
    except RuntimeError:  # a user without a home folder, as in some containers
        return None


def storage_place() -> str:
    """Where progress is kept, if not in the user's data folder, as the end of a sentence; "" for that folder."""
    if missing := missing_packages():
        return f"until this kernel ends, since {' and '.join(missing)} cannot be imported"
    if progress_path() is None:
        return "until this kernel ends, since this user has no home folder: LPLAB_PROGRESS names a file"
    return "in this browser" if _in_a_browser() else ""


@cache
def missing_packages() -> tuple[str, ...]:
    """The packages that a safe file needs and that are not installed; a browser needs none.

    >>> missing_packages()
    ()
    """
    missing = []
    for name in () if _in_a_browser() else ("filelock", "platformdirs"):
        try:
            import_module(name)
        except ImportError:
            missing.append(name)
    return tuple(missing)


def _in_a_browser() -> bool:
    return sys.platform == "emscripten"


@lru_cache(maxsize=8)
def _at(path: Path | None) -> Progress:
    return Progress(path)


def default_progress() -> Progress:
    """The student's progress."""
    return _at(progress_path())


def record(verdict: Verdict, answer: Answer | None = None) -> None:
    """Note the result of a check, and the answer that was checked, in the student's file."""
    default_progress().record(verdict, answer)


def has_passed(exercise_id: str) -> bool:
    """Whether some answer of the student to the exercise has passed all checks."""
    return default_progress().has_passed(exercise_id)


def hints_opened(exercise_id: str) -> int:
    """How many hints of an exercise the student has opened."""
    return default_progress().hints_opened(exercise_id)


def open_hint(exercise_id: str, number: int | None = None) -> int:
    """Note in the student's file that hint ``number`` (from 1; by default the next) is open; returns how many are."""
    return default_progress().open_hint(exercise_id, number)


def solution_seen(exercise_id: str) -> None:
    """Note in the student's file that the solution was shown."""
    default_progress().solution_seen(exercise_id)


def record_prediction(question_id: str, question: str, guess: Any, truth: Any, unit: str = "") -> None:
    """Note a guess and the truth in the student's file; a second guess at the same question changes nothing."""
    default_progress().record_prediction(question_id, question, guess, truth, unit)


def prediction(question_id: str) -> float | str | None:
    """The student's recorded guess at a question, or None."""
    return default_progress().prediction(question_id)


def skip_prediction(question_id: str, question: str) -> None:
    """Note in the student's file that the answer to a question was shown without a guess."""
    default_progress().skip_prediction(question_id, question)


def has_skipped(question_id: str, question: str) -> bool:
    """Whether the student has skipped the question, in this wording."""
    return default_progress().has_skipped(question_id, question)


def record_capstone(
    key: str, recipe: str, costs: Mapping[str, float], gaps: Sequence[float], seeds: Sequence[int], diverged: int
) -> None:
    """Note a recipe of a capstone, as JSON text, with its score; it takes the place of the student's one before.

    Args:
        key: of the capstone: "capstone" is that of lab 14, "meetings" that of lab 16.
        recipe: its data.
        costs: by the names of fields of :class:`~lplab.exercises.progress.records.OwnRecipe`.
        gaps, seeds: on each seed of practice, and these seeds.
        diverged: on how many of them its training diverged.
    """
    default_progress().record_capstone(key, recipe, costs, gaps, seeds, diverged)


def of_lab(lab: str) -> dict[str, ExerciseRecord]:
    """The student's records of a lab such as "01", by exercise id, sorted; exercises never touched are missing."""
    return default_progress().of_lab(lab)


def progress_of(lab: str) -> ProgressBar:
    """How far the student has come in a lab such as "01"; ValueError if there is no such lab."""
    from lplab.exercises.progress.bar import bar_of

    return bar_of(lab, default_progress().state)


refuse_calls(__name__, "exercises.progress_of(lab) shows how far you have come in a lab such as '01'")
