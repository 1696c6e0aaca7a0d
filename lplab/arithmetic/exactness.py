"""When a sum formed in float32 or float64 and then rounded is the exact sum rounded once; decided before the work.

The compiled loops form total + product in float32 or float64 (the word). That addition rounds, too, so the
accumulator's rounding may see a number on the wrong side of a threshold. Two rules tell when that cannot happen, from
the bit range of the operands: their significant bits, the exponent of their last bit, their magnitude. Where neither
rule applies, the loop recovers the rounding error (:func:`lplab.arithmetic.accumulation.add_to_odd`). Where float32
cannot hold the products, it takes float64. Results never depend on the choice.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from lplab.arithmetic import accumulation
from lplab.formats import words
from lplab.formats.paths import array_kernels
from lplab.formats.paths.rules import FLOAT_LAYOUTS
from lplab.formats.rounding import NEAREST, Rounding
from lplab.formats.rounding_spec import Grid

WORD_BITS = {"float32": 24, "float64": 53}
MIN_EXPONENT = {"float32": -126, "float64": -1022}


@dataclass(frozen=True)
class BitRange:
    """Which bits the finite numbers of an array use.

    Attributes:
        bits: the largest number of significant bits.
        low: all of them are multiples of 2^low.
        high: all of them are less than 2^high in magnitude.
        finite: whether all elements are finite.
    """

    bits: int
    low: int
    high: int
    finite: bool = True

    def times(self, other: BitRange) -> BitRange:
        """The bit range of the products; a power of two adds no bits."""
        bits = max(self.bits, other.bits) if 1 in (self.bits, other.bits) else self.bits + other.bits
        return BitRange(bits, self.low + other.low, self.high + other.high, self.finite and other.finite)


def bit_range_of(x: Any) -> BitRange:
    """Measure a float32 or float64 array, or a tensor, where it is.

    >>> bit_range_of(np.array([0.0, 0.75, -6.0]))
    BitRange(bits=2, low=-2, high=3, finite=True)
    """
    xp, layout = np if isinstance(x, np.ndarray) else sys.modules["torch"], FLOAT_LAYOUTS[str(x.dtype).split(".")[-1]]
    magnitude = x.reshape(-1).view(getattr(xp, layout.integer)) & ~layout.sign_bit
    finite = magnitude < layout.infinity
    magnitude = magnitude[finite & (magnitude != 0)]
    if len(magnitude) == 0:
        return BitRange(1, 0, 0, bool(finite.all()))
    exponent, zeros = _last_bit(xp, layout.real)(magnitude)
    low = int((exponent + zeros).min()) - layout.fraction_bits
    return BitRange(layout.fraction_bits + 1 - int(zeros.min()), low, int(exponent.max()) + 1, bool(finite.all()))


@cache
def _last_bit(xp: Any, real: str) -> Callable:
    names = dict(array_kernels.words_for(xp, real))
    return words.bound(names, functions={"last_bit": accumulation.last_bit})["last_bit"]


def products_are_exact(products: BitRange, real: str) -> bool:
    """Whether a word holds every product exactly, all of them normal numbers.

    Products of two float32 are exact in float64: 48 bits, exponents from −298 to 256.

    >>> products_are_exact(BitRange(48, -298, 256), "float64"), products_are_exact(BitRange(54, -60, 0), "float64")
    (True, False)
    """
    low = MIN_EXPONENT[real]
    return products.bits <= WORD_BITS[real] and products.low >= low and products.high <= -low - 22


def range_of_sums(summands: BitRange, grid: Grid, rounding: Rounding, additions: int) -> BitRange:
    """The bit range of the partial sums, each rounded to a grid; ``finite`` also means that none overflows.

    Their magnitude has two bounds. n additions grow no faster than 4·n·max (n ≤ 2^m: every rounding adds at most one
    part in 2^m, and (1 + 2^−m)^n ≤ e). And nearest rounding stalls: a summand below half the spacing is lost.
    """
    lowest_spacing = grid.min_exponent - grid.mantissa_bits
    m = grid.mantissa_bits
    largest = max(summands.high, lowest_spacing)
    bounds = [math.frexp(max(grid.highest, -grid.lowest))[1]]
    if rounding.mode in NEAREST:
        bounds.append(largest + m + 2)
    if additions.bit_length() <= m:
        bounds.append(largest + additions.bit_length() + 3)
    high = min(bounds)
    finite = summands.finite and 2.0 ** min(high + 1, 1023) <= min(grid.highest, -grid.lowest)
    bounded = last_bit(grid.highest), last_bit(grid.lowest)
    return BitRange(m + 1, summands.low if finite else min(summands.low, *bounded), high, finite)


def last_bit(value: float) -> int:
    """The exponent of the last significant bit.

    >>> last_bit(6.0), last_bit(0.75)
    (1, -2)
    """
    fraction = Fraction(value)
    lowest = fraction.numerator & -fraction.numerator
    return lowest.bit_length() - fraction.denominator.bit_length() if fraction else 0


def rounding_once_is_exact(summands: BitRange, totals: BitRange, grid: Grid, rounding: Rounding, real: str) -> bool:
    """Whether rounding to the word first changes no result of rounding to the grid.

    Either every sum is a number of the word. Or, for rounding to nearest, no sum can come to lie next to a threshold
    (a midpoint of the grid) without being on it. Say a sum with exponent e is no number of the word, w bits wide; the
    midpoints around it are multiples of 2^(e − m − 1).

    1. If the summand reaches below the word, it is smaller than 2^(e − w + bits). With m + 1 + bits < w that is too
       little to carry a value of the grid to a midpoint.
    2. If the total reaches below the word, it is as small, so the summand would have to be the midpoint; a midpoint
       has m + 2 bits (fewer only in the subnormal range, where 2m + 1 < w keeps a total that small at zero).
    """
    width = WORD_BITS[real]
    lowest_bit = totals.low
    if max(totals.high, summands.high) + 1 - lowest_bit <= width:
        return True
    if rounding.mode not in NEAREST:
        return False
    m = grid.mantissa_bits
    one = m + 1 + summands.bits < width
    two = 2 * m + 1 < width and (summands.bits <= m + 1 or summands.high - lowest_bit < width)
    return one and two


def no_overflow_or_underflow(totals: BitRange, grid: Grid) -> bool:
    """Whether no sum overflows, is flushed, or is subnormal in the grid: then rounding to m + 1 bits suffices.

    Below 2^min_exponent a multiple of the lowest spacing has no more than m + 1 bits, so it stays unchanged.
    """
    lowest_spacing = grid.min_exponent - grid.mantissa_bits
    return totals.finite and totals.low >= lowest_spacing and 2.0 ** max(totals.low, -1000) >= grid.smallest
