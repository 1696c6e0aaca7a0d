"""Links between devices: latency and bandwidth.

The rows of ``data/hardware/links.csv``, each number with its grade and source. A link can also be typed:
``"100Gb/s, 2us"``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lplab.checks import check_above, check_at_least, check_numbers
from lplab.hardware import csv_tables
from lplab.hardware.sourced_value import SourcedValue
from lplab.lookup import lookup

Floats = float | np.ndarray
"""A number, or an array of them where many design points are computed at once."""

_NUMBER = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
_TYPED = re.compile(rf"\s*{_NUMBER}\s*([kMGT]?)([bB])/s(?:\s*,\s*{_NUMBER}\s*([mun]?)s)?\s*")
_THOUSANDS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "u": 1e-6, "n": 1e-9}
ASSUMED_LATENCY = 10e-6  # seconds, of a link that was typed without one: NCCL's for a hop over a network is 9.6 µs


@dataclass(frozen=True)
class Link:
    """A link between two devices: a message of n bytes takes latency + n / bandwidth (Hockney's model).

    Args:
        latency_seconds: before the first byte arrives; 0 or more. A number, or an array for many points at once.
        bytes_per_second: in one direction; positive, infinity allowed. A number, or an array.
        name: as in ``links.names()``, or your own.
        label: for people.
        latency_grade, bandwidth_grade: one of ``graded.GRADES``.
        source: where the numbers are from.

    Raises:
        ValueError: a negative latency, a bandwidth that is not positive, or what is no number.

    >>> Link(2e-6, 12.5e9).seconds(1e6)
    8.2e-05
    >>> Link(1e-6, -1.0)
    Traceback (most recent call last):
    ValueError: bytes_per_second of a link must be positive, got -1.0
    """

    latency_seconds: Floats
    bytes_per_second: Floats
    name: str = "own"
    label: str = ""
    latency_grade: str = "own"
    bandwidth_grade: str = "own"
    source: str = ""

    def __post_init__(self) -> None:
        latency = check_numbers("latency_seconds of a link", self.latency_seconds)
        bandwidth = check_numbers("bytes_per_second of a link", self.bytes_per_second)
        if not (np.isfinite(latency) & (latency >= 0)).all():
            wrong = latency[~(np.isfinite(latency) & (latency >= 0))]
            raise ValueError(f"latency_seconds of a link must be finite and 0 or more, got {wrong[0]}")
        if not (bandwidth > 0).all():
            raise ValueError(f"bytes_per_second of a link must be positive, got {bandwidth[~(bandwidth > 0)][0]}")

    def seconds(self, nbytes: Floats) -> Any:
        """Time of one message of so many bytes, seconds; ValueError for bytes below 0, not finite, or no numbers."""
        [sent] = check_at_least(0, **{"the bytes of a message": nbytes})
        seconds = np.asarray(self.latency_seconds) + sent / np.asarray(self.bytes_per_second)
        return float(seconds) if np.ndim(seconds) == 0 else seconds

    def shared(self, ways: Floats) -> Link:
        """The link of each of several devices that send at the same time: a share of the bandwidth.

        >>> Link(0.0, 12e9).shared(4).bytes_per_second
        3000000000.0
        """
        [shares] = check_above(0, **{"the ways of a shared link": ways})
        return replace(self, bytes_per_second=self.bytes_per_second / shares)


@cache
def _table() -> dict[str, Link]:
    return load("links")


def load(path: str | Path) -> dict[str, Link]:
    """Links by name from a CSV file of your own with the columns of ``data/hardware/links.csv``.

    Raises:
        ValueError: a cell that is no number, or one that no link can have, or a name that is given twice; the message
            names the link.

    >>> list(load("links"))[:2]
    ['ethernet_1g', 'ethernet_10g']
    """
    found: dict[str, Link] = {}
    for row in csv_tables.read(path, ("name", "latency_seconds", "bytes_per_second")):
        if row["name"] in found:
            raise ValueError(f"link {row['name']} is given twice")
        found[row["name"]] = _from_row(row)
    return found


def _from_row(row: dict[str, str]) -> Link:
    try:
        latency, bandwidth = (SourcedValue.parse(row[column]) for column in ("latency_seconds", "bytes_per_second"))
        return Link(
            latency.value,
            bandwidth.value,
            row["name"],
            row.get("label", row["name"]),
            latency.grade,
            bandwidth.grade,
            "; ".join(dict.fromkeys(source for source in (bandwidth.source, latency.source) if source)),
        )
    except ValueError as problem:
        raise ValueError(f"link {row['name']}: {problem}") from None


def names() -> tuple[str, ...]:
    """The names of all links of the table.

    >>> "nvlink4" in names()
    True
    """
    return tuple(_table())


def get(link: str | Link) -> Link:
    """A link by its name, or as it is typed: bandwidth (b: bits, B: bytes), a comma, latency.

    Raises:
        ValueError: neither.

    >>> get("infiniband_edr").bytes_per_second
    12500000000.0
    >>> get("100Gb/s, 2us")
    Link(latency_seconds=2e-06, bytes_per_second=12500000000.0, name='100Gb/s, 2us', ...)
    """
    if isinstance(link, Link):
        return link
    if not isinstance(link, str):
        raise ValueError(f'a link is a name, a text such as "100Gb/s, 2us", or a Link, got {link!r}')
    typed = _TYPED.fullmatch(link)
    if typed is None:
        try:
            return lookup(_table(), link, "link")
        except ValueError as problem:
            raise ValueError(f'{str(problem).rstrip("?")}. Or type a bandwidth and a latency: "100Gb/s, 2us"') from None
    number, thousands, unit, latency, small = typed.groups()
    bandwidth = float(number) * _THOUSANDS[thousands] / (8 if unit == "b" else 1)
    seconds = ASSUMED_LATENCY if latency is None else float(latency) * _THOUSANDS[small]
    return Link(seconds, bandwidth, link.strip(), link.strip())
