"""Which exercises count, for how many points, until when: a file in TOML that an instructor writes.

For example::

    title = "Lab 01"                        # the column in a gradebook

    [points]                                # exercises that are not named here do not count
    "01.1" = 10
    "01.2" = 20

    [deadlines]                             # of labs or of single exercises
    "01" = 2026-10-05T23:59:00+02:00

    [late]
    grace_minutes = 15
    lost_each_day = 0.1                     # of the points, for each day that has begun
    most_lost = 0.5
    closed_after_days = 7                   # then nothing is left
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lplab.exercises.model import exercise_catalogue

LATE = ("grace_minutes", "lost_each_day", "most_lost", "closed_after_days")


@dataclass(frozen=True)
class Weights:
    """The rules of one instructor.

    Args:
        title: of the column in a gradebook, "" for the names of the labs.
        points: of each exercise that counts; empty if all count with their own points.
        deadlines: by exercise or lab, with their offsets from UTC.
        grace_minutes: how long after a deadline nothing is lost.
        lost_each_day: the share of the points that each day takes which has begun.
        most_lost: the largest share that is lost so.
        closed_after_days: after so many days nothing is left.
    """

    title: str = ""
    points: Mapping[str, float] = field(default_factory=dict)
    deadlines: Mapping[str, datetime] = field(default_factory=dict)
    grace_minutes: float = 0.0
    lost_each_day: float = 0.0
    most_lost: float = 1.0
    closed_after_days: float = math.inf

    def days_late(self, exercise_id: str, time: datetime | None) -> int:
        """How many days late, begun days counted whole; 0 if in time, and where there is no deadline or no time."""
        deadline = self.deadlines.get(exercise_id) or self.deadlines.get(exercise_id[:2])
        if deadline is None or time is None:
            return 0
        over = time - deadline
        return math.ceil(over / timedelta(days=1)) if over > timedelta(minutes=self.grace_minutes) else 0

    def share_left(self, exercise_id: str, time: datetime | None) -> float:
        """The share of the points that is left of an answer that was handed in at a time.

        >>> from datetime import UTC
        >>> rules = Weights(deadlines={"01": datetime(2026, 10, 5, tzinfo=UTC)}, lost_each_day=0.1, closed_after_days=7)
        >>> [rules.share_left("01.2", datetime(2026, 10, day, 1, tzinfo=UTC)) for day in (4, 5, 7, 12)]
        [1.0, 0.9, 0.7, 0.0]
        """
        days = self.days_late(exercise_id, time)
        if days > self.closed_after_days:
            return 0.0
        return round(1 - min(self.most_lost, self.lost_each_day * days), 6)


def read_weights(path: Path) -> Weights:
    """Read such a file.

    Raises:
        ValueError: it is no TOML, or says something that is not known or makes no sense; one line tells what.
        OSError: it cannot be read.
    """
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ValueError(f"{path} is no TOML: {problem}") from None
    try:
        _known(data, ("title", "points", "deadlines", "late"), "it")
        points, deadlines, late = (_table(data, name) for name in ("points", "deadlines", "late"))
        _known(late, LATE, "[late]")
        title = data.get("title", "")
        if not isinstance(title, str):
            raise ValueError(f"title is {title!r}, which is no text")
        for key, time in deadlines.items():
            _check_deadline(key, time)
        rules = {key: _number(f"[late] {key}", value) for key, value in late.items()}
        for key in ("lost_each_day", "most_lost"):
            if rules.get(key, 0) > 1:
                raise ValueError(f"[late] {key} is a share from 0 to 1, not {rules[key]:g}")
        counted = {exercise_catalogue.get(key).id: _number(f"[points] {key}", value) for key, value in points.items()}
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from None
    return Weights(title, counted, deadlines, **rules)


def _table(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise ValueError(f"{name} is no table; write [{name}] and its entries below")
    return table


def _known(table: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in names:
            raise ValueError(f"{where} has {key!r}, which is not known; known are {', '.join(names)}")


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{what} must be a number from 0 up, not {value!r}")
    return float(value)


def _check_deadline(key: str, time: Any) -> None:
    if key in exercise_catalogue.LABS:
        exercise_catalogue.of_lab(key)
    else:
        exercise_catalogue.get(key)
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise ValueError(
            f'the deadline of {key} needs a time with its offset, such as "{key}" = 2026-10-05T23:59:00+02:00'
        )
