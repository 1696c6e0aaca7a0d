"""Sums in a narrow register: beside the true sum as they grow, and their error against the length of the chunks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import style


def running_sum(lengths: Any, register: Any, true: Any, *, name: str, title: str = "", height: int = 360) -> go.Figure:
    """The running sum in a register beside the true one.

    Args:
        lengths: how many numbers have been added, [n].
        register: the sum in the register after so many, [n]; infinite ones leave a gap.
        true: the exact sums, [n].
        name: of the register, for the legend, such as "1-6-9, no chunks".
        title: the point that it makes; by default where the sum ends.
        height: in pixels.

    Raises:
        ValueError: lengths, register and true differ in length.

    >>> running_sum([1024, 2048], [1024, 1024], [1024, 2048], name="1-6-9").layout.meta["title"]
    '1-6-9: 1,024 instead of 2,048 (50.0 % off)'
    """
    x, y, exact = (np.asarray(values, np.float64) for values in (lengths, register, true))
    if not x.shape == y.shape == exact.shape or x.ndim != 1:
        raise ValueError(f"lengths, register and true must be of one length, got {x.shape}, {y.shape}, {exact.shape}")
    start = np.zeros(1)
    x, y, exact = (np.concatenate([start, values]) for values in (x, y, exact))
    text = title or f"{name}: {grouped(y[-1])} instead of {grouped(exact[-1])} ({off(y[-1], exact[-1])})"
    low, high = _ends(exact)
    lines = [
        _line("true sum", x, exact, style.GREEN, "solid", 4.0),
        _line("register", x, np.where(np.isfinite(y), y, np.nan), style.BLUE, "dash", 2.2),
    ]
    layout = {
        "xaxis": {"range": [0, float(x[-1])], "title": {"text": "numbers added"}, "tickformat": ",d"},
        "yaxis": {"range": [low, high], "title": {"text": "sum"}, "tickformat": ",d"},
    }
    half = len(y) // 2
    at_half = f"Halfway: {grouped(y[half])} instead of {grouped(exact[half])}."
    return style.apply_style(
        style.figure(lines, layout),
        alt=f"Running sum of {grouped(x[-1])} numbers in {name}. {text}. {at_half}",
        title=text,
        subtitle=style.legend((style.GREEN, "━", "true sum"), (style.BLUE, "╍", name)),
        height=height,
        r=28,
    )


def chunk_error(chunks: Any, errors: Any, yours: Any = None, *, name: str, height: int = 320) -> go.Figure:
    """Relative error of a sum against the length of its chunks, both on logarithmic axes.

    Args:
        chunks: lengths, powers of two, [n].
        errors: relative errors of the library's sums, [n]; those below 0.01 % are drawn there.
        yours: those of another function, [n], as open circles; those that differ from the library's as crosses.
        name: of what is summed, for the title.
        height: in pixels.

    Raises:
        ValueError: arguments of different length.

    >>> chunk_error([1, 64], [0.94, 0.001], [0.94, 0.5], name="Sums").layout.meta["title"]
    'Sums: best with chunks of 64; yours agrees at 1 of 2'
    """
    x, y = np.log2(np.asarray(chunks, np.float64)), np.asarray(errors, np.float64)
    own = np.full(y.shape, np.nan) if yours is None else np.asarray(yours, np.float64)
    if not x.shape == y.shape == own.shape or x.ndim != 1:
        raise ValueError(f"chunks, errors and yours must be of one length, got {x.shape}, {y.shape}, {own.shape}")
    agree = own == y
    best = round(2 ** float(x[int(np.argmin(y))]))
    text = f"{name}: best with chunks of {best:,}" + (
        f"; yours agrees at {agree.sum()} of {len(y)}" if yours is not None else ""
    )
    dots = [_points("yours, the same", x, own, agree, "circle-open", style.VERMILION)]
    dots.append(_points("yours, different", x, own, ~agree & ~np.isnan(own), "x", style.VERMILION))
    ticks = np.arange(x.min(), x.max() + 1, 2)
    decades = np.array([0.0001, 0.001, 0.01, 0.1, 1.0])
    layout = {
        "xaxis": {"range": [float(x.min()) - 0.4, float(x.max()) + 0.4], "title": {"text": "length of a chunk"}}
        | {"tickvals": ticks, "ticktext": np.array([f"{2**t:,.0f}" for t in ticks])},
        "yaxis": {"type": "log", "range": [-4.2, 0.3], "title": {"text": "relative error (%)"}}
        | {"tickvals": decades, "ticktext": np.array([f"{100 * d:g}" for d in decades])},
    }
    entries = [
        (style.BLUE, "●", "library"),
        (style.VERMILION, "○", "yours, the same"),
        (style.VERMILION, "×", "yours, different"),
    ]
    each = ", ".join(f"{number_text.percent(e)} at {2**c:,.0f}" for c, e in zip(x, y, strict=True))
    return style.apply_style(
        style.figure([_library(x, y), *dots], layout),
        alt=f"Relative error against the length of the chunks: {each}. {text}.",
        title=text,
        subtitle=style.legend(*entries[: 3 if yours is not None else 1]),
        height=height,
    )


def grouped(value: float) -> str:
    """A sum as text, with its thousands apart.

    >>> grouped(65565.117), grouped(-4096.0), grouped(float("inf")), grouped(0.25)
    ('65,565', '−4,096', '∞', '0.25')
    """
    if not math.isfinite(value):
        return number_text.number(value)
    return (f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}").replace(
        "-", number_text.MINUS
    )


def off(value: float, true: float) -> str:
    """How far a sum is from the true one, in words.

    >>> off(4096, 65565), off(1.0, 1.0), off(float("inf"), 2.0)
    ('93.8 % off', 'exact', 'overflow')
    """
    if not math.isfinite(value):
        return "overflow"
    if value == true:
        return "exact"
    return (
        f"{number_text.percent(abs(value - true) / abs(true))} off"
        if true and abs(value - true) < 10 * abs(true)
        else "far off"
    )


def _ends(exact: np.ndarray) -> tuple[float, float]:
    """The ends of the axis: from the true sums alone, so that no position of a control moves it without need."""
    low, high = float(min(exact.min(), 0)), float(max(exact.max(), 0))
    room = 0.08 * max(high - low, 1.0)
    return low - (room if low < 0 else 0.25 * room), high + room


def _line(name: str, x: np.ndarray, y: np.ndarray, colour: str, dash: str, width: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": y,
        "line": {"color": colour, "dash": dash, "width": width},
        "hovertemplate": f"{name}<br>numbers  %{{x:,d}}<br>sum      %{{y:,.6g}}<extra></extra>",
    }


def _library(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    trace_style = {"marker": {"size": 7, "color": style.BLUE}, "line": {"color": style.BLUE, "width": 1.6}}
    return _dots("library", x, y) | {"mode": "lines+markers"} | trace_style


def _points(name: str, x: np.ndarray, y: np.ndarray, shown: np.ndarray, symbol: str, colour: str) -> dict[str, Any]:
    trace_style = {"marker": {"size": 13, "symbol": symbol, "color": colour, "line": {"width": 2, "color": colour}}}
    return _dots(name, x[shown], y[shown]) | {"mode": "markers"} | trace_style


def _dots(name: str, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    hover = f"{name}<br>chunk  %{{customdata[0]:,d}}<br>error  %{{customdata[1]:.3g}} %<extra></extra>"
    return {
        "type": "scatter",
        "name": name,
        "x": x,
        "y": np.maximum(y, 1e-4),
        "customdata": np.stack([np.round(2**x), 100 * y], axis=1) if len(x) else np.zeros((0, 2)),
        "hovertemplate": hover,
    }
