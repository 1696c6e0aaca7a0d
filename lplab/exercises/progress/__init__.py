"""What a student has done, in one local file: attempts, points, answers, hints, predictions.

The file is progress.json in the user's data folder, or wherever the environment variable LPLAB_PROGRESS points. If it
cannot be written, one line says so, everything else goes on, and what was to be written waits for the next time.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from lplab.exercises.checks.verdict import Verdict
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.progress.records import Guess, Record, State, state_of
from lplab.exercises.progress.safe_file import NotKeptError, SafeFile, SpoiledError

if TYPE_CHECKING:
    from lplab.exercises.progress.bar import ProgressBar

SCHEMA = 1
UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}  # none yet: 1 is the first schema


class Progress:
    """The progress kept in one file.

    Args:
        path: of the file.
        tell: gets the one line when something is wrong with the file; each line once.

    >>> import tempfile
    >>> mine = Progress(Path(tempfile.mkdtemp()) / "progress.json")
    >>> mine.open_hint("01.2")
    1
    >>> mine.record_prediction("01.codes", "How many codes are NaN?", 12, 2, "codes")
    >>> mine.hints_opened("01.2"), mine.prediction("01.codes")
    (1, 12.0)
    """

    def __init__(self, path: str | os.PathLike[str], tell: Callable[[str], Any] = print) -> None:
        self._file = SafeFile(Path(path), SCHEMA, UPGRADES)
        self._tell, self._told = tell, set[str]()
        self._waiting: list[Callable[[State], State]] = []  # changes that are not in the file yet

    @property
    def state(self) -> State:
        """All that is known now, including what could not be written."""
        try:
            state = state_of(self._file.read())
        except (NotKeptError, SpoiledError):
            state = State()
        for change in self._waiting:
            state = change(state)
        return state

    def problem(self) -> str:
        """Why the file cannot be read, in one line; "" if it can, or is not there yet."""
        try:
            state_of(self._file.read())
        except NotKeptError as problem:
            return str(problem)
        except SpoiledError:
            return f"{self._file.path} is spoiled; the next check sets it aside and begins a new one"
        return ""

    def _change(self, change: Callable[[State], State]) -> None:
        self._waiting.append(change)
        try:
            with self._file.locked():
                self._write_down()
        except NotKeptError as problem:
            self._say(f"Your progress is not being saved: {problem}. Checks work all the same.")

    def _write_down(self) -> None:
        try:
            state = state_of(self._file.read())
        except SpoiledError:
            other = self._file.set_aside()
            self._say(f"Your progress file could not be read. It is kept as {other}, and a new one was begun.")
            state = State()
        for change in self._waiting:
            state = change(state)
        self._file.write(asdict(state))
        self._waiting.clear()

    def _say(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._tell(sentence)

    def of(self, exercise_id: str) -> Record:
        """The record of an exercise; an empty one if nothing is known."""
        return self.state.exercises.get(exercise_id, Record())

    def of_lab(self, lab: str) -> dict[str, Record]:
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
        change: Callable[[Record], Record] = lambda old: replace(old, hints=max(old.hints, count))  # noqa: E731
        self._change(lambda state: state.with_record(exercise_id, change))
        return self.hints_opened(exercise_id)

    def solution_seen(self, exercise_id: str) -> None:
        """Note that the solution was shown."""
        now = _now()
        change: Callable[[Record], Record] = lambda old: replace(old, solution_at=old.solution_at or now)  # noqa: E731
        self._change(lambda state: state.with_record(exercise_id, change))

    def record_prediction(self, question_id: str, question: str, guess: Any, truth: Any, unit: str = "") -> None:
        """Note a guess and the truth; a second guess at the same question changes nothing."""
        kept = Guess(question, _plain(guess), _plain(truth), unit, _now())
        self._change(lambda state: state.with_guess(question_id, kept))

    def prediction(self, question_id: str) -> float | str | None:
        """The guess that was locked, or None."""
        known = self.state.predictions.get(question_id)
        return known.guess if known else None


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


def place() -> Path:
    """Where the student's file is: LPLAB_PROGRESS, or progress.json in the user's data folder."""
    usual = platformdirs.user_data_path("lplab", appauthor=False) / "progress.json"
    return Path(os.environ.get("LPLAB_PROGRESS") or usual)


@lru_cache(maxsize=8)
def _at(path: Path) -> Progress:
    return Progress(path)


def mine() -> Progress:
    """The student's progress."""
    return _at(place())


def record(verdict: Verdict, answer: Answer | None = None) -> None:
    """As `Progress.record`, in the student's file; so are the functions below."""
    mine().record(verdict, answer)


def has_passed(exercise_id: str) -> bool:
    """See `Progress.has_passed`."""
    return mine().has_passed(exercise_id)


def hints_opened(exercise_id: str) -> int:
    """See `Progress.hints_opened`."""
    return mine().hints_opened(exercise_id)


def open_hint(exercise_id: str, number: int | None = None) -> int:
    """See `Progress.open_hint`."""
    return mine().open_hint(exercise_id, number)


def solution_seen(exercise_id: str) -> None:
    """See `Progress.solution_seen`."""
    mine().solution_seen(exercise_id)


def record_prediction(question_id: str, question: str, guess: Any, truth: Any, unit: str = "") -> None:
    """See `Progress.record_prediction`."""
    mine().record_prediction(question_id, question, guess, truth, unit)


def prediction(question_id: str) -> float | str | None:
    """See `Progress.prediction`."""
    return mine().prediction(question_id)


def of_lab(lab: str) -> dict[str, Record]:
    """See `Progress.of_lab`."""
    return mine().of_lab(lab)


def progress_of(lab: str) -> ProgressBar:
    """How far the student has come in a lab such as "01"; ValueError if there is no such lab."""
    from lplab.exercises.progress.bar import bar_of

    return bar_of(lab, mine().state)
