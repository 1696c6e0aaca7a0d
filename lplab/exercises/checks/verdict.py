"""The result of a check, as data: for the message, the figure and the marks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PASSED, FAILED, NOT_YET = "passed", "failed", "not yet"
NOT_JUDGED = "not judged"  # a fault of lplab or of the machine, never of the student


@dataclass(frozen=True)
class Counterexample:
    """One call with a wrong result: the arguments, the student's result, the expected one."""

    args: tuple[Any, ...]
    yours: Any
    expected: Any


@dataclass(frozen=True)
class Verdict:
    """The result of one check.

    Args:
        exercise, version, title: which exercise was checked.
        status: "passed", "failed", "not yet" for an unmodified stub, or "not judged".
        ring: the stage that failed ("form", "named examples", "boundary set", "properties"); "" otherwise.
        lines: the message, a paragraph a line; the first is the headline.
        points: earned, of ``most_points``.
        right, total: of the values compared in the stage that failed, or in all stages after a pass.
        misconception: name of the known mistake that gives the same answers; "" if none does.
        convention: the accepted convention that the answer follows, where there are several.
        counterexample: the smallest one, where there is one.
        printed: the beginning of the output of the student's code.
        seconds: that the student's code ran.
        skipped: why not all that the function uses could be run, of an answer that fails; "" if it could.
    """

    exercise: str
    version: int
    title: str
    status: str
    ring: str
    lines: tuple[str, ...]
    points: float
    most_points: int
    right: int = 0
    total: int = 0
    misconception: str = ""
    convention: str = ""
    counterexample: Counterexample | None = None
    printed: str = ""
    seconds: float = 0.0
    skipped: str = ""

    @property
    def passed(self) -> bool:
        """Whether all stages passed."""
        return self.status == PASSED

    @property
    def text(self) -> str:
        """The message as plain text, for a terminal and a screen reader."""
        return "\n".join(self.lines)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _ipython_display_(self) -> None:
        _view(self)


def _print_text(verdict: Verdict) -> None:
    print(verdict.text)


_view: Callable[[Verdict], None] = _print_text


def set_view(view: Callable[[Verdict], None]) -> None:
    """Have notebooks show verdicts by calling ``view``. `lplab.exercises` sets it; without it the text is printed."""
    global _view
    _view = view
