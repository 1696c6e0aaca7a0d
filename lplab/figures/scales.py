"""Scales over time: the largest magnitude of a tensor beside the end of the range that a scale gives it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.compare_to_library import where_different
from lplab.figures.legend import entry, legend


def delayed_ranges(amax: Any, ends: Any, yours: Any = None, *, what: str = "", height: int = 340) -> go.Figure:
    """The largest magnitude in every step, and the largest number that the scale of the step could hold.

    Args:
        amax: largest magnitudes, above zero, [steps].
        ends: ends of the range, above zero, [steps]; a step whose amax is larger is clipped.
        yours: the ends by another function, drawn where they differ, [steps].
        what: of which tensor, for the title.
        height: in pixels.

    Raises:
        ValueError: arguments of different length, or numbers that are not above zero.

    >>> delayed_ranges([1, 8, 2], [1, 1, 8], what="A spike").layout.meta["title"]
    'A spike: clipped in 1 of 3 steps; 1.0 octaves unused in the others'
    """
    top, end = np.asarray(amax, np.float64), np.asarray(ends, np.float64)
    own = end if yours is None else np.asarray(yours, np.float64)
    if not top.shape == end.shape == own.shape or top.ndim != 1 or not len(top):
        raise ValueError(f"amax, ends and yours must be of one length, got {top.shape}, {end.shape}, {own.shape}")
    if not (top > 0).all() or not (end > 0).all():
        raise ValueError("magnitudes and ends must be above zero")
    text = _title(top, end, what)
    if yours is not None:
        text += f"; yours agrees in {int((own == end).sum()):,}"
    steps = np.arange(len(top), dtype=np.float64)
    clipped = top > end
    with np.errstate(divide="ignore", invalid="ignore"):  # a wrong answer may be zero or below: it leaves a gap
        log_own = np.where(own > 0, np.log2(own), np.nan)
    hover = "step %{x:,d}<br>{name}  2^%{y:.2f}"
    data = [
        traces.line("largest magnitude", steps, np.log2(top), traces.stroke(style.GREEN, 1.4, "solid"), hover),
        traces.line("end of the range", steps, np.log2(end), traces.stroke(style.BLUE, 1.8, "solid"), hover),
        traces.line(
            "end by yours",
            steps,
            where_different(log_own, np.log2(end)),
            traces.stroke(style.PINK, 2.2, "dot"),
            hover,
            visible=yours is not None,
        ),
        traces.points(
            "clipped", steps[clipped], np.log2(top[clipped]), traces.marker("x-thin", 7, style.VERMILION, 1.8), hover
        ),
    ]
    low, high = math.floor(np.log2(min(top.min(), end.min()))) - 1, math.ceil(np.log2(max(top.max(), end.max()))) + 1
    layout = {"xaxis": axes.axis(-1, len(top), "step"), "yaxis": axes.power_axis(low, high, "magnitude")}
    largest, range_end, _, crosses = map(entry, data)
    own_end = entry(data[2], "end by yours, where it differs")
    return style.apply_style(
        style.figure(data, layout),
        alt=f"Largest magnitude and end of the range in {len(top):,} steps. {text}.",
        title=text,
        subtitle=legend(largest, range_end, crosses, *([own_end] if yours is not None else [])),
        height=height,
    )


def _title(top: np.ndarray, end: np.ndarray, what: str) -> str:
    clipped = top > end
    room = float(np.log2(end[~clipped] / top[~clipped]).mean()) if not clipped.all() else 0.0
    text = f"clipped in {clipped.sum():,} of {len(top):,} steps; {room:.1f} octaves unused in the others"
    return f"{what}: {text}" if what else text.capitalize()
