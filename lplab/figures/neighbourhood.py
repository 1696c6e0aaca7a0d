"""The numbers of a format on both sides of one number: a short stretch of the number line, never a crowded one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.figures.grid import element_of, neighbours, values_between
from lplab.figures.window import just_above

EACH_SIDE = 3  # numbers of the format to each side, at most
VIEW_REACH = 2.4  # how far the view goes beyond the two neighbours, in units of their distance
MARGIN = 0.06  # of the view, at each end


@dataclass(frozen=True)
class Neighbourhood:
    """What lies around a number.

    Attributes:
        values: float64 [n], rising: the format's numbers in view.
        view: (low, high) as values.
        halfway: the middle between the two neighbours; beyond the largest number the middle between it and the number
            that would come next; NaN where x is a number of the format.
        end: where the format ends, if that is in view: its largest number (or the lowest, for x below it), else NaN.
    """

    values: np.ndarray
    view: tuple[float, float]
    halfway: float
    end: float

    @property
    def beyond(self) -> tuple[float, float]:
        """The part of the view in which the format has no numbers any more; empty if there is none."""
        if math.isnan(self.end):
            return 0.0, 0.0
        return (self.end, self.view[1]) if self.end == self.values[-1] else (self.view[0], self.end)


def neighbourhood(fmt: Any, x: float, also: tuple[float, ...] = ()) -> Neighbourhood:
    """The stretch of the number line around ``x``, longer where that brings one of the numbers ``also`` into view.

    >>> from lplab import formats
    >>> around = neighbourhood(formats.get("e2m1"), 2.2)
    >>> around.values, around.halfway
    (array([1. , 1.5, 2. , 3. , 4. ]), 2.5)
    >>> neighbourhood(formats.get("e2m1"), 100.0).end
    6.0
    """
    fmt = element_of(fmt)
    if x > fmt.max or x < fmt.min:
        return _surroundings_of_end(fmt, x, also)
    below, above = _pair(fmt, x)
    gap = above - below
    values = _numbers_around(fmt, below, above, VIEW_REACH * gap)
    low = values[0] if values[0] > fmt.min else values[0] - gap
    high = values[-1] if values[-1] < fmt.max else values[-1] + gap
    values, view = _stretched(fmt, values, float(low), float(high), also)
    ends = [end for end in (fmt.max, fmt.min) if view[0] < end < view[1] and end in (values[0], values[-1])]
    return Neighbourhood(
        values, view, math.nan if x in (below, above) else below + gap / 2, max(ends, default=math.nan)
    )


def _pair(fmt: Any, x: float) -> tuple[float, float]:
    """The two numbers between which x lies; posits never round to zero, so that zero must be put in by hand."""
    below, above = (float(side[0]) for side in neighbours(fmt, np.array([x])))
    if below < above:
        return below, above
    return (0.0, fmt.smallest_subnormal) if x > 0 else (-fmt.smallest_subnormal, 0.0)


def _surroundings_of_end(fmt: Any, x: float, also: tuple[float, ...]) -> Neighbourhood:
    """The surroundings of a number that the format does not reach: those of its last number."""
    end, outward = (fmt.max, 1.0) if x > fmt.max else (fmt.min, -1.0)
    inner = neighbours(fmt, np.array([end]))  # (inside, max) or (lowest, inside)
    below, above = float(inner[0][0]), float(inner[1][0])
    step = above - below
    values = _numbers_around(fmt, below, above, VIEW_REACH * step)
    low, high = (values[0], end + 2.2 * step) if outward > 0 else (end - 2.2 * step, values[-1])
    values, view = _stretched(fmt, values, float(low), float(high), (*also, x))
    return Neighbourhood(values, view, end + outward * step / 2, end)


def _numbers_around(fmt: Any, below: float, above: float, reach: float) -> np.ndarray:
    """The two neighbours and some numbers more to each side, none further than ``reach``."""
    result = [below, above]
    for _ in range(EACH_SIDE - 1):
        if result[0] > fmt.min:
            result.insert(0, float(neighbours(fmt, -just_above(-np.array([result[0]])))[0][0]))
        if result[-1] < fmt.max:
            result.append(float(neighbours(fmt, np.array([result[-1]]))[1][0]))
    values = np.unique(result)
    return values[(values >= below - reach) & (values <= above + reach)]


def _stretched(
    fmt: Any, values: np.ndarray, low: float, high: float, also: tuple[float, ...]
) -> tuple[np.ndarray, tuple[float, float]]:
    """The numbers in view and the view, with the numbers ``also`` as far as they are near, and room at both ends."""
    span = high - low
    near = [v for v in also if math.isfinite(v) and low - 1.5 * span <= v <= high + 1.5 * span]
    wider = (min([low, *near]), max([high, *near]))
    for (start, end), share in ((wider, MARGIN), ((low, high), MARGIN), ((low, high), 0.0)):
        room = share * (end - start)
        view = (start - room, end + room)
        listed = values_between(fmt, *view, 10 * EACH_SIDE)
        if listed is not None:
            return listed, view
    return values, view
