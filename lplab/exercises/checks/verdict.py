"""What a check found, as data: enough to say it in words, to draw it, and to give marks for it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

PASSED, FAILED, NOT_YET = "passed", "failed", "not yet"


@dataclass(frozen=True)
class Miss:
    """One call that was answered wrongly: the arguments, what came, what should have come."""

    args: tuple[Any, ...]
    yours: Any
    expected: Any


@dataclass(frozen=True)
class Verdict:
    """The result of one check.

    Args:
        exercise, version, title: which exercise was checked.
        status: "passed", "failed", or "not yet" for a stub that nobody has filled in.
        ring: the ring that failed ("form", "named examples", "boundary set", "properties"); "" otherwise.
        lines: the message, a paragraph a line; the first is the headline.
        points: earned, of ``most_points``.
        right, total: of the values compared in the ring that failed, or in all rings after a pass.
        misconception: name of the known mistake with which all answers coincide; "" if none does.
        convention: which legal reading the answer keeps to, where there are several.
        miss: the smallest counterexample, where there is one.
        printed: what the student's code printed, shortened.
        seconds: that the student's code ran.
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
    miss: Miss | None = None
    printed: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether all rings hold."""
        return self.status == PASSED

    @property
    def text(self) -> str:
        """The message as plain text, for a terminal and a screen reader."""
        return "\n".join(self.lines)

    def as_dict(self) -> dict[str, Any]:
        """All of it but the counterexample, whose numbers the text tells, for JSON."""
        return {key: list(value) if key == "lines" else value for key, value in asdict(self).items() if key != "miss"}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _ipython_display_(self) -> None:
        from lplab.exercises.display import show  # widgets are needed in a notebook only

        show(self)
