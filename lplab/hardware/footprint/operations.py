"""Energy of one operation: Horowitz's table (ISSCC 2014, 45 nm), and multiply-adds that are put together from it.

The table holds for one old process. Ratios carry over to newer ones roughly, absolute values do not: for those see
:mod:`lplab.hardware.footprint.step_energy`, which goes by a chip's own peak and power. Widths that are not in it follow
the laws of :mod:`lplab.hardware.multiplier`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from lplab.hardware.multiplier import energy_joules
from lplab.hardware.operation_costs import Operation as Operation
from lplab.hardware.operation_costs import get as get
from lplab.hardware.operation_costs import table as table


@dataclass(frozen=True)
class MacEnergy:
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
def macs() -> dict[str, MacEnergy]:
    """Multiply-adds by name: operand, accumulator. Those that Horowitz lacks follow the laws above.

    >>> round(macs()["fp16+fp32"].joules * 1e12, 2), round(macs()["fp8_143+fp32"].joules * 1e12, 2)
    (2.0, 1.25)
    """
    adds = {width: get(f"{width}_add").joules for width in ("fp32", "fp16", "int32", "int16")}
    products = {name: energy_joules(*sizes) for name, sizes in _FLOATS.items()}
    products |= {name: get(f"{name}_multiply").joules for name in ("fp32", "fp16", "int8")}
    products["int4"] = energy_joules(4, 4, "int")
    pairs = ["fp32+fp32", "fp16+fp32", "bf16+fp32", "fp8_143+fp32", "fp8_143+fp16", "fp8_152+fp16"]
    pairs += ["radix4_fp4+fp16", "int8+int32", "int4+int32", "int4+int16"]
    found = {}
    for pair in pairs:
        operand, accumulator = pair.split("+")
        label = f"{_LABELS.get(operand, operand.upper())} + {accumulator.upper()}"
        found[pair] = MacEnergy(pair, label, products[operand], adds[accumulator])
    return found
