"""The table of chips: peak operations per second, memory bandwidth, power.

A chip is a row of ``data/hardware/accelerators.csv``; every number there names its grade and its source. Peaks are
**dense** (data sheets often print twice as much, for matrices half of which are zeros), and one multiplication with
its addition counts as two operations.

>>> h100 = get("h100")
>>> h100.peaks["bf16"] / 1e12, h100.grade("bf16")
(989.0, 'read')
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lplab.hardware import csv_tables
from lplab.hardware.chip import PEAKS, QUANTITIES, Accelerator, from_row
from lplab.hardware.local_machine import load_machine
from lplab.lookup import lookup

__all__ = [
    "PEAKS",
    "QUANTITIES",
    "Accelerator",
    "from_row",
    "get",
    "load",
    "local_machine",
    "mine",
    "names",
]


@cache
def _table() -> Mapping[str, Accelerator]:
    return _read_csv(csv_tables.folder() / "accelerators.csv")


def names() -> list[str]:
    """The names of all chips of the table, in its order.

    >>> names()[5:9]
    ['p100', 'v100', 'a100', 'h100']
    """
    return list(_table())


def get(name: str | Accelerator) -> Accelerator:
    """The chip of this name; "mine" is the measured one, and an :class:`Accelerator` is passed through.

    Raises:
        ValueError: there is none; the message names the closest.

    >>> get("h10")
    Traceback (most recent call last):
    ...
    ValueError: there is no chip 'h10'; did you mean h100 or v100 or p100?
    """
    if isinstance(name, Accelerator):
        return name
    if name == "mine":
        return local_machine()
    return lookup(_table(), name, "chip")


def load(path: str | Path) -> dict[str, Accelerator]:
    """Chips of a file of your own, by name: CSV with the table's columns, or JSON with a list of such rows.

    A cell is a number, or a number with grade and source (``312e12 read my-sheet``); columns may be left out but for
    ``name`` and one rate.

    Raises:
        ValueError: one line that names the file, the row and the column.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    if path.suffix.lower() == ".json":
        try:
            content = json.loads(csv_tables.text_of(path))
        except json.JSONDecodeError as problem:
            raise ValueError(f"{path.name} is no JSON: {problem}") from None
        rows = content if isinstance(content, list) else [content]
        return _chips(path.name, enumerate(rows, 1), "entry")
    return dict(_read_csv(path))


def _read_csv(path: Path) -> dict[str, Accelerator]:
    return _chips(path.name, enumerate(csv_tables.read(path, ("name",)), 1), "row")


def _chips(file: str, found: Any, word: str) -> dict[str, Accelerator]:
    chips: dict[str, Accelerator] = {}
    for number, row in found:
        try:
            chip = from_row(row)
            if chip.name in chips:
                raise ValueError(f"duplicate chip {chip.name}")
        except ValueError as problem:
            raise ValueError(f"{file}, {word} {number}: {problem}") from None
        chips[chip.name] = chip
    if not chips:
        raise ValueError(f"{file} holds no chip")
    return chips


def local_machine() -> Accelerator:
    """This machine, as ``lplab doctor --measure`` measured it; without a measurement, the one that ships with lplab.

    ``mine`` is another name of this function.
    """
    return load_machine()


mine = local_machine
