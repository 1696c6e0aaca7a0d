"""A number of a table with its grade and source, as a cell holds it: ``312e12 read scaling-book``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from lplab.hardware import csv_tables

GRADES = csv_tables.GRADES | {"own": "given by the user"}
"""Grades of confidence, and what they mean."""


@dataclass(frozen=True)
class SourcedValue:
    """A number with its grade and its source.

    Attributes:
        value: in the unit that the column's name ends with.
        grade: one of :data:`GRADES`; a cell with a value alone is graded "own".
        source: a name in ``data/hardware/sources.csv``, or any text of a user.

    >>> SourcedValue.parse("312e12 read scaling-book")
    SourcedValue(value=312000000000000.0, grade='read', source='scaling-book')
    """

    value: float
    grade: str = "own"
    source: str = ""

    def __post_init__(self) -> None:
        if self.grade not in GRADES:
            raise ValueError(f"unknown grade {self.grade!r}; allowed: {', '.join(GRADES)}")

    @classmethod
    def parse(cls, text: str) -> SourcedValue:
        """Read a cell; ValueError if it does not begin with a number."""
        value, _, rest = text.strip().partition(" ")
        grade, _, source = rest.strip().partition(" ")
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f"{text!r} is no number") from None
        return cls(number, grade or "own", source.strip())


@cache
def sources() -> dict[str, str]:
    """Title of each source of the table of chips, by its name.

    >>> "RaPiD" in sources()["rapid-2021"]
    True
    """
    return {row["name"]: row["title"] for row in csv_tables.read("sources", ("name", "title"))}
