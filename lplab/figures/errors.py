"""How large are the errors of a quantized tensor, and do they lean to one side? Histogram, SQNR and bias."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.statistics import (
    OUTCOMES,
    Quantized,
    TensorStatistics,
    as_format,
    name_of,
    quantized,
    statistics_of,
)
from lplab.figures.window import AnyRounding

BINS = 61
_LIMITS = tuple(a * 10.0**k for k in range(-9, 4) for a in (1, 2, 5))  # percent; fixed scales, so that axes seldom move
_TOPS = (3.0, 10.0, 15.0, 25.0, 50.0, 105.0)


def error_histogram_data(result: Quantized, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Centres of 61 bins from −limit to limit (percent of the tensor's RMS), and percent of elements by outcome.

    What lies beyond is counted in the outermost bins.

    >>> centres, shares = error_histogram_data(quantized(np.array([1.0, 1.01]), "e4m3fn"), 10.0)
    >>> float(shares.sum()), shares[0].max(), centres[[0, 30, 60]].round(2)
    (100.0, np.float64(50.0), array([-9.84, -0.  ,  9.84]))
    """
    edges = np.linspace(-limit, limit, BINS + 1)
    there = np.isfinite(result.q)
    error = np.nan_to_num(100 * (result.q - result.x)[there] / (_rms(result) or 1.0))
    column = np.clip(np.floor((error + limit) / (2 * limit) * BINS), 0, BINS - 1).astype(np.int64)
    counts = np.bincount(result.outcome[there] * BINS + column, minlength=4 * BINS).reshape(4, BINS)
    return (edges[1:] + edges[:-1]) / 2, 100 * counts / max(len(result.x), 1)


def _rms(result: Quantized) -> float:
    return math.sqrt(float(np.square(result.x).sum()) / len(result.x)) if len(result.x) else 0.0


def error_histogram(
    tensor: Any,
    fmt: Any,
    *,
    rounding: AnyRounding = "nearest_even",
    seed: int = 0,
    limit: float | None = None,
    height: int = 340,
) -> go.Figure:
    """Histogram of the errors q − x in percent of the tensor's RMS, with the signal-to-noise ratio and the bias.

    Args:
        tensor: float numpy array or torch tensor.
        fmt: a format or its name.
        rounding: one of ``lplab.formats.ROUNDINGS``.
        seed: for stochastic rounding.
        limit: the axis goes from −limit to limit (percent); by default one of a few fixed scales.
        height: in pixels.

    >>> fig = error_histogram(np.linspace(-1, 1, 999), "int8")
    >>> fig.layout.meta["title"]
    'int8: SQNR 6.0 dB, bias about 0 %'
    """
    fmt = as_format(fmt)
    result = quantized(tensor, fmt, rounding, seed)
    numbers = statistics_of(result, fmt, rounding)
    rms = _rms(result)
    limit = limit or _limit(result, rms)
    centres, shares = error_histogram_data(result, limit)
    bias = 100 * numbers.bias / rms if rms else 0.0
    top = min(t for t in _TOPS if t >= 1.1 * shares.sum(axis=0).max() or t == _TOPS[-1])
    fig = go.Figure(
        data=[*_bars(centres, shares, limit, numbers), _bias_line(bias, limit, top)],
        layout={
            "barmode": "stack",
            "xaxis": axes.axis(-limit, limit, "error q − x (% of the tensor's RMS)", nticks=7),
            "yaxis": axes.axis(0, top, "share of elements (%)", nticks=6),
            "annotations": [_bias_label(bias, limit)],
        },
    )
    title = (
        f"{name_of(fmt)}: SQNR {number_text.decibels(numbers.sqnr_db)}, bias "
        f"{number_text.signed_percent(bias / 100, 2)}"
    )
    if not len(result.x):
        title = f"{name_of(fmt)}: no finite element"
    subtitle = _subtitle(numbers)
    return style.apply_style(fig, alt=_alt(numbers, bias), title=title, subtitle=subtitle, height=height, legend=True)


def _limit(result: Quantized, rms: float) -> float:
    """The smallest of the fixed scales that holds 99 % of the errors."""
    error = np.abs(result.q - result.x)
    error = error[np.isfinite(error)]
    needed = 100 * float(np.quantile(error, 0.99)) / rms if len(error) and rms else 0.0
    return next((limit for limit in _LIMITS if limit >= needed > 0), 10.0)


def _bars(centres: np.ndarray, shares: np.ndarray, limit: float, numbers: TensorStatistics) -> list[dict[str, Any]]:
    width = np.full(len(centres), 1.92 * limit / BINS)
    return [
        traces.bars(
            f"{outcome} {number_text.percent(getattr(numbers, outcome))}",
            centres,
            share,
            style.OUTCOME_STYLES[outcome],
            f"error     %{{x:.3g}} % of RMS<br>{outcome:<9} %{{y:.3g}} %",
            width=width,
        )
        for outcome, share in zip(OUTCOMES, shares, strict=True)
    ]


def _bias_line(bias: float, limit: float, top: float) -> dict[str, Any]:
    """A line at the mean error; at the edge if it lies beyond."""
    return traces.line(
        "bias",
        np.full(2, np.clip(bias, -limit, limit)),
        np.array([0.0, top]),
        traces.stroke(style.PINK, 2, "dash"),
        f"{{name}}  {bias:.3g} % of RMS".replace("-", number_text.MINUS),
        visible=math.isfinite(bias),
        showlegend=False,
    )


def _bias_label(bias: float, limit: float) -> dict[str, Any]:
    """The word beside the line, on the side of the middle."""
    there = float(np.clip(bias, -limit, limit)) if math.isfinite(bias) else 0.0
    side = {"x": there, "xanchor": "right" if there > 0 else "left", "xshift": -4 if there > 0 else 4}
    return {"text": "bias", "y": 1, "yref": "y domain", "yanchor": "top", "visible": math.isfinite(bias)} | side


def _subtitle(n: TensorStatistics) -> str:
    parts = [f"{n.count:,} elements"]
    parts += [f"<b>{n.nan:,} NaN</b>"] if n.nan else []
    parts += [f"<b>{n.infinite:,} infinite</b>"] if n.infinite else []
    parts += [f"<b>{n.overflowed:,} became ∞ or NaN</b>"] if n.overflowed else []
    if math.isfinite(n.relative_bias):
        change = number_text.percent(abs(n.relative_bias))
        parts += [f"magnitudes {'grow' if n.relative_bias > 0 else 'shrink'} by {change} on average"]
    return " · ".join(parts)


def _alt(n: TensorStatistics, bias: float) -> str:
    lost = f" {n.overflowed:,} finite elements became infinity or NaN and are left out." if n.overflowed else ""
    lost += f" {n.nan:,} NaN and {n.infinite:,} infinite elements are left out." if n.nan or n.infinite else ""
    return (
        f"Histogram of the errors of {n.count:,} elements in {n.format} with rounding {n.rounding}: SQNR "
        f"{number_text.decibels(n.sqnr_db)}, bias {number_text.signed_percent(bias / 100, 2)} of the tensor's RMS, "
        f"{number_text.percent(n.flushed)} flushed to zero and {number_text.percent(n.saturated)} saturated.{lost}"
    )
