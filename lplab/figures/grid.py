"""The values of a format on a stretch of the number line: one by one while few, as a density when many."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.figures.window import just_above

LISTED_BITS = 16  # formats up to this width are listed through their codebook; wider ones are probed


def element_of(fmt: Any) -> Any:
    """The format whose grid can be drawn: a block format's element, else the format itself."""
    return getattr(fmt, "element", fmt)


def values_between(fmt: Any, low: float, high: float, limit: int) -> np.ndarray | None:
    """The distinct finite values in [low, high] in rising order, or None if there are more than ``limit``.

    >>> from lplab import formats
    >>> values_between(formats.get("e2m1"), 0, 2, 10)
    array([0. , 0.5, 1. , 1.5, 2. ])
    >>> values_between(formats.get("fp32"), 1, 1 + 2**-22, 10) - 1
    array([0.00000000e+00, 1.19209290e-07, 2.38418579e-07])
    """
    fmt = element_of(fmt)
    low, high = max(low, fmt.min), min(high, fmt.max)
    if low > high:
        return np.empty(0)
    if fmt.bits <= LISTED_BITS:
        values = fmt.values[np.searchsorted(fmt.values, low) : np.searchsorted(fmt.values, high, side="right")]
        return values + 0.0 if len(values) <= limit else None  # + 0.0 turns −0 into 0
    edges = np.linspace(low, high, 65)
    return None if density(fmt, edges[:-1], np.diff(edges)).sum() > 4 * limit else _all_values(fmt, low, high, limit)


def _all_values(fmt: Any, low: float, high: float, limit: int) -> np.ndarray | None:
    """Go from value to value, each time to the next one above."""
    value = np.array([fmt.quantize(low, "up")])
    values: list[float] = []
    while value[0] <= high and len(values) <= limit:
        values.append(float(value[0]))
        if value[0] == fmt.max:
            break
        value = neighbours(fmt, value)[1]
    return np.array(values) if len(values) <= limit else None


def neighbours(fmt: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest values below and above each x that are different from each other: float64; NaN beyond the last value.

    At a value of the format itself, this value and the next one above (the next below for the largest).

    >>> from lplab import formats
    >>> neighbours(formats.get("e2m1"), np.array([0.7, 1.0, 6.0]))
    (array([0.5, 1. , 4. ]), array([1. , 1.5, 6. ]))
    """
    fmt = element_of(fmt)
    x = np.asarray(x, np.float64)
    inside = (x >= fmt.min) & (x <= fmt.max)
    probe = np.where(inside, x, fmt.max)
    below = np.asarray(fmt.quantize(np.where(probe == fmt.max, -just_above(-probe), probe), "down"), np.float64)
    above = np.asarray(fmt.quantize(np.where(probe == below, just_above(probe), probe), "up"), np.float64)
    stuck = above <= below  # without subnormals even "up" flushes small numbers to zero
    above = np.where(stuck & (probe >= 0), fmt.smallest_subnormal, above)
    below = np.where(stuck & (probe < 0), -fmt.smallest_subnormal, below)
    return np.where(inside, below, np.nan), np.where(inside, above, np.nan)


def density(fmt: Any, points: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """How many values lie around each point, in a stretch of this width: width / step (0 where the format has none).

    >>> from lplab import formats
    >>> density(formats.get("fp16"), np.array([1.5, 1e6]), np.array([1.0, 1.0]))
    array([1024.,    0.])
    """
    below, above = neighbours(fmt, points)
    step = above - below
    with np.errstate(invalid="ignore", divide="ignore"):
        count = np.where(step > 0, widths / step, 0.0)
    return np.nan_to_num(count, nan=0.0, posinf=0.0)
