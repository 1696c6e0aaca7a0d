"""Original against quantized elements, on top of the format's staircase."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend
from lplab.figures.statistics import (
    EXACT,
    FLUSHED,
    ROUNDED,
    SATURATED,
    Quantized,
    TensorStatistics,
    as_format,
    name_of,
    quantized,
    statistics_of,
)
from lplab.figures.window import AnyRounding, mode_of

SHOWN = 480  # elements drawn; together with the rest this stays below 600 SVG markers
_KINDS = (
    ("kept", (EXACT, ROUNDED), style.BLUE, "circle", 6),
    ("flushed", (FLUSHED,), style.VERMILION, "x", 5),
    ("saturated", (SATURATED,), style.VERMILION, "triangle-up", 8),
)


def quantized_scatter(
    tensor: Any,
    fmt: Any,
    *,
    rounding: AnyRounding = "nearest_even",
    seed: int = 0,
    scale: str = "linear",
    limit: float | None = None,
    height: int = 380,
) -> go.Figure:
    """Original value against quantized value, for at most 480 elements spread evenly over the ranks.

    Args:
        tensor: float numpy array or torch tensor.
        fmt: a format or its name.
        rounding: one of ``lplab.formats.ROUNDINGS``.
        seed: for stochastic rounding.
        scale: "linear", or "log" for magnitudes by powers of two (elements that become zero lie on the line marked 0).
        limit: end of the axes; by default from the tensor, so that a change of format moves nothing.
        height: in pixels.

    >>> fig = quantized_scatter(np.array([-1.0, 0.3, 1e-6]), "e4m3fn")
    >>> [len(trace.x) for trace in fig.data[2:]]
    [2, 1, 0]
    """
    if scale not in ("linear", "log"):
        raise ValueError(f"unknown scale {scale!r}; allowed: linear, log")
    fmt = as_format(fmt)
    result = quantized(tensor, fmt, rounding, seed)
    numbers = statistics_of(result, fmt, rounding)
    low, high = _view(result, numbers, scale, limit)
    log = scale == "log"
    shown = f" ({len(_sample(result)):,} of {numbers.count:,} elements)"
    points = _points(result, low, high, log)
    unchanged = traces.reference("unchanged", np.array([low, high]), np.array([low, high]), style.GREEN, "dash")
    fig = go.Figure(
        data=[unchanged, _staircase(fmt, rounding, low, high, log), *points],
        layout={
            "xaxis": _axis(low, high, log, "original", more=shown),
            "yaxis": _axis(low, high, log, "quantized", zero=True),
        },
    )
    subtitle = legend(*map(entry, points, ("", "", ""), ("", "✕", "")), entry(unchanged))
    title = (
        f"{name_of(fmt)}: SQNR {number_text.decibels(numbers.sqnr_db)}"
        if len(result.x)
        else f"{name_of(fmt)}: no finite element"
    )
    return style.apply_style(fig, alt=_alt(numbers), title=title, subtitle=subtitle, height=height)


def _view(result: Quantized, numbers: TensorStatistics, scale: str, limit: float | None) -> tuple[float, float]:
    """The axes: all of the tensor; on the linear scale a few outliers may lie outside."""
    largest = limit or (numbers.largest if numbers.largest > 0 else 1.0)
    if scale == "linear" and limit is None and len(result.x):
        largest = min(largest, 2.5 * float(np.quantile(np.abs(result.x), 0.99)) or largest)
    if scale == "linear":
        largest = min(largest, 8e307)  # float64 must hold the length of the axis
        return -1.06 * largest, 1.06 * largest
    smallest = numbers.smallest if numbers.smallest > 0 else largest / 2**16
    high = math.ceil(math.log2(largest)) + 1.0
    return max(math.floor(math.log2(smallest)) - 2.0, high - 40), high


def _axis(low: float, high: float, log: bool, title: str, zero: bool = False, more: str = "") -> dict[str, Any]:
    if not log:
        return axes.axis(low, high, title + more, nticks=7)
    axis = axes.power_axis(low, high, f"|{title}|{more}")
    if zero:  # the lowest line of the plot stands for zero
        keep = axis["tickvals"] > low + 1
        axis["tickvals"] = np.append(low, axis["tickvals"][keep])
        axis["ticktext"] = np.append("0", axis["ticktext"][keep])
    return axis


def _sample(result: Quantized) -> np.ndarray:
    """Which elements are drawn: evenly spread over the ranks, the extremes among them."""
    n = len(result.x)
    return np.argsort(result.x, kind="stable")[np.unique(np.linspace(0, n - 1, min(n, SHOWN)).astype(np.int64))]


def _points(result: Quantized, low: float, high: float, log: bool) -> list[dict[str, Any]]:
    chosen = _sample(result)
    x, q, outcome = result.x[chosen], result.q[chosen], result.outcome[chosen]
    hover = "original   %{customdata[0]:.6g}<br>quantized  %{customdata[1]:.6g}<br>error      %{customdata[2]:.3g}"
    points = []
    for name, outcomes, colour, symbol, size in _KINDS:
        mine = np.isin(outcome, outcomes) & np.isfinite(q) & ((x != 0) | (not log))
        a, b = x[mine], q[mine]
        points.append(
            traces.points(
                name,
                np.log2(np.abs(a)) if log else a,
                np.where(b == 0, low, np.log2(np.abs(np.where(b == 0, 1, b)))) if log else b,
                traces.marker(symbol, size, colour, opacity=0.8),
                hover,
                customdata=np.stack([a, b, b - a], axis=1),
                visible=bool(len(a)),
            )
        )
    return points


def _staircase(fmt: Any, rounding: AnyRounding, low: float, high: float, log: bool) -> dict[str, Any]:
    """The quantized value of every number in view; hidden where it depends on neighbours or on random bits."""
    x = np.linspace(low, high, 2001)
    if hasattr(fmt, "block_size") or mode_of(rounding) == "stochastic":
        return traces.reference("the format", x[:0], x[:0], style.GREY, "solid")
    q = np.asarray(fmt.quantize(np.exp2(x) if log else x, rounding), np.float64)
    q = np.where(np.isfinite(q), q, np.nan)
    if log:
        q = np.where(q > 0, np.log2(np.where(q > 0, q, 1)), low)
    return traces.reference("the format", x, q, style.GREY, "solid")


def _alt(n: TensorStatistics) -> str:
    text = number_text.percent
    return (
        f"Scatter of original against quantized values in {n.format} with rounding {n.rounding}: {text(n.exact)} "
        f"unchanged on the diagonal, {text(n.rounded)} on the steps beside it, {text(n.flushed)} flushed to zero, "
        f"{text(n.saturated)} saturated; "
        f"SQNR {number_text.decibels(n.sqnr_db)}, {n.nan:,} NaN and {n.infinite:,} infinite elements left out."
    )
