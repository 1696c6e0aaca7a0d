"""Area and energy of a multiplier against the bits of its significand, and of the adder behind it.

An array multiplier adds M partial products of M bits: energy and area grow with M². That is the quadratic law. It holds
for integers (0.2 pJ for 8 bits and 3.1 pJ for 32 are one coefficient within 3 %), needs a second term for floats, and
does not cover adders, accumulators, wires and memory.

All numbers are of 45 nm at 0.9 V (Horowitz, ISSCC 2014, second-hand). Two points determine two coefficients and leave
none as a check: values between and below them are orders of magnitude.

>>> round(energy_joules(11, 16) * 1e12, 2), round(energy_joules(4, 8) * 1e12, 2)  # FP16, and hybrid FP8's 1-4-3
(1.1, 0.35)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lplab.checks import check_above, check_numbers
from lplab.formats import FloatFormat, IntFormat
from lplab.formats import get as format_named
from lplab.hardware import operation_costs

AREA_RATIO_2020 = 0.55
"""Area of the 4-bit unit of Sun et al. 2020 over that of the FP16 unit (recalled)."""
THROUGHPUT_RATIO_2020 = 4.0
"""Operations of that unit in a cycle over those of the FP16 unit (recalled)."""


@dataclass(frozen=True)
class Fit:
    """cost = square · M² + linear · W for a significand of M bits in a number of W bits."""

    square: float
    linear: float

    def __call__(self, significand: Any, bits: Any) -> Any:
        """The cost, of the broadcast shape."""
        m, w = check_numbers("significand", significand), check_numbers("bits", bits)
        if not np.all((m >= 1) & (m <= w) & (w < np.inf)):
            raise ValueError(f"a significand has from 1 to all bits of its number, got {significand!r} of {bits!r}")
        return self.square * m**2 + self.linear * w


@cache
def operations() -> dict[str, tuple[float, float]]:
    """Energy in joules and area in µm² of the operations of the table, by name.

    >>> operations()["fp32_multiply"]
    (3.7e-12, 7700.0)
    """
    return {name: (row.joules, row.area_um2) for name, row in operation_costs.table().items()}


@cache
def fits(kind: str = "float") -> tuple[Fit, Fit]:
    """The fits for energy (J) and area (µm²): "float" through FP16 and FP32, "int" with the one term M² through INT8.

    >>> energy, area = fits()
    >>> round(energy.square * 1e15, 2), round(energy.linear * 1e15, 1), round(area.square, 1)
    (4.49, 34.8, 13.2)
    """
    table = operations()
    if kind == "int":
        return tuple(Fit(table["int8_multiply"][i] / 64, 0.0) for i in range(2))  # type: ignore[return-value]
    if kind != "float":
        raise ValueError(f"kind must be float or int, got {kind!r}")
    system = np.array([[11**2, 16], [24**2, 32]], float)
    published = np.array([table["fp16_multiply"], table["fp32_multiply"]])
    return tuple(Fit(*map(float, np.linalg.solve(system, published[:, i]))) for i in range(2))  # type: ignore[return-value]


def energy_joules(significand: Any, bits: Any, kind: str = "float") -> Any:
    """Energy of one multiplication, 45 nm, in joules.

    Args:
        significand: bits of the significand, the hidden one included; all bits of an integer.
        bits: of the number.
        kind: "float" or "int".

    >>> round(energy_joules(8, 8, "int") * 1e12, 2), round(energy_joules(32, 32, "int") * 1e12, 1)
    (0.2, 3.2)
    """
    return _unwrap_scalar(fits(kind)[0](significand, bits))


def area_um2(significand: Any, bits: Any, kind: str = "float") -> Any:
    """Area of a multiplier, 45 nm, in µm²; arguments as in :func:`energy_joules`.

    >>> round(area_um2(24, 32)), round(area_um2(4, 8))
    (7700, 231)
    """
    return _unwrap_scalar(fits(kind)[1](significand, bits))


def add_energy_joules(bits: Any, kind: str = "float") -> Any:
    """Energy of one addition, 45 nm, in joules: a power law through 16 and 32 bits; aligning floats is not linear.

    >>> round(add_energy_joules(32) * 1e12, 2), round(add_energy_joules(32, "int") * 1e12, 2)
    (0.9, 0.1)
    """
    return _unwrap_scalar(_power_law(kind, 0)(check_numbers("bits", bits)))


def add_area_um2(bits: Any, kind: str = "float") -> Any:
    """Area of an adder, 45 nm, in µm².

    >>> round(add_area_um2(16)), round(add_area_um2(32))
    (1360, 4184)
    """
    return _unwrap_scalar(_power_law(kind, 1)(check_numbers("bits", bits)))


def _power_law(kind: str, column: int) -> Any:
    names = {"float": ("fp16_add", "fp32_add"), "int": ("int16_add", "int32_add")}
    if kind not in names:
        raise ValueError(f"kind must be float or int, got {kind!r}")
    small, large = (operations()[name][column] for name in names[kind])
    exponent = np.log2(large / small)

    def law(bits: np.ndarray) -> np.ndarray:
        if not np.all((bits >= 1) & (bits < np.inf)):
            raise ValueError(f"an adder has 1 bit or more, got {bits}")
        return small * (bits / 16) ** exponent

    return law


@dataclass(frozen=True)
class MACCost:
    """A multiplication and the addition of its product to a sum, 45 nm.

    Attributes:
        multiply_joules, add_joules, multiply_um2, add_um2: of the two parts.
    """

    multiply_joules: float
    add_joules: float
    multiply_um2: float
    add_um2: float

    @property
    def joules(self) -> float:
        """Energy of the multiplication and the addition, in joules."""
        return self.multiply_joules + self.add_joules

    @property
    def um2(self) -> float:
        """Area of the multiplier and the adder, in µm²."""
        return self.multiply_um2 + self.add_um2


def mac(format: Any, accumulator: Any = "fp32") -> MACCost:
    """Cost of a multiply-add: factors in one format, the sum in another.

    Args:
        format: name of a format, or a format: floats and integers.
        accumulator: the same of the sum.

    Raises:
        ValueError: a format that is neither float nor integer.

    >>> wide, narrow = mac("fp16"), mac("hfp8_forward")
    >>> f"{1 - narrow.joules / wide.joules:.0%} less energy with half the bits, as the sum stays in FP32"
    '37% less energy with half the bits, as the sum stays in FP32'
    """
    kind, significand, bits = _format_widths(format)
    sum_kind, _, sum_bits = _format_widths(accumulator)
    return MACCost(
        energy_joules(significand, bits, kind),
        add_energy_joules(sum_bits, sum_kind),
        area_um2(significand, bits, kind),
        add_area_um2(sum_bits, sum_kind),
    )


@dataclass(frozen=True)
class MACEnergy:
    """Energy of one multiply-add, 45 nm, in joules, without the energy of moving its operands."""

    name: str
    label: str
    multiply_joules: float
    add_joules: float

    @property
    def joules(self) -> float:
        """Energy of the multiplication and the addition, in joules."""
        return self.multiply_joules + self.add_joules


_FLOATS = {"bf16": (8, 16), "fp8_143": (4, 8), "fp8_152": (3, 8), "radix4_fp4": (1, 4)}  # significand, bits
_LABELS = {"fp8_143": "FP8 1-4-3", "fp8_152": "FP8 1-5-2", "radix4_fp4": "FP4 radix 4"}  # sign, exponent, fraction


@cache
def macs() -> dict[str, MACEnergy]:
    """Multiply-adds by the names of their operand and accumulator, such as "fp16+fp32".

    The energies are those of Horowitz's table; widths that the table lacks follow :func:`energy_joules`.

    >>> round(macs()["fp16+fp32"].joules * 1e12, 2), round(macs()["fp8_143+fp32"].joules * 1e12, 2)
    (2.0, 1.25)
    """
    adds = {width: operation_costs.get(f"{width}_add").joules for width in ("fp32", "fp16", "int32", "int16")}
    products = {name: energy_joules(*sizes) for name, sizes in _FLOATS.items()}
    products |= {name: operation_costs.get(f"{name}_multiply").joules for name in ("fp32", "fp16", "int8")}
    products["int4"] = energy_joules(4, 4, "int")
    pairs = ["fp32+fp32", "fp16+fp32", "bf16+fp32", "fp8_143+fp32", "fp8_143+fp16", "fp8_152+fp16"]
    pairs += ["radix4_fp4+fp16", "int8+int32", "int4+int32", "int4+int16"]
    areas = {}
    for pair in pairs:
        operand, accumulator = pair.split("+")
        label = f"{_LABELS.get(operand, operand.upper())} + {accumulator.upper()}"
        areas[pair] = MACEnergy(pair, label, products[operand], adds[accumulator])
    return areas


def significand_bits(format: Any) -> int:
    """Bits that a multiplier of this format multiplies: the hidden one included, all bits of an integer.

    >>> significand_bits("bf16"), significand_bits("fp8_152"), significand_bits("int4")
    (8, 3, 4)
    """
    return _format_widths(format)[1]


def _format_widths(format: Any) -> tuple[str, int, int]:
    number_format = format_named(format) if isinstance(format, str) else format
    if isinstance(number_format, FloatFormat):
        return "float", number_format.mantissa_bits + 1, number_format.bits
    if isinstance(number_format, IntFormat):
        return "int", number_format.bits, number_format.bits
    raise ValueError(f"{number_format} is neither a float nor an integer: the table has no multiplier for it")


def quadratic_law(bits: Any, reference: Any = 32) -> Any:
    """How many multipliers fit into the area of one of ``reference`` bits, if area grows with the square.

    >>> quadratic_law(8), quadratic_law(4, reference=8)
    (16.0, 4.0)
    """
    widths = check_numbers("bits", bits)
    if not np.all(widths >= 1):
        raise ValueError(f"a multiplier has 1 bit or more, got {bits!r}")
    [whole] = check_above(0, reference=reference)
    return _unwrap_scalar((whole / widths) ** 2)


def density_2020() -> float:
    """Compute density of the 4-bit unit of Sun et al. 2020 over FP16: 4 times the throughput in 0.55 of the area.

    >>> round(density_2020(), 1)
    7.3
    """
    return THROUGHPUT_RATIO_2020 / AREA_RATIO_2020


def _unwrap_scalar(value: Any) -> Any:
    array = np.asarray(value)
    return float(array) if array.ndim == 0 else array
