"""What rounding needs to know about a format: a :class:`Grid`, a :class:`Table` or a :class:`BlockSpec`.

The classes of this package describe formats in the words of papers and standards. Each of them provides one of these
specs:

* a **grid**: evenly spaced numbers within each power of two (floating point), or throughout (fixed point, integers);
  rounding is arithmetic;
* a **table**: any finite set of numbers (radix 4, posits, logarithmic numbers, codebooks); rounding is a search;
* a **block spec**: a grid for the elements and a rule for the scale that a block of them shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Grid:
    """Multiples of 2^(max(exponent(x), min_exponent) − mantissa_bits) between two bounds.

    Attributes:
        mantissa_bits: binary digits kept after the leading one.
        min_exponent: all numbers below 2^min_exponent share one spacing (subnormals; everything, in fixed point).
        highest: the largest finite value; in units of ``step``.
        lowest: the most negative finite value; in units of ``step``.
        overflow: what a finite number beyond the bounds becomes: "saturate" or "propagate" (the bound), "infinity" or
            "nan". Infinity in goes the same way, but stays infinity with "propagate".
        nan_below: whether finite numbers below ``lowest`` and −infinity become NaN, whatever ``overflow`` says: without
            a sign there is no −infinity.
        smallest: smaller results become zero (formats without subnormals); 0 keeps all.
        negative_zero: whether −0 exists; otherwise it becomes +0.
        parity: with mantissa_bits = 0 the last bit of a code is the last bit of its exponent field: field = exponent
            + parity.
        step: the number that one unit stands for: integers with a scale. Not a power of two, as those are folded
            into the rest.
    """

    mantissa_bits: int
    min_exponent: int
    highest: float
    lowest: float
    overflow: str = "saturate"
    nan_below: bool = False
    smallest: float = 0.0
    negative_zero: bool = True
    parity: int = 0
    step: float = 1.0

    def bound(self, negative: bool) -> float:
        """The largest finite magnitude on this side of zero."""
        return abs(self.lowest) if negative else self.highest

    def bound_is_odd(self, negative: bool) -> bool:
        """Whether the code of that magnitude is odd."""
        mantissa, exponent = math.frexp(self.bound(negative))
        if not self.mantissa_bits:
            return mantissa > 0 and (exponent - 1 + self.parity) % 2 == 1
        lowest_spacing = self.min_exponent - self.mantissa_bits
        return math.ldexp(mantissa, exponent - max(exponent - 1 - self.mantissa_bits, lowest_spacing)) % 2 == 1

    def infinite(self, negative: bool) -> float:
        """The magnitude that infinity of this sign becomes."""
        if negative and self.nan_below:
            return np.nan
        if self.overflow == "saturate" or (negative and self.lowest == 0):
            return self.bound(negative)
        return np.nan if self.overflow == "nan" else np.inf


@dataclass(frozen=True, eq=False)
class Table:
    """A finite set of numbers in rising order, with the thresholds between neighbours.

    Attributes:
        points: float64 [n], rising: the numbers that rounding chooses from. Besides the values of the format there
            may be helpers at the ends: the next value beyond the largest, for overflow, and the binade that is
            flushed to zero.
        values: float64 [n]: what each point becomes.
        codes: int64 [n]: the code of each value (−1 for helpers without one).
        cuts: float64 [n − 1]: the threshold between point i and i + 1 for the nearest modes.
        odd: bool [n]: whether the code of a point is odd; decides ties.
        helpers: whether the last point stands for overflow, and the first one where there are negative numbers.
        negative_zero: whether −0 exists.
        never_zero: posits: a number that is not zero never becomes zero.
        only_positive: negative numbers become NaN.
        infinite: what +infinity becomes (−infinity: its negative); None: the point nearest to it.
    """

    points: np.ndarray
    values: np.ndarray
    codes: np.ndarray
    cuts: np.ndarray
    odd: np.ndarray
    helpers: bool = False
    negative_zero: bool = False
    never_zero: bool = False
    only_positive: bool = False
    infinite: float | None = None


@dataclass(frozen=True)
class BlockSpec:
    """What rounding needs to know about a block format.

    Attributes:
        element: the grid of the scaled elements.
        size: elements a block.
        rule: how a power-of-two scale follows from the block's largest magnitude; unused with ``scale``.
        mantissa_bits: of the elements, for the rule "even".
        scale: the grid of rounded block scales (NVFP4), or None for powers of two.
        tensor_scale: with ``scale``: whether one more float32 scale of the tensor keeps block scales in their range.
    """

    element: Grid
    size: int
    rule: str
    mantissa_bits: int
    scale: Grid | None
    tensor_scale: bool = True

    @property
    def element_exponent(self) -> int:
        """⌊log2⌋ of the largest element."""
        return math.frexp(self.element.highest)[1] - 1

    @property
    def element_fraction(self) -> float:
        """The largest element over its power of two: 1 ≤ fraction < 2."""
        return self.element.highest / 2.0**self.element_exponent

    @property
    def nearest_threshold(self) -> tuple[int, float]:
        """(k, t) of the rule "nearest": the scale of amax = m · 2^e is 2^(e − k), and twice that from m = t on.

        The power of two nearest to amax / largest element changes where that quotient is 1.5 times a power of two.
        """
        fraction = self.element_fraction
        if fraction >= 4 / 3:
            return self.element_exponent + 1, 0.75 * fraction
        return self.element_exponent, 1.5 * fraction


RoundingSpec = Grid | Table | BlockSpec


def midpoints(points: np.ndarray) -> np.ndarray:
    """The arithmetic mean of neighbours; exact when the points have at most 52 significant bits and similar size.

    >>> midpoints(np.array([0.0, 0.5, 2.0]))
    array([0.25, 1.25])
    """
    return points[:-1] + (points[1:] - points[:-1]) / 2
