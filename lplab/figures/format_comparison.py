"""Formats side by side, as small multiples on one axis: their range and precision, or what they do to a tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, shapes, style
from lplab.figures.grid import density, element_of
from lplab.figures.legend import entry, legend
from lplab.figures.magnitude_histogram import MagnitudeData, magnitude_data
from lplab.figures.statistics import OUTCOMES, as_formats, name_of, rounding_text
from lplab.figures.window import AnyRounding, Window

_FULL = 0.72  # the height of a row's tallest bar, in rows; the rest is for the caption
_TOP, _BOTTOM = 66, 48


def compare(
    formats: Any,
    tensor: Any = None,
    *,
    rounding: AnyRounding = "nearest_even",
    seed: int = 0,
    octaves: tuple[int, int] | None = None,
    height: int | None = None,
) -> go.Figure:
    """Small multiples: one row a format.

    Without a tensor a row shows how many values the format has in each octave, as bits of precision; with a tensor it
    shows the histogram of its magnitudes, by what the format does to them.

    Args:
        formats: a format, a name, or a list of them.
        tensor: float numpy array or torch tensor, or None.
        rounding: one of ``lplab.formats.ROUNDINGS``.
        seed: for stochastic rounding.
        octaves: fixed range (first, last + 1) as exponents of two.
        height: in pixels; by default 260 to 400 for up to four formats, more for more.

    >>> compare(["e4m3fn", "e5m2"], np.array([1e-4, 1.0])).layout.meta["title"]
    'Lost: e4m3fn 50.0 %, e5m2 0 %'
    """
    chosen = as_formats(formats)
    height = height or max(260, 84 * len(chosen) + _TOP + _BOTTOM - 50 * (len(chosen) == 4))
    windows: list[Window | None] = [None] * len(chosen)
    if tensor is None:
        first, last = octaves or _union(chosen)
        rows = [precision_data(f, first, last) for f in chosen]
        bars, captions = _precision_bars(chosen, rows, first, last), [_precision_caption(f) for f in chosen]
        title, alt = _precision_title(chosen), _precision_alt(chosen)
        key = legend(*map(entry, bars[:2]))
        axis = "magnitude (powers of two)"
    else:
        data = [magnitude_data(tensor, f, rounding=rounding, seed=seed, octaves=octaves) for f in chosen]
        first, last = int(data[0].octaves[0]), int(data[0].octaves[-1]) + 1
        bars, captions = _tensor_bars(data), [_tensor_caption(f, d) for f, d in zip(chosen, data, strict=True)]
        title, alt = _tensor_title(chosen, data), _tensor_alt(chosen, data, rounding)
        key = legend(entry(bars[1]), entry(bars[0]), entry(bars[2], "lost"))
        axis, windows = "|x| (powers of two)", [d.window for d in data]
    fig = go.Figure(
        data=bars,
        layout={
            "barmode": "overlay",
            "xaxis": axes.power_axis(first, last, axis),
            "yaxis": {"range": [0.97 - len(chosen), 1.0], "visible": False},
            "shapes": [shape for i, w in enumerate(windows) for shape in _shades(w, -i, first, last)],
            "annotations": [_caption(text, -i) for i, text in enumerate(captions)],
        },
    )
    return style.apply_style(fig, alt=alt, title=title, subtitle=key, height=height, l=16, t=_TOP, b=_BOTTOM)


def _caption(text: str, row: float) -> dict[str, Any]:
    return shapes.note(text, x=0, y=row + _FULL + 0.02, yref="y", xanchor="left", font={"size": style.TICK})


def _shades(w: Window | None, row: int, first: float, last: float) -> list[dict[str, Any]]:
    """The ground of one row: its lost, subnormal and normal ranges, or plain grey."""
    ends = {"yref": "y", "y0": row, "y1": row + _FULL}
    if w is None:
        return [shapes.region(first, last, "rgba(127,127,127,.08)") | ends]
    edges = [w.flush, w.normal if w.normal > w.smallest else w.flush, w.magnitude]
    marks = [first, *(min(max(math.log2(e) if e > 0 else first, first), last) for e in edges), last]
    fills = (style.LOST_RANGE, style.SUBNORMAL_RANGE, style.NORMAL_RANGE, style.LOST_RANGE)
    return [shapes.region(a, b, fill) | ends for a, b, fill in zip(marks[:-1], marks[1:], fills, strict=True)]


def _bar(x: np.ndarray, base: np.ndarray, size: np.ndarray, trace_style: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "bar",
        "x": x,
        "y": size,
        "base": base,
        "width": 0.94,
        "marker": style.OUTCOME_STYLES[trace_style],
        "visible": bool(len(x)),
    } | more


# -- without a tensor: precision over range ----------------------------------------------------------------------------


def _union(formats: list[Any]) -> tuple[int, int]:
    elements = [element_of(f) for f in formats]
    low = min(math.log2(e.smallest_subnormal) for e in elements)
    return math.floor(low) - 1, math.floor(max(math.log2(e.max) for e in elements)) + 2


def precision_data(fmt: Any, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Octaves (int64) in which the format has values, and how many in each, counted from the step in its middle.

    >>> precision_data("e2m1", -3, 4)
    (array([-1,  0,  1,  2]), array([1., 2., 2., 2.]))
    """
    element = element_of(as_formats(fmt)[0])
    octaves = np.arange(first, last)
    low, top = math.floor(math.log2(element.smallest_subnormal)), math.floor(math.log2(element.max))
    octaves = octaves[(octaves >= low) & (octaves <= top)]
    start = np.exp2(octaves.astype(np.float64))
    middle = np.minimum(1.5 * start, element.max)
    lonely = element.max < 1.5 * start  # the top octave of a posit holds one value
    return octaves, np.where(lonely, 1.0, np.maximum(density(element, middle, start), 1.0))


def _precision_bars(
    formats: list[Any], rows: list[tuple[np.ndarray, np.ndarray]], first: int, last: int
) -> list[dict[str, Any]]:
    """Four traces, as with a tensor: octaves of normal and of subnormal numbers, all rows at once; two stay empty."""
    most = max((float(np.log2(count).max(initial=0)) for _, count in rows), default=0.0) + 1
    width = 0.94 if last - first <= 64 else 1.0
    traces = []
    for name, trace_style, wanted in (("normal", "rounded", True), ("subnormal", "flushed", False)):
        x, base, bits = [], [], []
        for i, (fmt, (octaves, count)) in enumerate(zip(formats, rows, strict=True)):
            mine = (octaves >= math.floor(math.log2(element_of(fmt).smallest_normal))) == wanted
            x.append(octaves[mine] + 0.5)
            base.append(np.full(int(mine.sum()), -float(i)))
            bits.append(np.log2(count[mine]) + 1)
        size = np.concatenate(bits)
        hover = f"octave of 2<sup>%{{x:.1f}}</sup><br>{name}<br>precision  %{{customdata:.3g}} bits<extra></extra>"
        where, bases = np.concatenate(x), np.concatenate(base)
        traces.append(
            _bar(
                where,
                bases,
                size / most * _FULL,
                trace_style,
                name=name,
                width=width,
                customdata=size,
                hovertemplate=hover,
            )
        )
    empty = np.empty(0)
    return [
        *traces,
        *(_bar(empty, empty, empty, trace_style, name=trace_style) for trace_style in ("exact", "saturated")),
    ]


def _bits(fmt: Any) -> float:
    """Bits of precision where the format has most: 1 + log2 of its values in an octave."""
    low, top = (math.floor(math.log2(v)) for v in (element_of(fmt).smallest_subnormal, element_of(fmt).max))
    return float(np.log2(precision_data(fmt, low, top + 1)[1]).max()) + 1


def _precision_caption(fmt: Any) -> str:
    return f"<b>{name_of(fmt)}</b> · {_bits(fmt):.2g} bits · {element_of(fmt).dynamic_range_octaves:.0f} octaves"


def _precision_title(formats: list[Any]) -> str:
    if len(formats) == 1:
        return f"{name_of(formats[0])}: {_bits(formats[0]):.2g} bits of precision"
    finest = max(formats, key=_bits)
    widest = max(formats, key=lambda f: element_of(f).dynamic_range_octaves)
    if finest is widest:
        return f"{name_of(finest)} is finest and reaches furthest"
    return f"{name_of(finest)} is finest, {name_of(widest)} reaches furthest"


def _precision_alt(formats: list[Any]) -> str:
    spans = [element_of(f).dynamic_range_octaves for f in formats]
    told = "; ".join(
        f"{name_of(f)} reaches {_bits(f):.2g} bits of precision and spans {span:.0f} octaves"
        for f, span in zip(formats, spans, strict=True)
    )
    return f"Bits of precision in each octave of magnitude, one row a format: {told}."


# -- with a tensor -----------------------------------------------------------------------------------------------------


def _tensor_bars(data: list[MagnitudeData]) -> list[dict[str, Any]]:
    """Four traces for all rows, one for each outcome, stacked by their bases."""
    top = max(float(data[0].shares.sum(axis=0).max(initial=0)), 1e-9)
    traces = []
    for k, outcome in enumerate(OUTCOMES):
        x, base, size, share = [], [], [], []
        for i, d in enumerate(data):
            filled = d.counts[k] > 0
            x.append(d.octaves[filled] + 0.5)
            base.append(d.shares[:k].sum(axis=0)[filled] / top * _FULL - i)
            size.append(d.shares[k][filled] / top * _FULL)
            share.append(d.shares[k][filled])
        hover = f"octave of 2<sup>%{{x:.1f}}</sup><br>{outcome:<9} %{{customdata:.3g}} %<extra></extra>"
        where, bases, sizes = (np.concatenate(part) for part in (x, base, size))
        traces.append(
            _bar(where, bases, sizes, outcome, name=outcome, customdata=np.concatenate(share), hovertemplate=hover)
        )
    return traces


def _tensor_caption(fmt: Any, d: MagnitudeData) -> str:
    n = d.numbers
    if n is None or not d.total:
        return f"<b>{name_of(fmt)}</b> · no finite element"
    return (
        f"<b>{name_of(fmt)}</b> · {number_text.decibels(n.sqnr_db)} · {number_text.percent(n.flushed)} to zero"
        f" · {number_text.percent(n.saturated)} saturated"
    )


def _tensor_title(formats: list[Any], data: list[MagnitudeData]) -> str:
    lost = [d.numbers.flushed + d.numbers.saturated for d in data if d.numbers]
    if len(formats) <= 2:
        return "Lost: " + ", ".join(
            f"{name_of(f)} {number_text.percent(x)}" for f, x in zip(formats, lost, strict=True)
        )
    best = max(range(len(data)), key=lambda i: np.nan_to_num(data[i].numbers.sqnr_db, nan=-1e9))  # type: ignore[union-attr]
    return f"{name_of(formats[best])} keeps most: {number_text.decibels(data[best].numbers.sqnr_db)}"  # type: ignore[union-attr]


def _tensor_alt(formats: list[Any], data: list[MagnitudeData], rounding: AnyRounding) -> str:
    told = "; ".join(
        f"{name_of(f)}: SQNR {number_text.decibels(d.numbers.sqnr_db)}, {number_text.percent(d.numbers.flushed)} "
        "flushed to zero, "
        f"{number_text.percent(d.numbers.saturated)} saturated"
        for f, d in zip(formats, data, strict=True)
        if d.numbers
    )
    odd = (
        f" {data[0].nan:,} NaN and {data[0].infinite:,} infinite elements are left out."
        if data[0].nan + data[0].infinite
        else ""
    )
    how = f"one row a format, with rounding {rounding_text(rounding)}"
    return f"Histograms of the magnitudes of {data[0].total:,} finite elements, {how}: {told}.{odd}"
