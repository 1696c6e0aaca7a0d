"""Where a format stops holding numbers: below which magnitude they become zero, above which they saturate."""

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
    """The magnitudes that survive in a format with one rounding.

    Attributes:
        flush: the largest magnitude that becomes zero (with stochastic rounding: may become zero); 0 if none does.
        smallest: the smallest positive value.
        normal: the smallest value with full precision; equal to ``smallest`` where that makes no difference.
        low: numbers below this saturate; minus infinity or NaN where the format has no saturation.
        high: numbers above this saturate.
    """

    flush: float
    smallest: float
    normal: float
    low: float
    high: float

    @property
    def magnitude(self) -> float:
        """The magnitude from which something saturates, whatever the sign (without signs: positive numbers)."""
        return min(self.high, -self.low) if self.low < 0 < self.high else max(self.high, -self.low)

    def scaled(self, factor: float) -> Window:
        """The window of the same format behind a scale factor.

        >>> Window(0.25, 0.5, 1.0, -7.0, 7.0).scaled(4)
        Window(flush=1.0, smallest=2.0, normal=4.0, low=-28.0, high=28.0)
        """
        return Window(*(factor * edge for edge in (self.flush, self.smallest, self.normal, self.low, self.high)))


@lru_cache(maxsize=512)
def window(fmt: Any, rounding: AnyRounding = "nearest_even") -> Window:
    """The window of a format, or for a block format that of its elements before scaling.

    The lower edge is measured by bisection on the bits of float64 with ``fmt.quantize`` as the test. With the nearest
    modes a number saturates from half a step above the largest value, as then it would have gone to a value
    that does not exist; with the others from the largest value itself.

    >>> from lplab import formats
    >>> window(formats.get("e4m3fn"))
    Window(flush=0.0009765625, smallest=0.001953125, normal=0.015625, low=-464.0, high=464.0)
    """
    rounding = getattr(rounding, "mode", rounding)  # a formats.Rounding will do, too
    if hasattr(fmt, "element"):
        return window(fmt.element, rounding)
    smallest, high, low = fmt.smallest_subnormal, fmt.max, fmt.lowest
    if mode_of(rounding) in NEAREST:
        high += _step_inside(fmt, high) / 2
        low -= _step_inside(fmt, low) / 2
    flush = smallest
    if mode_of(rounding) != "stochastic":
        flush = max(_largest_zero(fmt, rounding, sign) for sign in (1, -1))
    return Window(flush, smallest, fmt.smallest_normal, min(low, 0.0), high)


def _step_inside(fmt: Any, end: float) -> float:
    """The distance between the outermost value and its neighbour towards zero."""
    if end == 0:
        return _step_inside(fmt, fmt.max) if not math.isinf(fmt.max) else 0.0
    inside = fmt.quantize(just_above(np.array([-abs(end)])) * -np.sign(end), "toward_zero")[0]
    return abs(end - float(inside)) if np.isfinite(inside) else 0.0


def _largest_zero(fmt: Any, rounding: AnyRounding, sign: int) -> float:
    """The largest magnitude of one sign that becomes zero, or 0: a search over float64 bits, 257 probes a round."""
    low, high = 0, int(np.float64(fmt.smallest_subnormal).view(np.int64))
    while high - low > 1:
        probes = np.unique(np.linspace(low, high, 257).astype(np.int64))
        probes = probes[(probes > low) & (probes < high)]
        probes = probes if len(probes) else np.array([low + 1])
        zero = np.asarray(fmt.quantize(sign * probes.view(np.float64), rounding)) == 0
        count = int(np.argmin(zero)) if not zero.all() else len(probes)  # probes rise, so zeros come first
        low, high = int(probes[count - 1]) if count else low, int(probes[count]) if count < len(probes) else high
    return float(np.int64(low).view(np.float64))
