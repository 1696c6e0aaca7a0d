"""A published number that our models must reproduce: inputs, value, tolerance, and the function that computes ours."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

GRADES = {
    "A": "inputs and result were read",
    "B": "the result was read, some inputs are recalled",
    "C": "the result is recalled: printed, never a gate",
}
BOUNDS = {
    "relative": "within {tolerance:.3g} %",
    "absolute": "within {tolerance:g} {unit}",
    "exact": "exact",
    "at most": "at most",
    "at least": "at least",
}
HELD, OUTSIDE, EXPLAINED = "held", "not held", "not held (explained)"
PRINTED_IN, PRINTED_OUT, UNTESTABLE = "printed: inside", "printed: outside", "not testable here"
ROUNDING = 1e-9  # "exact" is up to the last bits of float64: sums may be taken in another order


@dataclass(frozen=True)
class Published:
    """A row of the table of published numbers.

    Args:
        id: "T01" to "T57" of the dossier; a letter where a row of it has several values.
        what: the quantity, in words.
        inputs: what goes in, in words.
        published: the value.
        unit: of both values; "" for a plain ratio.
        bound: how far ours may be: one of :data:`BOUNDS`.
        tolerance: per cent for "relative", in the unit for "absolute"; 0 for the others.
        grade: "A", "B" or "C".
        source: where the value is from.
        ours: computes our value; None where it cannot be computed here.
        note: what is needed to read the row.
        untestable: why it cannot be computed here.
        cannot_hold: why our value is outside, where it is and we know it: explained, not tuned away.
        more: computes a sentence for the note, where it has numbers of ours in it.

    Raises:
        ValueError: an id, a grade or a bound that is none, or parts that contradict each other.

    >>> row = Published("T99", "twice", "2", 4.0, "", "relative", 1.0, "A", "arithmetic", lambda: 2 * 2.02)
    >>> row.difference(4.04), row.verdict(4.04), row.verdict(4.08)
    ('+1.0 %', 'held', 'not held')
    """

    id: str
    what: str
    inputs: str
    published: float
    unit: str
    bound: str
    tolerance: float
    grade: str
    source: str
    ours: Callable[[], float] | None = field(default=None, repr=False)
    note: str = ""
    untestable: str = ""
    cannot_hold: str = ""
    more: Callable[[], str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"T\d\d[a-z]?", self.id):
            raise ValueError(f"the id of a published number is T and two digits, got {self.id!r}")
        if self.grade not in GRADES or self.bound not in BOUNDS:
            raise ValueError(f"{self.id}: grade {self.grade!r} and bound {self.bound!r} must be in GRADES and BOUNDS")
        if (self.tolerance > 0) != (self.bound in ("relative", "absolute")):
            raise ValueError(f"{self.id}: a tolerance goes with relative and absolute bounds, with no other")
        if (self.ours is None) != bool(self.untestable):
            raise ValueError(f"{self.id}: give a function that computes our value, or say why there is none")

    @property
    def number(self) -> int:
        """The row of the dossier."""
        return int(self.id[1:3])

    @property
    def allowed(self) -> str:
        """The bound as text.

        >>> Published("T99", "", "", 4.0, "t", "absolute", 0.5, "A", "", lambda: 4.0).allowed
        'within 0.5 t'
        """
        text = BOUNDS[self.bound].format(tolerance=self.tolerance, unit=self._step).strip()
        return text.removesuffix("s") if text == "within 1 points" else text

    @property
    def _step(self) -> str:
        """The unit of a difference: percentages differ by points."""
        return "points" if self.unit == "%" else self.unit

    def holds(self, ours: float) -> bool:
        """Whether a value is within the bound."""
        if not math.isfinite(ours):
            return False
        gap = abs(ours - self.published)
        size = abs(self.published)
        return {
            "relative": gap <= size * self.tolerance / 100 * (1 + ROUNDING),
            "absolute": gap <= self.tolerance * (1 + ROUNDING),
            "exact": gap <= size * ROUNDING,
            "at most": ours <= self.published + ROUNDING,
            "at least": ours >= self.published - ROUNDING,
        }[self.bound]

    def verdict(self, ours: float | None) -> str:
        """The verdict on our value; None where there is none."""
        if ours is None:
            return UNTESTABLE
        inside = self.holds(ours)
        if self.grade == "C":
            return PRINTED_IN if inside else PRINTED_OUT
        if inside:
            return HELD
        return EXPLAINED if self.cannot_hold else OUTSIDE

    def difference(self, ours: float | None) -> str:
        """How far our value is from the published one: in per cent, or in the unit for absolute bounds and shares."""
        if ours is None:
            return "–"
        if self.bound == "absolute" or self.unit == "%" or not self.published:
            gap = ours - self.published
            return f"{_signed(0.0 if abs(gap) < ROUNDING else gap, '.2g')} {self._step}".strip()
        relative = 100 * (ours / self.published - 1)
        return f"{_signed(0.0 if abs(relative) < 0.005 else relative, '.1f' if abs(relative) >= 1 else '.2f')} %"

    def record(self) -> dict[str, Any]:
        """The row with our value, as JSON knows it: computed now."""
        ours = None if self.ours is None else float(self.ours())
        note = self.untestable or self.cannot_hold or self.note
        return {
            "id": self.id,
            "what": self.what,
            "inputs": self.inputs,
            "published": self.published,
            "ours": ours,
            "unit": self.unit,
            "difference": self.difference(ours),
            "allowed": self.allowed,
            "grade": self.grade,
            "verdict": self.verdict(ours),
            "source": self.source,
            "note": " ".join(filter(None, (note, "" if self.more is None else self.more()))),
        }


def _signed(value: float, digits: str) -> str:
    """A number with its sign, the typographic minus.

    >>> _signed(-0.5, ".1f"), _signed(0.25, ".2g"), _signed(0.0, ".1f")
    ('−0.5', '+0.25', '0')
    """
    return "0" if value == 0 else f"{value:+{digits}}".replace("-", "−")
