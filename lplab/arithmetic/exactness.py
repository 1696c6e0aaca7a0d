"""When a sum formed in float32 or float64 and then rounded is the exact sum rounded once; decided before the work.

The compiled loops form total + product in a machine word. That addition rounds, too, so the accumulator's rounding
may see a number on the wrong side of a threshold. Two facts tell when it cannot, from what is known of the operands:
their significant bits, the exponent of their last bit, their size. Where neither helps, the loop recovers what was lost
(:func:`lplab.arithmetic.whole_arrays.add_to_odd`); where float32 cannot even hold the products, it takes float64.
Results never depend on the choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lplab.formats.plan import Grid
from lplab.formats.rounding import NEAREST, Rounding

WORD_BITS = {"float32": 24, "float64": 53}
LEAST_EXPONENT = {"float32": -126, "float64": -1022}


@dataclass(frozen=True)
class Span:
    """What is known of the finite numbers of an array.

    Attributes:
        bits: the most significant bits that one of them has.
        least: all of them are multiples of 2^least.
        most: all of them are less than 2^most in magnitude.
        finite: whether there is nothing else.
    """

    bits: int
    least: int
    most: int
    finite: bool = True

    def times(self, other: Span) -> Span:
        """What is known of the products; a power of two adds no bits."""
        bits = max(self.bits, other.bits) if 1 in (self.bits, other.bits) else self.bits + other.bits
        return Span(bits, self.least + other.least, self.most + other.most, self.finite and other.finite)


def span_of(x: np.ndarray) -> Span:
    """Measure a float64 array.

    >>> span_of(np.array([0.0, 0.75, -6.0]))
    Span(bits=2, least=-2, most=3, finite=True)
    """
    bits = x.reshape(-1).view(np.int64)
    magnitude = bits & 0x7FFFFFFFFFFFFFFF
    finite = magnitude < 0x7FF0000000000000
    magnitude = magnitude[finite & (magnitude != 0)]
    if magnitude.size == 0:
        return Span(1, 0, 0, bool(finite.all()))
    exponent = (magnitude >> 52) - 1023
    significand = (magnitude & (2**52 - 1)) | 2**52
    zeros = np.frexp((significand & -significand).astype(np.float64))[1] - 1
    least = int((exponent + zeros).min()) - 52 if exponent.min() > -1023 else -1074  # subnormal
    return Span(53 - int(zeros.min()), least, int(exponent.max()) + 1, bool(finite.all()))


def products_are_exact(products: Span, real: str) -> bool:
    """Whether a word holds every product exactly, all of them normal numbers.

    Products of two float32 are exact in float64: 48 bits, exponents from −298 to 256.

    >>> products_are_exact(Span(48, -298, 256), "float64"), products_are_exact(Span(54, -60, 0), "float64")
    (True, False)
    """
    low = LEAST_EXPONENT[real]
    return products.bits <= WORD_BITS[real] and products.least >= low and products.most <= -low - 22


def sums(summands: Span, grid: Grid, rounding: Rounding, additions: int) -> Span:
    """What is known of the partial sums, each rounded to a grid; ``finite`` says that none overflows either.

    Their size has two bounds. n additions grow no faster than 4·n·max (n ≤ 2^m: every rounding adds at most one
    part in 2^m, and (1 + 2^−m)^n ≤ e). And nearest rounding stalls: a summand below half the spacing is lost.
    """
    lowest_spacing = grid.min_exponent - grid.mantissa_bits
    m = grid.mantissa_bits
    largest = max(summands.most, lowest_spacing)
    bounds = [math.frexp(max(grid.highest, -grid.lowest))[1]]
    if rounding.mode in NEAREST:
        bounds.append(largest + m + 2)
    if additions.bit_length() <= m:
        bounds.append(largest + additions.bit_length() + 3)
    most = min(bounds)
    finite = summands.finite and 2.0 ** min(most + 1, 1023) <= min(grid.highest, -grid.lowest)
    bounded = last_bit(grid.highest), last_bit(grid.lowest)
    return Span(m + 1, summands.least if finite else min(summands.least, *bounded), most, finite)


def last_bit(value: float) -> int:
    """The exponent of the last significant bit.

    >>> last_bit(6.0), last_bit(0.75)
    (1, -2)
    """
    fraction = Fraction(value)
    lowest = fraction.numerator & -fraction.numerator
    return lowest.bit_length() - fraction.denominator.bit_length() if fraction else 0


def addition_is_harmless(summands: Span, totals: Span, grid: Grid, rounding: Rounding, real: str) -> bool:
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
    lowest_bit = totals.least
    if max(totals.most, summands.most) + 1 - lowest_bit <= width:
        return True
    if rounding.mode not in NEAREST:
        return False
    m = grid.mantissa_bits
    one = m + 1 + summands.bits < width
    two = 2 * m + 1 < width and (summands.bits <= m + 1 or summands.most - lowest_bit < width)
    return one and two


def nothing_special_happens(totals: Span, grid: Grid) -> bool:
    """Whether no sum overflows, is flushed, or lies where the grid has fewer bits: then rounding is all there is.

    Multiples of the lowest spacing have no more than m + 1 bits below 2^min_exponent, so they stay as they are.
    """
    lowest_spacing = grid.min_exponent - grid.mantissa_bits
    return totals.finite and totals.least >= lowest_spacing and 2.0 ** max(totals.least, -1000) >= grid.smallest
