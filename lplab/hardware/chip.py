"""One chip as data: :class:`Accelerator`, and how it is made from a row of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lplab.hardware.sourced_value import SourcedValue, sources
from lplab.lookup import canonical_name

PEAKS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "fp4", "int2")
"""Number formats of products that a table may give a peak for; fp16 stands for every 16-bit float but bf16."""
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
        name, label, kind, year: its name in code and in figures, its kind, the year of its release.
        peaks: peak operations per second, dense, by the format of the product's operands (:data:`PEAKS`).
        memory_bytes, memory_bytes_per_second: of the memory outside the chip's core; None where unknown.
        power_watts: design power of the chip (a CPU's of the whole package).
        link_bytes_per_second: to other chips, all links together, one direction.
        array_rows, array_columns, arrays, clock_hertz: of its systolic arrays, if any: for 16-bit products.
        devices: chips inside, 4 for RaPiD's training system.
        numbers: every number with grade and source, by the attribute's name or the peak's.
        note: a remark on the numbers.
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
    numbers: Mapping[str, SourcedValue] = field(default_factory=dict, repr=False)

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
        if isinstance(self.devices, bool) or not isinstance(self.devices, int) or self.devices < 1:
            raise ValueError(f"{self.name}: devices must be a whole number from 1, got {self.devices!r}")
        object.__setattr__(self, "peaks", MappingProxyType(dict(self.peaks)))
        object.__setattr__(self, "numbers", MappingProxyType(dict(self.numbers)))

    def grade(self, quantity: str) -> str:
        """Grade of a number: "measured", "read", "recalled", ...; "own" for one without a grade.

        >>> from lplab.hardware import accelerators
        >>> accelerators.get("p100").grade("power_watts")
        'recalled'
        """
        return self.numbers[quantity].grade if quantity in self.numbers else "own"

    def source(self, quantity: str) -> str:
        """Source of a number, as text.

        >>> from lplab.hardware import accelerators
        >>> accelerators.get("tpu-v4").source("bf16")[:29]
        'Austin et al., How to Scale Y'
        """
        name = self.numbers[quantity].source if quantity in self.numbers else ""
        return sources().get(name, name)

    def __reduce__(self) -> Any:
        """Pickle the dictionaries instead of their read-only views, which do not pickle."""
        return _rebuild, ({**self.__dict__, "peaks": dict(self.peaks), "numbers": dict(self.numbers)},)


def _rebuild(state: dict[str, Any]) -> Accelerator:
    return Accelerator(**state)


def _positive(chip: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{chip}: {name} must be a number above 0, got {value!r}")


def from_row(row: Mapping[str, Any]) -> Accelerator:
    """A chip from a row of a table: text or numbers by column; empty cells are left out.

    >>> from_row({"name": "mine", "fp32": "1e12 measured desk"}).peaks["fp32"]
    1000000000000.0
    """
    if not isinstance(row, Mapping):
        raise ValueError(f"a chip is a row of columns and cells, got {type(row).__name__}")
    columns = [canonical_name((*TEXTS, *PEAKS, *QUANTITIES), column, "column") for column in row]
    cells = {key: cell for key, cell in zip(columns, row.values(), strict=True) if cell not in ("", None)}
    numbers = {key: _parse_cell(key, cells[key]) for key in (*PEAKS, *QUANTITIES) if key in cells}
    name = str(cells.get("name", ""))
    return Accelerator(
        name=name,
        label=str(cells.get("label", name)),
        kind=str(cells.get("kind", "chip")),
        year=_parse_int("year", cells["year"]) if "year" in cells else None,
        devices=_parse_int("devices", cells.get("devices", 1)),
        note=str(cells.get("note", "")),
        peaks={key: numbers[key].value for key in PEAKS if key in numbers},
        numbers=numbers,
        **{key: numbers[key].value for key in QUANTITIES if key in numbers},
    )


def _parse_cell(column: str, cell: Any) -> SourcedValue:
    try:
        return SourcedValue.parse(str(cell))
    except ValueError as problem:
        raise ValueError(f"column {column}: {problem}") from None


def _parse_int(column: str, cell: Any) -> int:
    try:
        return int(str(cell))
    except ValueError:
        raise ValueError(f"column {column} must be a whole number, got {cell!r}") from None
