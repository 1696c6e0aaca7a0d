"""How large are the elements of a tensor, and which of them does a format hold? The histogram of log2|v|."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, shapes, style, traces
from lplab.figures.legend import entry, legend
from lplab.figures.statistics import (
    OUTCOMES,
    Quantized,
    TensorStatistics,
    as_array,
    as_format,
    name_of,
    quantized,
    statistics_of,
)
from lplab.figures.window import AnyRounding, Window, window

_TOP = 86  # room above the plot for title, subtitle and key
_BOTTOM = 48  # and below it, for the axis
_ROOM = 1.32  # the height of the plot, in heights of the tallest bar: what is above the bars is for names of ranges
_LINE = 1.3 * style.NOTE  # pixels of a line of these names
WIDEST = 40  # octaves; what lies further below the largest element is counted in the leftmost bar


@dataclass(frozen=True)
class MagnitudeData:
    """The numbers behind the histogram.

    Attributes:
        octaves: int64 [n]: a bar holds the magnitudes from 2^octave up to the next power of two.
        counts: int64 [4, n]: elements of each octave by outcome (``statistics.OUTCOMES``); all "rounded" without a
            format.
        total: finite elements of the tensor, zeros included: what the shares are of.
        window: the magnitudes that survive; None without a format.
        numbers: the statistics; None without a format.
        nan: elements that are NaN.
        infinite: elements that are infinite.
    """

    octaves: np.ndarray
    counts: np.ndarray
    total: int
    window: Window | None
    numbers: TensorStatistics | None
    nan: int
    infinite: int

    @property
    def shares(self) -> np.ndarray:
        """float64 [4, n]: percent of the finite elements."""
        return 100 * self.counts / max(self.total, 1)


def magnitude_data(
    tensor: Any,
    fmt: Any = None,
    *,
    rounding: AnyRounding = "nearest_even",
    seed: int = 0,
    octaves: tuple[int, int] | None = None,
) -> MagnitudeData:
    """Count the magnitudes of a tensor by octave and by what the format does to them.

    >>> data = magnitude_data(np.array([1.0, 1.5, 3.0, 0.0]))
    >>> data.octaves[data.counts[1] > 0], data.counts[1].max()
    (array([0, 1]), np.int64(2))
    """
    if fmt is None:
        array = as_array(tensor).ravel()
        x = array[np.isfinite(array)].astype(np.float64)
        nan = int(np.isnan(array).sum())
        result = Quantized(x, x, np.ones(len(x), np.uint8), array.size, nan, int(array.size - len(x) - nan))
        edges, numbers = None, None
    else:
        fmt = as_format(fmt)
        result = quantized(tensor, fmt, rounding, seed)
        edges, numbers = window(fmt, rounding).scaled(result.scale), statistics_of(result, fmt, rounding)
    octave = np.frexp(result.x)[1].astype(np.int64) - 1  # exact, as log2 would not be
    nonzero = result.x != 0
    low, high = octaves or _span(octave[nonzero])
    column = np.clip(octave[nonzero], low, high - 1) - low
    counts = np.bincount(result.outcome[nonzero] * (high - low) + column, minlength=4 * (high - low)).reshape(
        4, high - low
    )
    return MagnitudeData(np.arange(low, high), counts, len(result.x), edges, numbers, result.nan, result.infinite)


def _span(octave: np.ndarray) -> tuple[int, int]:
    """The octaves to show: depends on the tensor alone, so that a change of the format moves no axis."""
    if not len(octave):
        return -16, 8
    high = int(octave.max()) + 1
    counts = np.bincount(np.clip(octave - high + WIDEST, 0, None), minlength=WIDEST)
    low = high - WIDEST + int(np.argmax(np.cumsum(counts) > 0.0005 * len(octave)))
    low, high = low - 2, high + 2
    return (low, high) if high - low >= 16 else (high - 16, high)


def magnitude_histogram(
    tensor: Any,
    fmt: Any = None,
    *,
    rounding: AnyRounding = "nearest_even",
    seed: int = 0,
    octaves: tuple[int, int] | None = None,
    what: str = "|x|",
    height: int = 340,
) -> go.Figure:
    """Histogram of log2|v| with the format's window behind it, and the four shares as text.

    Args:
        tensor: float numpy array or torch tensor; NaN and infinities are counted in the subtitle, zeros too.
        fmt: a format, its name, or None for the tensor alone. The window of a block format is that of its median scale.
        rounding: one of ``lplab.formats.ROUNDINGS``; the lower edge of the window follows it.
        seed: for stochastic rounding.
        octaves: fixed range (first, last + 1) as exponents of two; by default from the tensor.
        what: what the elements are, for the axis: "|gradient|".
        height: in pixels.

    >>> fig = magnitude_histogram(np.array([1.0, 2.5, 1e-6]), "e4m3fn")
    >>> fig.layout.meta["title"]
    'e4m3fn: 33.3 % flushed'
    """
    data = magnitude_data(tensor, fmt, rounding=rounding, seed=seed, octaves=octaves)
    name = "" if fmt is None else name_of(as_format(fmt))
    low, high = int(data.octaves[0]), int(data.octaves[-1]) + 1
    bars = _bars(data)
    fig = style.figure(
        data=[*bars, _names(data, low, high, height - _TOP - _BOTTOM)],
        layout={
            "barmode": "stack",
            "xaxis": axes.power_axis(low, high, f"{what} (powers of two)"),
            "yaxis": axes.axis(0, _top(data), "share of elements (%)", nticks=6),
            "shapes": [shapes.region(a, b, fill) for _, a, b, fill, _ in _regions(data)],
            "annotations": [_legend(data, bars)],
        },
    )
    return style.apply_style(
        fig,
        alt=_alt(name, data, what),
        title=_title(name, data),
        subtitle=_subtitle(data),
        height=height,
        t=_TOP,
        b=_BOTTOM,
    )


def _bars(data: MagnitudeData) -> list[dict[str, Any]]:
    ranges = np.array(
        [f"{number_text.power(k)} … {number_text.power(k + 1)}" for k in data.octaves.tolist()], dtype=str
    )
    result = []
    for outcome, share, count in zip(OUTCOMES, data.shares, data.counts, strict=True):
        is_shown = count > 0  # empty bars would take the browser as long as others
        result.append(
            traces.bars(
                outcome,  # constant: a legend with changing words costs more than all the rest
                data.octaves[is_shown] + 0.5,
                share[is_shown],
                style.OUTCOME_STYLES[outcome],
                f"%{{hovertext}}<br>{outcome:<9} %{{y:.3g}} %<br>elements  %{{customdata:,}}",
                width=0.96,
                customdata=count[is_shown],
                hovertext=ranges[is_shown],
                visible=bool(data.numbers) or outcome == "rounded",
            )
        )
    return result


def _legend(data: MagnitudeData, bars: list[dict[str, Any]]) -> dict[str, Any]:
    """What the patterns of the bars mean, and how many elements each has, above the plot."""
    shares = [number_text.percent(getattr(data.numbers, outcome)) if data.numbers else "" for outcome in OUTCOMES]
    entries = [entry(bar, f"{bar['name']} {share}") for bar, share in zip(bars, shares, strict=True)]
    text = legend(*entries, per_line=2)  # four in a row are too wide for half a page
    return shapes.note(text, x=0, xanchor="left", yref="y domain", yshift=4, align="left", visible=bool(data.numbers))


def _top(data: MagnitudeData) -> float:
    """A y range that depends on the tensor alone, with room for the names of the ranges."""
    return max(float(data.shares.sum(axis=0).max(initial=0)) * _ROOM, 1.0)


def _regions(data: MagnitudeData) -> list[tuple[str, float, float, str, float]]:
    """Name, start, end (octaves, clipped to the figure), fill and share of the four ranges."""
    low, high = float(data.octaves[0]), float(data.octaves[-1] + 1)
    if data.window is None or data.numbers is None:
        return [("", low, low, fill, 0.0) for fill in _FILLS]
    w, n = data.window, data.numbers
    edges = np.clip(
        [_log2(e) for e in (w.flush, w.normal if w.normal > w.smallest else w.flush, w.magnitude)], low, high
    )
    below_normal = float(data.counts[:2, data.octaves < math.floor(_log2(w.normal))].sum()) / max(data.total, 1)
    if w.normal <= w.smallest:
        below_normal = 0.0
    kept = n.exact - n.zero + n.rounded - below_normal
    starts, ends = [low, *edges], [*edges, high]
    return list(zip(_NAMES, starts, ends, _FILLS, (n.flushed, below_normal, kept, n.saturated), strict=True))


def _names(data: MagnitudeData, low: int, high: int, plot: int) -> dict[str, Any]:
    """Name and share of each range: below one another where both have room above the bars, else in one line.

    A range too narrow for one line keeps its share: in a figure this low, another one above has the same ranges.
    """
    lines = (1 - 1 / _ROOM) * plot / _LINE
    named = []
    for name, start, end, _, share in _regions(data):
        words = [name] if lines >= _LINES or end - start >= _WIDE * (high - low) else []
        between = "<br>" if lines >= _LINES else " "
        named.append((between.join([*words, f"<b>{number_text.percent(share)}</b>"]), start, end))
    return traces.region_names(named, high - low, _top(data), visible=bool(data.numbers))


_LINES, _WIDE = 3, 0.25  # of a name in two parts and a share; of the axis, a range that has room for both in one line
_NAMES = ("to zero", "subnormal", "normal", "saturated")
_FILLS = (style.LOST_RANGE, style.SUBNORMAL_RANGE, style.NORMAL_RANGE, style.LOST_RANGE)


def _log2(value: float) -> float:
    return math.log2(value) if value > 0 else -math.inf


def _title(name: str, data: MagnitudeData) -> str:
    n = data.numbers
    if n is None:
        return "How large the elements are"
    if not data.total:
        return f"{name}: no finite element"
    lost = [f"{number_text.percent(n.flushed)} flushed"] if n.flushed else []
    lost += [f"{number_text.percent(n.saturated)} saturated"] if n.saturated else []
    return f"{name}: {', '.join(lost) or 'nothing flushed, nothing saturated'}"


def _subtitle(data: MagnitudeData) -> str:
    zeros = data.total - int(data.counts.sum())
    parts = [f"{data.total:,} finite elements" if data.nan or data.infinite else f"{data.total:,} elements"]
    parts += [f"{number_text.percent(zeros / data.total)} are zero"] if zeros else []
    parts += [f"<b>{data.nan:,} NaN</b>"] if data.nan else []
    parts += [f"<b>{data.infinite:,} infinite</b>"] if data.infinite else []
    if data.numbers:
        parts += [f"SQNR {number_text.decibels(data.numbers.sqnr_db)}"]
    return " · ".join(parts)


def _alt(name: str, data: MagnitudeData, what: str) -> str:
    n, text = data.numbers, number_text.percent
    odd = (
        f" {data.nan:,} NaN and {data.infinite:,} infinite elements are left out." if data.nan or data.infinite else ""
    )
    if not data.total:
        return f"An empty histogram of {what}: the tensor has no finite element.{odd}"
    filled = data.octaves[data.counts.sum(axis=0) > 0]
    extent = "all of them zero"
    if len(filled):
        extent = (
            f"between {number_text.power(int(filled[0]), plain=True)} and "
            f"{number_text.power(int(filled[-1]) + 1, plain=True)}"
        )
    head = f"Histogram of {what} for {data.total:,} finite elements, {extent}"
    if n is None:
        return f"{head}.{odd}"
    return (
        f"{head}; in {name} with rounding {n.rounding}, {text(n.exact)} stay exact, {text(n.rounded)} are rounded, "
        f"{text(n.flushed)} are flushed to zero and {text(n.saturated)} saturate.{odd}"
    )
