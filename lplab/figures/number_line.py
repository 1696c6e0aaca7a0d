"""Which numbers does a format hold? One row a format: a tick for each value, a ribbon where they are too many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style
from lplab.figures.captions import count_text, row_caption, specials_text, steps_text
from lplab.figures.grid import LISTED_BITS, density, element_of, neighbours, values_between
from lplab.figures.legend import legend
from lplab.figures.rows import Row, row_traces
from lplab.figures.statistics import as_formats, name_of
from lplab.figures.window import AnyRounding

SCALES = ("linear", "log")
_TICK_PIXELS = 28
_TOP, _BOTTOM = 62, 46
_MARGINS = _TOP + _BOTTOM
_CAPTION = 44  # pixels of a row above and below its ticks, of a caption of two lines


def number_line_data(
    formats: Any,
    *,
    scale: str = "linear",
    around: float | None = None,
    limits: tuple[float, float] | None = None,
    rounding: AnyRounding = "nearest_even",
) -> tuple[tuple[float, float], list[Row]]:
    """The view (low, high) as values, and the rows; those with most values as ribbons, so that 600 ticks are left.

    >>> view, rows = number_line_data("e2m1")
    >>> rows[0].values[-3:]
    array([3., 4., 6.])
    """
    if scale not in SCALES:
        raise ValueError(f"unknown scale {scale!r}; allowed: {', '.join(SCALES)}")
    chosen = as_formats(formats)
    low, high = limits or (_view_around(chosen, around) if around is not None else _view_of_all_values(chosen, scale))
    if scale == "log" and limits is None and around is not None and around > 0:
        low = max(low, around / 8)
    if not low < high or (scale == "log" and low <= 0):
        raise ValueError(f"limits must rise{', from a positive number,' if scale == 'log' else ''} got {(low, high)}")
    listed = [values_between(f, low, high, style.MARKER_LIMIT - 2 * len(chosen)) for f in chosen]
    sizes = sorted((len(v), i) for i, v in enumerate(listed) if v is not None)
    total = np.cumsum([size for size, _ in sizes])
    for (_, i), sum_so_far in zip(sizes, total, strict=True):
        if sum_so_far > style.MARKER_LIMIT - 2 * len(chosen):
            listed[i] = None
    rows = [_row(f, v, low, high, scale, around, rounding) for f, v in zip(chosen, listed, strict=True)]
    return (low, high), rows


def _view_of_all_values(formats: list[Any], scale: str) -> tuple[float, float]:
    """A view of all values; on the linear scale of the narrowest format and its surroundings, if they differ much."""
    elements = [element_of(f) for f in formats]
    if scale == "log":
        return min(e.smallest_subnormal for e in elements) / 2, max(max(e.max, -e.min) for e in elements) * 2
    bottoms = [e.min for e in elements if e.min < 0]
    low, high = (
        _view_end(sorted(-b for b in bottoms)) if bottoms else 0.0,
        _view_end(sorted(e.max for e in elements)),
    )
    margin = 0.03 * (low + high)
    return -low - margin, high + margin


def _view_end(ends: list[float]) -> float:
    """The largest of the ends, unless it dwarfs the smallest; then the smallest and a bit more."""
    return ends[-1] if ends[-1] <= 4 * ends[0] else 1.25 * ends[0]


def _view_around(formats: list[Any], x: float) -> tuple[float, float]:
    """A few steps on both sides of x, in the coarsest format."""
    steps = [float(above[0] - below[0]) for below, above in (neighbours(f, np.array([x])) for f in formats)]
    finite = [s for s in steps if math.isfinite(s) and s > 0]
    reach = 3 * max(finite, default=max(abs(x), 1.0) / 2)
    return x - reach, x + reach


def _row(
    fmt: Any,
    values: np.ndarray | None,
    low: float,
    high: float,
    scale: str,
    around: float | None,
    rounding: AnyRounding,
) -> Row:
    element = element_of(fmt)
    edges = counts = np.empty(0)
    if values is None:
        edges = _bins(low, high, scale)
        bounds = np.exp2(edges) if scale == "log" else edges
        counts = density(element, (bounds[1:] + bounds[:-1]) / 2, np.diff(bounds))
        if scale == "log":
            counts[bounds[1:] <= element.smallest_subnormal] = 0
    nearest = math.nan if around is None else float(element.quantize(float(around), rounding, seed=0))
    goes_on = (element.min < low and scale == "linear", element.max > high)
    return Row(fmt, np.empty(0) if values is None else values, edges, counts, element.smallest_normal, goes_on, nearest)


def _bins(low: float, high: float, scale: str) -> np.ndarray:
    """Bins of the ribbon: on the log scale whole octaves (eighths in a narrow view), so that binades are level."""
    if scale == "linear":
        return np.linspace(low, high, 241)
    first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
    return np.arange(first, last + 1.0) if last - first > 12 else np.arange(8 * first, 8 * last + 1) / 8


def number_line(
    formats: Any,
    *,
    scale: str = "linear",
    around: float | None = None,
    limits: tuple[float, float] | None = None,
    rounding: AnyRounding = "nearest_even",
    height: int | None = None,
) -> go.Figure:
    """The values of one or several formats on a common line, with their steps and special codes.

    Args:
        formats: a format, a name, or a list of them: one row each. Of block formats the grid of an element is shown.
        scale: "linear", or "log" for positive magnitudes by powers of two.
        around: a number to zoom in on; where each format rounds it is circled.
        limits: the view (low, high) as values, so that an axis stays put while a format changes.
        rounding: how ``around`` is rounded.
        height: in pixels; by default 260 to 400 for up to four formats, more for more.

    >>> fig = number_line(["e2m1", "e4m3fn"], scale="log")
    >>> fig.layout.meta["alt"].split(";")[0]
    'Logarithmic number line: e2m1 has 15 values up to 6, steps 0.5 to 2, no NaN, no ∞'
    """
    chosen = as_formats(formats)
    (low, high), rows = number_line_data(chosen, scale=scale, around=around, limits=limits, rounding=rounding)
    height = height or max(260, (76 if len(rows) <= 3 else 73) * len(rows) + _MARGINS)
    pitch = (height - _MARGINS) / len(rows)
    tick = min(84, pitch - _CAPTION) if len(rows) == 1 else _TICK_PIXELS
    captions = [
        row_caption(r.format, -i, around, r.nearest, tick / 2 + 4, len(r.counts) > 0) for i, r in enumerate(rows)
    ]
    fig = style.figure(
        data=row_traces(rows, scale, (low, high), around, tick, tick / 2 / pitch),
        layout={
            "xaxis": _x_axis(low, high, scale),
            "yaxis": {
                "range": [1 - len(rows) - (tick / 2 + 8) / pitch, (pitch - tick / 2 - 8) / pitch],
                "visible": False,
            },
            "annotations": captions,
        },
    )
    key = [(style.BLUE, "┃", "normal"), (style.VERMILION, "╻", "subnormal")]
    if around is not None:
        key += [(style.GREEN, "┇", number_text.number(around)), (style.PINK, "◇", "what it becomes")]
    alt = _alt(rows, scale, around)
    return style.apply_style(
        fig,
        alt=alt,
        title=_title(rows, scale, around),
        subtitle=legend(*key),
        height=height,
        l=16,
        t=_TOP,
        b=_BOTTOM,
    )


def _x_axis(low: float, high: float, scale: str) -> dict[str, Any]:
    if scale == "log":
        return axes.power_axis(math.log2(low), math.log2(high), "magnitude (powers of two)")
    return axes.axis(low, high, "value", nticks=9, exponentformat="power")


def _title(rows: list[Row], scale: str, around: float | None) -> str:
    """What there is to see: where a number goes, how far the formats reach, or where their numbers crowd."""
    first = element_of(rows[0].format)
    if around is not None:
        has_target = len(rows) == 1 and math.isfinite(rows[0].nearest)
        return (
            f"{number_text.number(around)} becomes {number_text.number(rows[0].nearest, digits=6)}"
            if has_target
            else f"Where {number_text.number(around)} goes"
        )
    if scale == "log" or first.bits > LISTED_BITS:
        reach = sorted((element_of(r.format).dynamic_range_octaves, name_of(r.format)) for r in rows)
        text = f"{reach[-1][1]} spans {reach[-1][0]:.0f} octaves"
        return text if len(rows) == 1 else f"{text}, {reach[0][1]} {reach[0][0]:.0f}"
    if first.min >= 0:
        return (
            f"Half of {name_of(rows[0].format)}'s numbers lie below "
            f"{number_text.number(float(np.median(first.values)))}"
        )
    middle = float(np.quantile(np.abs(first.values), 0.5, method="higher"))
    return f"Half of {name_of(rows[0].format)}'s numbers lie within ±{number_text.number(middle)}"


def _alt(rows: list[Row], scale: str, around: float | None) -> str:
    parts = []
    for row in rows:
        fmt = row.format
        text = (
            f"{name_of(fmt)} has {count_text(fmt, plain=True)} up to "
            f"{number_text.number(element_of(fmt).max, plain=True)}"
        )
        text += f", {steps_text(fmt, plain=True)}, {specials_text(fmt)}"
        if around is not None:
            text += (
                f", and {number_text.number(around, plain=True)} becomes "
                f"{number_text.number(row.nearest, digits=6, plain=True)}"
            )
        parts.append(text)
    return f"{'Linear' if scale == 'linear' else 'Logarithmic'} number line: {'; '.join(parts)}."
