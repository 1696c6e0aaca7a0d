"""Parity of what matters: the dimensionless numbers of a paper's experiment beside those of ours."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from lplab.number_text import number

NEAR = 3.0
"""Two numbers are near each other if neither is more than this many times the other."""

KNOWN = re.compile(r"\b(read|second-hand|recalled)\b")
"""How we know a number of a paper; one of these words stands in ``source``."""

NOTHING_TRIED = "Nothing was tried before."
"""What ``tried`` of a larger experiment has where the stored run was the first one."""

NO_NUMBER = "–"

Value = float | tuple[float, float]  # a number, or the lowest and the highest


@dataclass(frozen=True)
class ParityRow:
    """A number without a unit that decides whether an experiment can show a claim: the paper's and ours.

    Each value is a number, or a range as (lowest, highest). Ours are computed from the constants of the claims'
    modules, never written a second time. The larger experiment counts where there is one, else the small one.

    Args:
        name: the quantity in plain words, such as "layers with weights".
        paper: of the paper's experiment; None where it is not known.
        source: how we know the paper's value, with one of the words "read", "second-hand" and "recalled"; or, where
            there is none, the reason.
        small: of the small experiment; None where it has no such number.
        large: of the larger experiment; None in a claim that has none.
        why: why ours is more than three times away, for a row where it is.

    Raises:
        ValueError: a value that is negative, not finite or a range the wrong way round; words that are missing; or a
            reason for a row that is near.

    >>> row = ParityRow("waiting over steps", 100 / 450_000, "section 4, recalled", small=50 / 300, large=1 / 2000)
    >>> row.is_near, f"{row.factor:.1f}"
    (True, '2.2')
    """

    name: str
    paper: Value | None
    source: str
    small: Value | None = None
    large: Value | None = None
    why: str = ""

    def __post_init__(self) -> None:
        for value in (self.paper, self.small, self.large):
            if value is not None and not (0 <= _ends(value)[0] <= _ends(value)[1] < math.inf):
                raise ValueError(f"{self.name}: values must be finite, not negative, lowest first, got {value!r}")
        if self.paper is None and not self.source:
            raise ValueError(f"{self.name}: without a value of the paper, source must say why there is none")
        if self.paper is not None and not KNOWN.search(self.source):
            raise ValueError(f"{self.name}: source must say read, second-hand or recalled, got {self.source!r}")
        if self.is_near is False and not self.why:
            raise ValueError(f"{self.name}: {_text(self.ours)} is {self.apart}; say why in why=")
        if self.is_near is not False and self.why:
            raise ValueError(f"{self.name}: why= is for rows that are more than {NEAR:.0f} times away from the paper")

    @property
    def ours(self) -> Value | None:
        """The value that is compared with the paper's: the larger experiment's, or else the small one's."""
        return self.small if self.large is None else self.large

    @property
    def factor(self) -> float | None:
        """How many times one is the other, at the end of a range where they are further apart; None without both."""
        if self.paper is None or self.ours is None:
            return None
        return max(map(_times, _ends(self.paper), _ends(self.ours)))

    @property
    def is_near(self) -> bool | None:
        """Whether ours is within a factor of three of the paper's; None where there is nothing to compare."""
        return None if self.factor is None else self.factor <= NEAR

    @property
    def apart(self) -> str:
        """How far ours is from the paper's, in words.

        >>> [ParityRow("layers", paper, "read", small, why=why).apart for paper, small, why in (
        ...     (20, 18, ""), (20, 5, "few"), ((4, 64), (4, 4), "few"), (0.9, 0, "none"), (20, None, ""))]
        ['within a factor of 3', '4 times away', '16 times away', 'not comparable', 'no number of ours']
        """
        if self.factor is None:
            return "no number of the paper" if self.paper is None else "no number of ours"
        if self.is_near:
            return f"within a factor of {NEAR:.0f}"
        return "not comparable" if math.isinf(self.factor) else f"{_text(_two_digits(self.factor))} times away"

    def texts(self) -> dict[str, str]:
        """The row as a table shows it: each value as text, "–" where there is none, and what was found.

        >>> row = ParityRow("learners", (4, 64), "table 2, read", small=(4, 64), large=(4, 16), why="Two cores.")
        >>> [*row.texts().values()]
        ['learners', '4–64 (table 2, read)', '4–64', '4–16', '4 times away: Two cores.']
        """
        paper = f"{NO_NUMBER} ({self.source})" if self.paper is None else f"{_text(self.paper)} ({self.source})"
        found = self.apart + f": {self.why}" * bool(self.why)
        return {
            "name": self.name, "paper": paper, "small": _text(self.small), "large": _text(self.large), "found": found,
        }  # fmt: skip


def _ends(value: Value) -> tuple[float, float]:
    return value if isinstance(value, tuple) else (value, value)


def _times(one: float, other: float) -> float:
    low, high = sorted((one, other))
    return high / low if low else (1.0 if not high else math.inf)


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def _text(value: Value | None) -> str:
    if value is None:
        return NO_NUMBER
    low, high = (f"{x:,.0f}" if x >= 1000 else number(x, digits=3, plain=True) for x in _ends(value))
    return low if low == high else f"{low}–{high}"
