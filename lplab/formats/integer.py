"""Integers with a scale and a zero point: value = scale · (code − zero_point)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lplab.checks import check_int
from lplab.formats.base import Format
from lplab.formats.fixed import signed_codes, uniform_grid
from lplab.formats.rounding_spec import Grid


@dataclass(frozen=True, repr=False)
class IntFormat(Format):
    """Affine integers: round(x / scale) + zero_point, clamped to the range of the integer.

    The division by ``scale`` and the product with it are single operations in the type of x (as in ONNX
    QuantizeLinear); a product with the reciprocal, as in torch.fake_quantize, gives other results on ties.

    Args:
        bits: 2 to 32 (1 to 32 if unsigned).
        symmetric: leave the most negative integer out, so that every number has its negative: [−127, 127] for 8 bits.
        signed: two's complement, or else 0 … 2^bits − 1.
        scale: what one unit is worth; a positive number.
        zero_point: the integer that stands for zero; 0 if symmetric.
        name: shown in figures and messages.

    >>> IntFormat(bits=4, symmetric=True).codebook().tolist()[:8]
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    >>> IntFormat(bits=8, signed=False, scale=0.5, zero_point=10).quantize([-9.0, 0.3, 1000.0])
    array([ -5. ,   0.5, 122.5])
    """

    bits: int = 8
    symmetric: bool = False
    signed: bool = True
    scale: float = 1.0
    zero_point: int = 0
    name: str = ""
    saturating = True

    def __post_init__(self) -> None:
        check_int("bits", self.bits, 2 if self.signed else 1, 32)
        if self.symmetric and not self.signed:
            raise ValueError("symmetric=True needs signed=True: unsigned integers have no negatives")
        is_number = isinstance(self.scale, int | float | np.floating) and not isinstance(self.scale, bool)
        if not is_number or not 2.0**-100 <= self.scale <= 2.0**100:
            raise ValueError(f"scale must be a positive number from 2^-100 to 2^100, got {self.scale!r}")
        low, high = self.range
        check_int("zero_point", self.zero_point, 0 if self.symmetric else low, 0 if self.symmetric else high)

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest integer."""
        if not self.signed:
            return 0, 2**self.bits - 1
        half = 2 ** (self.bits - 1)
        return (1 - half if self.symmetric else -half), half - 1

    @property
    def max(self) -> float:
        """Scale · (largest integer − zero_point)."""
        return (self.range[1] - self.zero_point) * float(self.scale)

    @property
    def min(self) -> float:
        """Scale · (smallest integer − zero_point)."""
        return (self.range[0] - self.zero_point) * float(self.scale)

    @property
    def smallest_subnormal(self) -> float:
        """The scale."""
        return float(self.scale)

    @property
    def label(self) -> str:
        """The name, or int8 / uint8 with scale and zero point."""
        extra = "" if self.scale == 1 else f" × {self.scale:g}"
        extra += f", zero point {self.zero_point}" if self.zero_point else ""
        return self.name or f"{'' if self.signed else 'u'}int{self.bits}{extra}"

    @cached_property
    def rounding_spec(self) -> Grid:
        """An even grid of the integers; a scale that is a power of two becomes part of its spacing."""
        low, high = (bound - self.zero_point for bound in self.range)
        mantissa, exponent = math.frexp(self.scale)
        if mantissa == 0.5:
            return uniform_grid(exponent - 1, low, high)
        return uniform_grid(0, low, high, step=float(self.scale))

    def bit_fields(self) -> tuple[tuple[str, int], ...]:
        """Sign and integer, or integer alone."""
        return (("sign", 1), ("integer", self.bits - 1)) if self.signed else (("integer", self.bits),)

    def values_of(self, codes: np.ndarray) -> np.ndarray:
        """Scale · (integer − zero_point); the code that ``symmetric`` leaves out is NaN."""
        integers = signed_codes(codes, self.bits) if self.signed else codes
        values = (integers - self.zero_point) * float(self.scale)
        return np.where(integers < self.range[0], np.nan, values)

    def codes_of(self, values: np.ndarray) -> np.ndarray:
        """The integers, as bit patterns."""
        return (np.rint(values / float(self.scale)).astype(np.int64) + self.zero_point) & (2**self.bits - 1)
