"""Posits: a run of equal bits (the regime) counts powers of 2^(2^es); exponent and fraction share the other bits.

Source: the posit standard (2022, es = 2 for every width) and its 2017 forerunner (es = 1 for 16 bits); value tables
for tests from the `universal` library.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lplab.checks import check_int
from lplab.formats.base import Format
from lplab.formats.rounding_spec import Table
from lplab.formats.tables import table_codes, table_of


def posit_values(codes: np.ndarray, bits: int, exponent_size: int) -> np.ndarray:
    """The float64 values of posit codes (int64); the code of the sign bit alone is NaR, here NaN.

    >>> posit_values(np.arange(8), 4, 1).tolist()
    [0.0, 0.0625, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0]
    """
    codes = codes.astype(np.int64)
    negative = codes >> (bits - 1) == 1
    body = np.where(negative, -codes, codes) & ((1 << (bits - 1)) - 1)
    rest = bits - 1  # bits after the sign
    ones = (body >> (rest - 1)) & 1 == 1  # does the regime consist of ones?
    flipped = np.where(ones, ~body, body) & ((1 << rest) - 1)  # now the run consists of zeros
    run = rest - np.frexp(flipped.astype(np.float64))[1]
    regime = np.where(ones, run - 1, -run)

    left = np.maximum(rest - run - 1, 0)  # bits after the regime and the bit that ends it
    tail = body & ((1 << left) - 1)
    exponent_bits = np.minimum(left, exponent_size)
    fraction_bits = left - exponent_bits
    exponent = (tail >> fraction_bits) << (exponent_size - exponent_bits)  # bits that are cut off read as 0
    fraction = tail & ((1 << fraction_bits) - 1)
    value = np.ldexp(
        (1 << fraction_bits) + fraction.astype(np.float64), regime * 2**exponent_size + exponent - fraction_bits
    )
    value = np.where(negative, -value, value)
    value = np.where(codes == 0, 0.0, value)
    return np.where(codes == 1 << (bits - 1), np.nan, value)


@dataclass(frozen=True, repr=False)
class PositFormat(Format):
    """A posit: tapered precision, no infinity, one NaN-like code (NaR).

    Nearest rounding is that of the standard: to nearest even *as bit strings* (where exponent bits are cut off this
    is not the arithmetic midpoint), never to zero, never beyond the largest value. NaN and infinity become NaR, which
    ``quantize`` gives as NaN.

    Args:
        bits: 3 to 16.
        exponent_size: es, 0 to 3.
        name: shown in figures and messages.
        saturating: True makes the largest value of infinity, too, as quantizers with a scale do.

    >>> PositFormat(8, 1).max, PositFormat(8, 1).quantize(1e-9)
    (4096.0, 0.000244140625)
    """

    bits: int
    exponent_size: int
    name: str = ""
    saturating: bool = False

    def __post_init__(self) -> None:
        check_int("bits", self.bits, 3, 16)
        check_int("exponent_size", self.exponent_size, 0, 3)
        if not self.name:
            object.__setattr__(self, "name", f"posit{self.bits}_{self.exponent_size}")

    @property
    def max(self) -> float:
        """2^(2^es · (bits − 2))."""
        return 2.0 ** (2**self.exponent_size * (self.bits - 2))

    @property
    def min(self) -> float:
        """−max."""
        return -self.max

    @property
    def smallest_subnormal(self) -> float:
        """1 / max."""
        return 1 / self.max

    @property
    def has_nan(self) -> bool:
        """NaR."""
        return True

    def bit_fields(self) -> tuple[tuple[str, int], ...]:
        """Sign and the rest: regime, exponent and fraction have no fixed place."""
        return (("sign", 1), ("regime, exponent, fraction", self.bits - 1))

    @cached_property
    def rounding_spec(self) -> Table:
        """A table; the threshold between two codes is the posit with one more bit between them."""
        positive = np.arange(2 ** (self.bits - 1))
        values = posit_values(positive, self.bits, self.exponent_size)
        cuts = posit_values(2 * positive[:-1] + 1, self.bits + 1, self.exponent_size)
        infinite = None if self.saturating else np.nan
        return table_of(values, symmetric=True, cuts=cuts, infinite=infinite, never_zero=True)

    def values_of(self, codes: np.ndarray) -> np.ndarray:
        """The values of posit codes, as :func:`posit_values` gives them."""
        return posit_values(codes, self.bits, self.exponent_size)

    def codes_of(self, values: np.ndarray) -> np.ndarray:
        """Search, then the two's complement for negative values."""
        codes = table_codes(np.abs(values), self.rounding_spec)
        codes = np.where(values < 0, -codes, codes) & (2**self.bits - 1)
        return np.where(np.isnan(values), 2 ** (self.bits - 1), codes)
