"""Convert(x, ⟨IL, FL⟩) of Gupta et al. 2015, section 3.1: saturate, round, and count what that did.

Any rounding of :mod:`lplab.formats` can be used, ``"nearest_up"`` (the popular ``floor(x + 0.5)``), or a user's
function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from lplab.formats import ROUNDINGS as FORMAT_ROUNDINGS
from lplab.formats import FixedFormat

ROUNDINGS = (*FORMAT_ROUNDINGS, "nearest_up")
LABELS = {  # as figures and tables call them
    "stochastic": "stochastic",
    "nearest_down": "nearest (ties down)",
    "nearest_even": "nearest (ties to even)",
    "nearest_up": "floor(x + ½)",
}
Rounding = str | Callable[[np.ndarray, int, np.random.Generator], Any]
# Elements from which lplab.formats loads a compiled loop, which then serves small arrays too.
_MIN_COMPILED_SIZE = 2**15


@dataclass(frozen=True)
class ConversionCounts:
    """Counts of what Convert did during some steps of a training; they can be added.

    Attributes:
        outputs, outputs_saturated: layer outputs that were converted, and those that lay outside the range.
        errors, errors_saturated: the same of back-propagated errors.
        updates, updates_saturated: the same of weight and bias updates.
        weights, weights_saturated: the same of weights and biases after an update was added.
        updates_wanted: updates that were not zero before Convert.
        updates_lost: of those, how many Convert made zero.
        updates_made: updates that were not zero after Convert.
        drift: sum of what rounding added to the updates, in units of their step 2^−FL.
        sampled, ties: updates checked for ties (the first batch of an epoch), and how many lay exactly halfway.
    """

    outputs: int = 0
    outputs_saturated: int = 0
    errors: int = 0
    errors_saturated: int = 0
    updates: int = 0
    updates_saturated: int = 0
    weights: int = 0
    weights_saturated: int = 0
    updates_wanted: int = 0
    updates_lost: int = 0
    updates_made: int = 0
    drift: float = 0.0
    sampled: int = 0
    ties: int = 0

    def __add__(self, other: ConversionCounts) -> ConversionCounts:
        return ConversionCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(ConversionCounts)))

    def shares(self) -> dict[str, float]:
        """The counts as shares from 0 to 1 (0 where nothing was counted); drift in steps per update.

        >>> ConversionCounts(updates=8, updates_wanted=4, updates_lost=1, updates_made=3).shares()["updates_lost"]
        0.25
        """
        saturated = {
            f"{role}_saturated": _share(getattr(self, f"{role}_saturated"), getattr(self, role))
            for role in ("outputs", "errors", "updates", "weights")
        }
        return saturated | {
            "updates_lost": _share(self.updates_lost, self.updates_wanted),
            "updates_made": _share(self.updates_made, self.updates),
            "drift": _share(self.drift, self.updates),
            "ties": _share(self.ties, self.sampled),
        }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


class Converter:
    """Convert with one rounding rule and one stream of random numbers; counts per role until :meth:`collect`.

    Args:
        rounding: one of :data:`ROUNDINGS`, or a function of (x float64 array, fraction_bits, numpy Generator) that
            returns an array of the same shape with multiples of 2^−fraction_bits. The function need not saturate.
        seed: of the random numbers. Every element of every conversion has its own: one draw shared by a tensor would
            make all errors equal, and they would no longer cancel.

    >>> convert = Converter("nearest_down", seed=0)
    >>> convert(np.array([0.3, 0.125, -0.125, 9.0]), FixedFormat(3, 2), "outputs")
    array([ 0.25,  0.  , -0.25,  3.75])
    >>> convert.collect().outputs_saturated
    1
    """

    def __init__(self, rounding: Rounding, seed: Any) -> None:
        if not callable(rounding) and rounding not in ROUNDINGS:
            raise ValueError(
                f"unknown rounding {rounding!r}; allowed: {', '.join(ROUNDINGS)}, or a function of (x, fraction_bits, "
                "rng)"
            )
        self.rounding, self.rng = rounding, np.random.default_rng(seed)
        self._counts: dict[str, float] = {}
        if rounding in FORMAT_ROUNDINGS:
            FixedFormat(8, 8).quantize(np.zeros(_MIN_COMPILED_SIZE), str(rounding), seed=0)

    def __call__(
        self, x: np.ndarray, fmt: FixedFormat | None, role: str = "", *, count_ties: bool = False
    ) -> np.ndarray:
        """Convert a contiguous float64 array in place and return it; without a format it is not changed.

        Args:
            x: the values.
            fmt: ⟨IL, FL⟩, or None for floating point.
            role: outputs, errors, updates or weights, to be counted; "" to count nothing.
            count_ties: whether to count ties as well, which takes longer than everything else.

        Raises:
            ValueError: a user's rounding function returned an unusable result.
        """
        before = self._before(x, fmt, count_ties) if role == "updates" else None
        saturated = 0 if fmt is None else _clip(x, fmt)
        if fmt is not None and role != "weights":  # a sum of two values of the format needs no rounding
            self._round(x, fmt)
        if role:
            self._add(role, x.size)
            self._add(f"{role}_saturated", saturated)
        if before is not None:
            self._after(x, fmt, *before)
        return x

    def collect(self) -> ConversionCounts:
        """What was counted since the last call."""
        counts, self._counts = ConversionCounts(**self._counts), {}  # type: ignore[arg-type]
        return counts

    def _add(self, name: str, count: float) -> None:
        self._counts[name] = self._counts.get(name, 0) + count

    def _before(self, x: np.ndarray, fmt: FixedFormat | None, count_ties: bool) -> tuple[int, float]:
        if count_ties and fmt is not None:
            self._add("sampled", x.size)
            self._add("ties", int(np.count_nonzero(np.abs(x / fmt.smallest_subnormal) % 1 == 0.5)))
        return int(np.count_nonzero(x)), float(x.sum())

    def _after(self, x: np.ndarray, fmt: FixedFormat | None, wanted: int, total: float) -> None:
        made = int(np.count_nonzero(x))
        self._add("updates_wanted", wanted)
        self._add("updates_made", made)
        self._add("updates_lost", wanted - made)  # zero is never rounded to another number
        if fmt is not None:
            self._add("drift", (float(x.sum()) - total) / fmt.smallest_subnormal)

    def _round(self, x: np.ndarray, fmt: FixedFormat) -> None:
        """Round values within the range, in place."""
        if callable(self.rounding):
            np.clip(_from_user(self.rounding, x, fmt, self.rng), fmt.min, fmt.max, out=x)
        elif self.rounding == "nearest_up":
            steps = 2.0**fmt.fraction_bits
            np.multiply(x, steps, out=x)
            np.add(x, 0.5, out=x)
            np.floor(x, out=x)
            np.divide(x, steps, out=x)
        else:
            fmt.quantize(x, self.rounding, seed=self.rng if self.rounding == "stochastic" else None, out=x)


def _clip(x: np.ndarray, fmt: FixedFormat) -> int:
    """Saturate in place; how many values lay outside the range."""
    low, high = fmt.min, fmt.max
    if x.size == 0 or (x.min() >= low and x.max() <= high):
        return 0
    outside = int(np.count_nonzero((x < low) | (x > high)))
    np.clip(x, low, high, out=x)
    return outside


def _from_user(rounding: Any, x: np.ndarray, fmt: FixedFormat, rng: np.random.Generator) -> np.ndarray:
    """The result of a user's rounding function, checked; ValueError if it is unusable."""
    name = getattr(rounding, "__name__", "the rounding function")
    result = rounding(x.copy(), fmt.fraction_bits, rng)
    if result is None:
        raise ValueError(f"{name} returned None; it must return an array like its first argument")
    rounded = np.asarray(result)
    if rounded.dtype.kind not in "fiu" or rounded.shape != x.shape:
        raise ValueError(
            f"{name} returned {rounded.dtype} of shape {rounded.shape}; it must return numbers of shape {x.shape}"
        )
    steps = rounded.astype(np.float64) * 2.0**fmt.fraction_bits
    wrong = steps != np.rint(steps)  # NaN is wrong, too
    wrong |= ~np.isfinite(steps)
    if wrong.any():
        first = float(rounded[wrong][0])
        raise ValueError(f"{name} returned {first!r}, which is no multiple of 2^-{fmt.fraction_bits}")
    return rounded.astype(np.float64)
