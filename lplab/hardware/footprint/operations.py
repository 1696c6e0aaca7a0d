"""Energy of one operation: Horowitz's table (ISSCC 2014, 45 nm), and a law for the widths that are not in it.

The table holds for one old process. Ratios carry over to newer ones roughly, absolute values do not: for those see
:mod:`lplab.hardware.footprint.step_energy`, which goes by a chip's own peak and power.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from lplab.hardware.choices import chosen
from lplab.hardware.footprint.checks import at_least
from lplab.hardware.tables import number, read

_COLUMNS = ("operation", "label", "kind", "bits", "significand", "picojoules", "area_um2", "source", "grade")


@dataclass(frozen=True)
class Operation:
    """One row of the table.

    Attributes:
        name, label: for code and for people.
        kind: "add", "multiply" or "memory".
        bits: of an operand, or of the word that a memory gives.
        significand: bits that are multiplied, the hidden one included; 0 where there are none.
        joules: of one operation.
        area_square_metres: of the circuit; 0 where it is not given.
        source, grade: where the numbers are from.
    """

    name: str
    label: str
    kind: str
    bits: int
    significand: int
    joules: float
    area_square_metres: float
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
        joules=number(row, "picojoules") * 1e-12,
        area_square_metres=number(row, "area_um2") * 1e-12,
        source=row["source"],
        grade=row["grade"],
    )


def get(name: str) -> Operation:
    """One row; ValueError with the closest names if there is none.

    >>> round(get("fp32_multiply").joules * 1e12, 3)
    3.7
    """
    return chosen(table(), name, "operation")


@cache
def multiplier_law() -> tuple[float, float]:
    """Joules per significand bit squared, and per bit of width: a floating-point multiplier costs x·M² + y·W.

    Through fp16 (M = 11, W = 16) and fp32 (M = 24, W = 32): two points, two coefficients, nothing left to check it
    with. Good for an order of magnitude.

    >>> [round(value * 1e15, 2) for value in multiplier_law()]
    [4.49, 34.79]
    """
    rows = [get("fp16_multiply"), get("fp32_multiply")]
    matrix = np.array([[row.significand**2, row.bits] for row in rows], np.float64)
    x, y = np.linalg.solve(matrix, np.array([row.joules for row in rows]))
    return float(x), float(y)


def float_multiply_joules(significand: object, bits: object) -> np.ndarray:
    """Energy of a floating-point multiplication of any width by `multiplier_law`; arrays are welcome.

    Args:
        significand: bits that are multiplied, the hidden one included: 4 for 1-4-3.
        bits: of the whole number: 8 for 1-4-3.

    >>> round(float(float_multiply_joules(4, 8)) * 1e12, 2)
    0.35
    """
    at_least(1, significand=significand, bits=bits)
    x, y = multiplier_law()
    return x * np.asarray(significand, np.float64) ** 2 + y * np.asarray(bits, np.float64)


def integer_multiply_joules(bits: object) -> np.ndarray:
    """Energy of an integer multiplication: quadratic, through int8; int32 comes out 3 % too high.

    >>> [round(float(integer_multiply_joules(b)) * 1e12, 3) for b in (4, 8, 32)]
    [0.05, 0.2, 3.2]
    """
    at_least(1, bits=bits)
    return get("int8_multiply").joules * (np.asarray(bits, np.float64) / 8) ** 2


@dataclass(frozen=True)
class Mac:
    """A multiplier and the adder behind it: what a multiply-add costs, in joules, before anything is moved."""

    name: str
    label: str
    multiply_joules: float
    add_joules: float

    @property
    def joules(self) -> float:
        """Of both."""
        return self.multiply_joules + self.add_joules


_FLOATS = {"bf16": (8, 16), "fp8_143": (4, 8), "fp8_152": (3, 8), "radix4_fp4": (1, 4)}  # significand, bits


_LABELS = {"fp8_143": "FP8 1-4-3", "fp8_152": "FP8 1-5-2", "radix4_fp4": "FP4 radix 4"}  # sign, exponent, fraction


@cache
def macs() -> dict[str, Mac]:
    """Multiply-adds by name: operand, accumulator. Those that Horowitz lacks follow the laws above.

    >>> round(macs()["fp16+fp32"].joules * 1e12, 2), round(macs()["fp8_143+fp32"].joules * 1e12, 2)
    (2.0, 1.25)
    """
    adds = {width: get(f"{width}_add").joules for width in ("fp32", "fp16", "int32", "int16")}
    products = {name: float(float_multiply_joules(*sizes)) for name, sizes in _FLOATS.items()}
    products |= {name: get(f"{name}_multiply").joules for name in ("fp32", "fp16", "int8")}
    products["int4"] = float(integer_multiply_joules(4))
    pairs = ["fp32+fp32", "fp16+fp32", "bf16+fp32", "fp8_143+fp32", "fp8_143+fp16", "fp8_152+fp16"]
    pairs += ["radix4_fp4+fp16", "int8+int32", "int4+int32", "int4+int16"]
    found = {}
    for pair in pairs:
        operand, accumulator = pair.split("+")
        label = f"{_LABELS.get(operand, operand.upper())} + {accumulator.upper()}"
        found[pair] = Mac(pair, label, products[operand], adds[accumulator])
    return found
