"""Energy and area of one operation: Horowitz's table (ISSCC 2014, 45 nm), row by row.

The table holds for one old process. Ratios carry over to newer ones roughly, absolute values do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from lplab.hardware.csv_tables import number, read
from lplab.lookup import lookup

_COLUMNS = ("operation", "label", "kind", "bits", "significand", "picojoules", "area_um2", "source", "grade")


@dataclass(frozen=True)
class Operation:
    """One row of the table.

    Attributes:
        name, label: in code and in figures.
        kind: "add", "multiply" or "memory".
        bits: of an operand, or of the word that a memory gives.
        significand: bits that are multiplied, the hidden one included; 0 where there are none.
        joules: of one operation.
        area_um2: of the circuit; 0 where it is not given.
        source, grade: where the numbers are from.
    """

    name: str
    label: str
    kind: str
    bits: int
    significand: int
    joules: float
    area_um2: float
    source: str
    grade: str


@cache
def table() -> dict[str, Operation]:
    """All rows by name.

    >>> list(table())[:2]
    ['int8_add', 'int16_add']
    """
    return {row["operation"]: _operation(row) for row in read("operation_energies", _COLUMNS)}


def _operation(row: dict[str, str]) -> Operation:
    return Operation(
        name=row["operation"],
        label=row["label"],
        kind=row["kind"],
        bits=int(number(row, "bits", low=1)),
        significand=int(number(row, "significand")),
        joules=float(Decimal(str(number(row, "picojoules"))) * Decimal("1e-12")),  # 1.1e-12, not the float beside it
        area_um2=number(row, "area_um2"),
        source=row["source"],
        grade=row["grade"],
    )


def get(name: str) -> Operation:
    """One row; ValueError with the closest names if there is none.

    >>> round(get("fp32_multiply").joules * 1e12, 3)
    3.7
    """
    return lookup(table(), name, "operation")
