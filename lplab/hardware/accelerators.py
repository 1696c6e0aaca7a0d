"""Chips as data: what each does at most in a second, how fast its memory is, what it draws.

A chip is a row of ``data/hardware/accelerators.csv``; every number there names its grade and its source. Rates are
**dense** (sheets like to print twice as much, for matrices half of which are zeros), and one multiplication with its
addition is two operations.

>>> h100 = get("h100")
>>> h100.peaks["bf16"] / 1e12, h100.grade("bf16")
(989.0, 'read')
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lplab.hardware import tables
from lplab.hardware.choices import chosen, spelled
from lplab.hardware.graded import Number, sources

PEAKS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "fp4", "int2")
"""Number formats of products that a table may give a rate for; fp16 stands for every 16-bit float but bf16."""
QUANTITIES = (
    "memory_bytes",
    "memory_bytes_per_second",
    "power_watts",
    "link_bytes_per_second",
    "array_rows",
    "array_columns",
    "arrays",
    "clock_hertz",
)
TEXTS = ("name", "label", "kind", "year", "devices", "note")


@dataclass(frozen=True)
class Accelerator:
    """One chip, or a system that is programmed as one.

    Attributes:
        name, label, kind, year: what it is called in code and in figures, what sort it is, when it came.
        peaks: operations a second at most, dense, by the format of the product's operands (:data:`PEAKS`).
        memory_bytes, memory_bytes_per_second: of the memory outside the chip's core; None where nobody says.
        power_watts: design power of the chip (a CPU's of the whole package).
        link_bytes_per_second: to other chips, all links together, one direction.
        array_rows, array_columns, arrays, clock_hertz: of its systolic arrays, where it has some: for 16-bit products.
        devices: chips inside, 4 for RaPiD's training system.
        numbers: every number with grade and source, by the attribute's name or the peak's.
        note: what one must know.
    """

    name: str
    label: str
    peaks: Mapping[str, float]
    kind: str = "chip"
    year: int | None = None
    devices: int = 1
    memory_bytes: float | None = None
    memory_bytes_per_second: float | None = None
    power_watts: float | None = None
    link_bytes_per_second: float | None = None
    array_rows: float | None = None
    array_columns: float | None = None
    arrays: float | None = None
    clock_hertz: float | None = None
    note: str = ""
    numbers: Mapping[str, Number] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a chip needs a name")
        if not self.peaks:
            raise ValueError(f"{self.name}: a chip needs at least one rate; columns: {', '.join(PEAKS)}")
        for peak, value in self.peaks.items():
            if peak not in PEAKS:
                raise ValueError(f"{self.name}: unknown rate {peak!r}; allowed: {', '.join(PEAKS)}")
            _positive(self.name, peak, value)
        for quantity in QUANTITIES:
            if getattr(self, quantity) is not None:
                _positive(self.name, quantity, getattr(self, quantity))
        if not isinstance(self.devices, int) or self.devices < 1:
            raise ValueError(f"{self.name}: devices must be a whole number from 1, got {self.devices!r}")
        object.__setattr__(self, "peaks", MappingProxyType(dict(self.peaks)))
        object.__setattr__(self, "numbers", MappingProxyType(dict(self.numbers)))

    def grade(self, quantity: str) -> str:
        """How sure we are of a number: "measured", "read", "recalled", ...; "own" where nobody said.

        >>> get("p100").grade("power_watts")
        'recalled'
        """
        return self.numbers[quantity].grade if quantity in self.numbers else "own"

    def source(self, quantity: str) -> str:
        """Where a number is from, in words.

        >>> get("tpu-v4").source("bf16")[:29]
        'Austin et al., How to Scale Y'
        """
        name = self.numbers[quantity].source if quantity in self.numbers else ""
        return sources().get(name, name)

    def __reduce__(self) -> Any:
        """Read-only views of dictionaries do not pickle; the dictionaries in them do."""
        return _again, ({**self.__dict__, "peaks": dict(self.peaks), "numbers": dict(self.numbers)},)


def _again(state: dict[str, Any]) -> Accelerator:
    return Accelerator(**state)


def _positive(chip: str, name: str, value: Any) -> None:
    if not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{chip}: {name} must be a number above 0, got {value!r}")


@cache
def _table() -> Mapping[str, Accelerator]:
    return _read_csv(tables.folder() / "accelerators.csv")


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
        return mine()
    return chosen(_table(), name, "chip")


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
            content = json.loads(tables.text_of(path))
        except json.JSONDecodeError as problem:
            raise ValueError(f"{path.name} is no JSON: {problem}") from None
        found = content if isinstance(content, list) else [content]
        return _chips(path.name, enumerate(found, 1), "entry")
    return dict(_read_csv(path))


def _read_csv(path: Path) -> dict[str, Accelerator]:
    return _chips(path.name, enumerate(tables.read(path, ("name",)), 1), "row")


def _chips(file: str, found: Any, word: str) -> dict[str, Accelerator]:
    chips: dict[str, Accelerator] = {}
    for number, row in found:
        try:
            chip = from_row(row)
            if chip.name in chips:
                raise ValueError(f"{chip.name} stands there twice")
        except ValueError as problem:
            raise ValueError(f"{file}, {word} {number}: {problem}") from None
        chips[chip.name] = chip
    if not chips:
        raise ValueError(f"{file} holds no chip")
    return chips


def from_row(row: Mapping[str, Any]) -> Accelerator:
    """A chip from a row of a table: text or numbers by column; empty cells are left out.

    >>> from_row({"name": "mine", "fp32": "1e12 measured desk"}).peaks["fp32"]
    1000000000000.0
    """
    if not isinstance(row, Mapping):
        raise ValueError(f"a chip is a row of columns and cells, got {type(row).__name__}")
    columns = [spelled((*TEXTS, *PEAKS, *QUANTITIES), column, "column") for column in row]
    cells = {key: cell for key, cell in zip(columns, row.values(), strict=True) if cell not in ("", None)}
    numbers = {key: _cell(key, cells[key]) for key in (*PEAKS, *QUANTITIES) if key in cells}
    name = str(cells.get("name", ""))
    return Accelerator(
        name=name,
        label=str(cells.get("label", name)),
        kind=str(cells.get("kind", "chip")),
        year=_whole("year", cells["year"]) if "year" in cells else None,
        devices=_whole("devices", cells.get("devices", 1)),
        note=str(cells.get("note", "")),
        peaks={key: numbers[key].value for key in PEAKS if key in numbers},
        numbers=numbers,
        **{key: numbers[key].value for key in QUANTITIES if key in numbers},
    )


def _cell(column: str, cell: Any) -> Number:
    try:
        return Number.parse(str(cell))
    except ValueError as problem:
        raise ValueError(f"column {column}: {problem}") from None


def _whole(column: str, cell: Any) -> int:
    try:
        return int(str(cell))
    except ValueError:
        raise ValueError(f"column {column} must be a whole number, got {cell!r}") from None


def mine() -> Accelerator:
    """The machine in front of you, as ``lplab doctor --measure`` measured it; else the one that lplab was made on."""
    from lplab.hardware.my_machine import load_mine

    return load_mine()
