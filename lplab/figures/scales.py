"""Scales over time: the largest magnitude of a tensor beside the end of the range that a scale gives it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import style


def delayed_ranges(amax: Any, ends: Any, yours: Any = None, *, what: str = "", height: int = 340) -> go.Figure:
    """The largest magnitude in every step, and the largest number that the scale of the step could hold.

    Args:
        amax: largest magnitudes, above zero, [steps].
        ends: ends of the range, above zero, [steps]; a step whose amax is larger is clipped.
        yours: the ends by another function, [steps].
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
    agree = int((own == end).sum())
    if yours is not None:
        text += f"; yours agrees in {agree:,}"
    steps = np.arange(len(top), dtype=np.float64)
    clipped = top > end
    with np.errstate(divide="ignore", invalid="ignore"):  # a wrong answer may be zero or below: it leaves a gap
        log_own = np.where(own > 0, np.log2(own), np.nan)
    traces = [
        _line("largest magnitude", steps, np.log2(top), style.GREEN, "solid", 1.4),
        _line("end of the range", steps, np.log2(end), style.BLUE, "solid", 1.8),
        _line("end by yours", steps, log_own, style.VERMILION, "dot", 3.0) | {"visible": yours is not None},
        _crosses(steps[clipped], np.log2(top[clipped])),
    ]
    low, high = math.floor(np.log2(min(top.min(), end.min()))) - 1, math.ceil(np.log2(max(top.max(), end.max()))) + 1
    layout = {
        "xaxis": {"range": [-1, len(top)], "title": {"text": "step"}},
        "yaxis": style.power_axis(low, high, "magnitude"),
    }
    entries = [
        (style.GREEN, "━", "largest magnitude"),
        (style.BLUE, "━", "end of the range"),
        (style.VERMILION, "×", "clipped"),
        (style.VERMILION, "┅", "end by yours"),
    ]
    return style.apply_style(
        style.figure(traces, layout),
        alt=f"Largest magnitude and end of the range in {len(top):,} steps. {text}.",
        title=text,
        subtitle=style.legend(*entries[: 4 if yours is not None else 3]),
        height=height,
    )


def _title(top: np.ndarray, end: np.ndarray, what: str) -> str:
    clipped = top > end
    room = float(np.log2(end[~clipped] / top[~clipped]).mean()) if not clipped.all() else 0.0
    text = f"clipped in {clipped.sum():,} of {len(top):,} steps; {room:.1f} octaves unused in the others"
    return f"{what}: {text}" if what else text.capitalize()


def _line(name: str, x: np.ndarray, y: np.ndarray, colour: str, dash: str, width: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": y,
        "line": {"color": colour, "dash": dash, "width": width},
        "hovertemplate": f"step %{{x:,d}}<br>{name}  2^%{{y:.2f}}<extra></extra>",
    }


def _crosses(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    trace_style = {
        "symbol": "x-thin",
        "size": 7,
        "line": {"width": 1.8, "color": style.VERMILION},
        "color": style.VERMILION,
    }
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "clipped",
        "x": x,
        "y": y,
        "marker": trace_style,
        "hovertemplate": "step %{x:,d}<br>clipped  2^%{y:.2f}<extra></extra>",
    }
