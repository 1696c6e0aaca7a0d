"""The relative error of rounding, as numbers: what the sawtooth figure draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.figures.grid import element_of, neighbours, values_between
from lplab.figures.statistics import name_of
from lplab.figures.window import AnyRounding, Window, mode_of, window

WIDEST = 22  # octaves in one view
LISTED = 600  # steps in view up to which every tooth is drawn; beyond, the outline of the teeth


@dataclass(frozen=True)
class ErrorCurve:
    """The relative error of one format.

    Attributes:
        name: the format's.
        log2_x: float64 [n], rising.
        percent: float64 [n]: 100·|q − x| / x; NaN where x becomes infinity or NaN.
        is_outline: True if the teeth are too many, and only their tips are connected.
        worst: the largest of these, in percent, from the smallest normal to the largest value, as far as in view.
        window: the magnitudes that survive.
        normal: log2 of the smallest normal and of the largest value.
        is_mean: True with stochastic rounding: then the errors are means, and a single one can be twice the worst mean.
    """

    name: str
    log2_x: np.ndarray
    percent: np.ndarray
    is_outline: bool
    worst: float
    window: Window
    normal: tuple[float, float]
    is_mean: bool = False


def error_curve_data(
    fmt: Any, low: float, high: float, *, rounding: AnyRounding = "nearest_even", octaves: bool = False
) -> ErrorCurve:
    """The relative error for x from 2^low to 2^high, by really quantizing; with stochastic rounding the mean error.

    The points are chosen by the format: each value, both sides of each threshold, and some between. With ``octaves``
    only the largest error of each octave is kept.

    >>> from lplab import formats
    >>> round(error_curve_data(formats.get("e4m3fn"), -5, 5).worst, 3)
    5.882
    """
    element = element_of(fmt)
    values = None if octaves else values_between(element, 2.0**low, 2.0**high, LISTED)
    if values is not None:
        ends = np.unique(np.concatenate([[2.0**low], values, [2.0**high]]))
        x = _probes_in_intervals(ends[:-1], ends[1:], more=int(np.clip(1200 / len(ends), 2, 24)))
        log2_x, error = np.log2(x), _error(element, x, rounding)
        worst = _largest_of_normals(element, x, error)
    else:
        edges = np.arange(math.floor(low), math.ceil(high) + 1.0) if octaves else np.linspace(low, high, 321)
        log2_x = (edges[:-1] + edges[1:]) / 2
        error, worst = _largest_in_bins(element, edges, rounding, probes=64 if octaves else 4)
    normal = (math.log2(element.smallest_normal), math.log2(element.max))
    is_mean = mode_of(rounding) == "stochastic"
    return ErrorCurve(name_of(fmt), log2_x, error, values is None, worst, window(element, rounding), normal, is_mean)


def _largest_of_normals(fmt: Any, x: np.ndarray, error: np.ndarray) -> float:
    """The largest error among the normal numbers."""
    inside = (x >= fmt.smallest_normal) & (x <= fmt.max) & np.isfinite(error)
    return float(error[inside].max()) if inside.any() else math.nan


def _largest_in_bins(fmt: Any, edges: np.ndarray, rounding: AnyRounding, probes: int) -> tuple[np.ndarray, float]:
    """The largest error in each bin of log2 x, at the tips of the teeth around some probes; and of normal numbers."""
    x = np.exp2(edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(probes) + 0.5) / probes).ravel()
    below, above = neighbours(fmt, x)
    has_lower = np.isfinite(below) & (below > 0)
    below, above = np.where(has_lower, below, x), np.where(has_lower, above, x * (1 + 1e-12))
    tips = _probes_in_intervals(below, above, more=0)
    error = _error(fmt, tips, rounding)
    # The last probe's step may reach into the next bin.
    inside = tips.reshape(len(edges) - 1, -1) < np.exp2(edges[1:, None])
    inside[np.diff(edges) < 1] = True  # narrow bins: several may lie in one step and all show its tip
    return np.max(np.where(inside, error.reshape(inside.shape), 0), axis=1), _largest_of_normals(fmt, tips, error)


def _probes_in_intervals(starts: np.ndarray, ends: np.ndarray, more: int) -> np.ndarray:
    """Points of each interval: the start, both sides of the middle, ``more`` between, the end from within."""
    tiny = 1e-9
    at = np.unique(np.concatenate([[0.0, 0.5 - tiny, 0.5 + tiny, 1 - tiny], np.linspace(0, 1, more + 2)[1:-1]]))
    return (starts[:, None] + (ends - starts)[:, None] * at).ravel()


def _error(fmt: Any, x: np.ndarray, rounding: AnyRounding) -> np.ndarray:
    if mode_of(rounding) == "stochastic":
        below, above = neighbours(fmt, x)
        up = (x - below) / (above - below)
        expected = 2 * up * (1 - up) * (above - below)  # of |q − x|, if it goes up with probability ``up``
        error = np.where(np.isfinite(expected), expected, np.abs(np.asarray(fmt.quantize(x, "toward_zero")) - x))
    else:
        error = np.abs(np.asarray(fmt.quantize(x, rounding), np.float64) - x)
    return 100 * np.where(np.isfinite(error), error, np.nan) / x


def view_of(formats: list[Any]) -> tuple[float, float]:
    """The octaves to show: all that the formats hold and a bit more, but at most 22, around 1 if that is among them.

    >>> from lplab import formats
    >>> view_of([formats.get("e2m1")]), view_of([formats.get("fp16")])
    ((-3, 5), (-11, 11))
    """
    elements = [element_of(f) for f in formats]
    low = math.floor(min(math.log2(e.smallest_subnormal) for e in elements)) - 2
    high = math.ceil(max(math.log2(e.max) for e in elements)) + 2
    if high - low <= WIDEST:
        return low, high
    centre = min(max(0, low + WIDEST // 2), high - WIDEST // 2)
    return centre - WIDEST // 2, centre + WIDEST // 2
