"""Where a format stops holding numbers: which of them become zero, and beyond which they saturate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lplab.formats import Rounding

AnyRounding = str | Rounding
NEAREST = ("nearest_even", "nearest_away", "nearest_down")


def mode_of(rounding: AnyRounding) -> str:
    """The name of a rounding, given as a name or as a Rounding with its random bits.

    >>> mode_of("up"), mode_of(Rounding("stochastic", random_bits=4))
    ('up', 'stochastic')
    """
    return rounding.mode if isinstance(rounding, Rounding) else rounding


def just_above(x: np.ndarray) -> np.ndarray:
    """The float64 a hair above: eight units in the last place, as one is lost when integers divide by their scale.

    >>> just_above(np.array([1.0])) - 1
    array([1.77635684e-15])
    """
    return x + 8 * np.spacing(np.abs(x))


@dataclass(frozen=True)
class Window:
    """The numbers that survive in a format with one rounding: from ``low`` to ``high``, without those around zero.

    The two sides of zero can differ, as in int8 (−128 to 127) and NF4 (seven values below zero, eight above).

    Attributes:
        low: numbers below this saturate; minus infinity or NaN where the format has no saturation.
        zero_low: the lowest number that becomes zero (with stochastic rounding: may become zero); 0 if none below does.
        zero_high: the highest number that becomes zero; 0 if none above does.
        high: numbers above this saturate.
        smallest: the smallest positive value.
        normal: the smallest value with full precision; equal to ``smallest`` where that makes no difference.
        has_negatives: whether the format has values below zero.
    """

    low: float
    zero_low: float
    zero_high: float
    high: float
    smallest: float
    normal: float
    has_negatives: bool = True

    @property
    def flush(self) -> float:
        """The largest magnitude that becomes zero on one side at least; 0 if none does."""
        return max(self.zero_high, -self.zero_low)

    @property
    def magnitude(self) -> float:
        """The magnitude from which something saturates, whatever the sign (without signs: positive numbers)."""
        return min(self.high, -self.low) if self.has_negatives else self.high

    def scaled(self, factor: float) -> Window:
        """The window of the same format behind a scale factor.

        >>> Window(low=-7.0, zero_low=-0.25, zero_high=0.25, high=7.0, smallest=0.5, normal=1.0).scaled(4).high
        28.0
        """
        low, zero_low, zero_high, high = (
            factor * edge for edge in (self.low, self.zero_low, self.zero_high, self.high)
        )
        return Window(low, zero_low, zero_high, high, factor * self.smallest, factor * self.normal, self.has_negatives)


@lru_cache(maxsize=512)
def window(fmt: Any, rounding: AnyRounding = "nearest_even") -> Window:
    """The window of a format, or for a block format that of its elements before scaling.

    What becomes zero is measured on each side by bisection on the bits of float64 with ``fmt.quantize`` as the test.
    With the nearest modes a number saturates from half a step beyond the outermost value, as then it would have gone to
    a value that does not exist; with the others from the outermost value itself.

    >>> from lplab import formats
    >>> edges = window(formats.get("e4m3fn"))
    >>> edges.low, edges.zero_low, edges.zero_high, edges.high
    (-464.0, -0.0009765625, 0.0009765625, 464.0)
    """
    rounding = getattr(rounding, "mode", rounding)  # a formats.Rounding will do, too
    if hasattr(fmt, "element"):
        return window(fmt.element, rounding)
    high, low = fmt.max, min(fmt.min, 0.0)
    if mode_of(rounding) in NEAREST:
        high += _step_beyond(fmt, high) / 2
        low -= _step_beyond(fmt, low) / 2 if fmt.min <= 0 else 0.0
    signed = fmt.min < 0
    zero_low = _last_zero(fmt, rounding, fmt.min if signed else low)
    zero_high = _last_zero(fmt, rounding, fmt.max)
    return Window(low, zero_low, zero_high, high, fmt.smallest_subnormal, fmt.smallest_normal, signed)


def _step_beyond(fmt: Any, end: float) -> float:
    """The distance from the outermost value to where the next one would be: as far as to its neighbour inside.

    A codebook with a number ``beyond`` its largest value says itself where the next one would be.
    """
    if end == 0:  # no negative value: the next one would mirror the smallest
        return float(fmt.smallest_subnormal)
    if end == fmt.max and getattr(fmt, "beyond", None) is not None:
        return float(fmt.beyond - end)
    inside = fmt.quantize(just_above(np.array([-abs(end)])) * -np.sign(end), "down" if end > 0 else "up")[0]
    return abs(end - float(inside)) if np.isfinite(inside) else 0.0


def _last_zero(fmt: Any, rounding: AnyRounding, end: float) -> float:
    """The number furthest from zero that becomes zero on the way to ``end``, or 0.

    A search over float64 bits, 257 probes a round. With stochastic rounding, all numbers may become zero that do so
    toward zero, up to the first value itself.
    """
    is_random = mode_of(rounding) == "stochastic"
    low, high = 0, int(np.float64(abs(end)).view(np.int64)) + 1
    while high - low > 1:
        probes = np.unique(np.linspace(low, high, 257).astype(np.int64))
        probes = probes[(probes > low) & (probes < high)]
        probes = probes if len(probes) else np.array([low + 1])
        numbers = np.copysign(probes.view(np.float64), end)
        zero = np.asarray(fmt.quantize(numbers, "toward_zero" if is_random else rounding)) == 0
        count = int(np.argmin(zero)) if not zero.all() else len(probes)  # probes grow, so zeros come first
        low, high = int(probes[count - 1]) if count else low, int(probes[count]) if count < len(probes) else high
    return math.copysign(float(np.int64(low + (is_random and low > 0)).view(np.float64)), end) + 0.0
