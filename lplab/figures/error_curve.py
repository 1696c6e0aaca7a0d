"""How wrong is a number after rounding, and where? The sawtooth of the relative error over the magnitudes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, shapes, style, traces
from lplab.figures.legend import entry, legend
from lplab.figures.relative_error import ErrorCurve, error_curve_data, view_of
from lplab.figures.statistics import as_formats, rounding_text
from lplab.figures.window import AnyRounding

# fixed scales, so that a small change moves no axis
_TOPS = (110.0, 70.0, 40.0, 28.0, *(a * 10.0**-k for k in range(8) for a in (3, 1)))


def error_curve(
    formats: Any,
    *,
    rounding: AnyRounding = "nearest_even",
    octaves: tuple[float, float] | None = None,
    panels: bool = True,
    top: float | None = None,
    height: int | None = None,
) -> go.Figure:
    """Relative error of positive numbers against their magnitude, for one or several formats.

    Args:
        formats: a format, a name, or a list of them. Of block formats an element before scaling is shown.
        rounding: one of ``lplab.formats.ROUNDINGS``; with "stochastic" the mean error is drawn, and called so.
        octaves: the view as exponents of two; by default :func:`view_of` the formats. Give it to keep the axis in
            place while a format changes.
        panels: one panel a format; or all in one, at most four, as the largest error in each octave.
        top: end of the error axis in percent; by default one of a few fixed scales.
        height: in pixels.

    >>> error_curve(["e4m3fn", "e5m2"]).layout.meta["title"]
    'Worst case: e4m3fn 5.88 %, e5m2 11.1 %'
    >>> error_curve("e4m3fn", rounding="stochastic").layout.meta["title"]
    'e4m3fn: mean error up to 5.88 % (normal)'
    """
    chosen = as_formats(formats)
    if not panels and len(chosen) > len(style.COLOURS):
        raise ValueError(
            f"at most {len(style.COLOURS)} formats can share one panel, got {len(chosen)}; use panels=True"
        )
    low, high = octaves or view_of(chosen)
    curves = [error_curve_data(f, low, high, rounding=rounding, octaves=not panels) for f in chosen]
    top = top or _top([c.worst for c in curves])
    rows = len(curves) if panels else 1
    height = height or max(300, min(400, 120 * rows + 100), 84 * rows + 64)
    layout = _layout(curves, low, high, top, rows, height)
    data = _traces(curves, low, high, top, panels)
    entries = [entry(trace, curve.name) for trace, curve in zip(data[::3], curves, strict=True)]
    return style.apply_style(
        style.figure(data, layout),
        alt=_alt(curves, rounding, low, high),
        title=_title(curves),
        subtitle="" if panels else legend(*entries),
        height=height,
        t=66 if rows > 1 or not panels else 48,
    )


def _top(worst: list[float]) -> float:
    finite = [w for w in worst if math.isfinite(w)]
    largest = max(finite, default=20.0)
    return min(t for t in _TOPS if t >= min(1.2 * largest, max(28.0, 1.05 * largest)) or t == _TOPS[0])


def _looks(curves: list[ErrorCurve], panels: bool) -> list[tuple[str, str, ErrorCurve]]:
    if len(curves) > len(style.SERIES):
        return [(style.BLUE, "solid", curve) for curve in curves]
    looks = zip(style.SERIES, curves, strict=False)
    return [(colour, "solid" if panels else dash, curve) for (colour, dash, _), curve in looks]


def _traces(curves: list[ErrorCurve], low: float, high: float, top: float, panels: bool) -> list[dict[str, Any]]:
    """Three a format: the curve, the worst case as a dashed line, the names of the ranges.

    A format that is alone does not name its traces: when names change, the browser redraws more.
    """
    result: list[dict[str, Any]] = []
    for i, (colour, dash, curve) in enumerate(_looks(curves, panels)):
        axis = str(i + 1) if panels and i else ""
        name, who = ("relative error", "") if len(curves) == 1 else (curve.name, f"{curve.name}<br>")
        named = [(text, start, end) for text, start, end, _ in _edges(curve, low, high)]
        if len(curves) > 1:  # in low panels the curve runs through a name in two lines
            named = [
                (text if end - start >= traces.ONE_LINE * (high - low) else "", start, end)
                for text, start, end in named
            ]
        result += [
            _line(curve, name, who, top, panels, colour, dash) | {"yaxis": f"y{axis}"},
            _at_worst(curve, name, low, high) | {"yaxis": f"y{axis}", "visible": panels and math.isfinite(curve.worst)},
            traces.region_names(named, high - low, top, axis=axis, visible=panels or len(curves) == 1),
        ]
    return result


def _line(curve: ErrorCurve, name: str, who: str, top: float, panels: bool, colour: str, dash: str) -> dict[str, Any]:
    """The curve; an outline in a panel of its own is filled, and left out where it is far beyond the chart."""
    outline = panels and curve.is_outline
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return traces.line(
        name,
        curve.log2_x,
        np.where(curve.percent > 2 * top, np.nan, curve.percent) if outline else curve.percent,
        traces.stroke(colour, 1.5 if panels else 2, dash, shape="linear" if panels else "hvh"),
        f"{who}x      2<sup>%{{x:.2f}}</sup><br>{'mean ' * curve.is_mean}error  %{{y:.3g}} %",
        fill="tozeroy" if outline else "none",
        fillcolor=f"rgba({red},{green},{blue},.55)",
    )


def _at_worst(curve: ErrorCurve, name: str, low: float, high: float) -> dict[str, Any]:
    x, y = np.clip(curve.normal, low, high), np.full(2, curve.worst)
    return traces.line(f"{name}, worst case", x, y, traces.stroke(style.GREY, 1.3, "dash"))


def _layout(curves: list[ErrorCurve], low: float, high: float, top: float, rows: int, height: int) -> dict[str, Any]:
    gap = 26 / (height - 114)  # the room for a panel's caption, as a share of the plot
    each = (1 - (rows - 1) * gap) / rows
    layout: dict[str, Any] = {
        "xaxis": axes.power_axis(low, high, "|x| (powers of two)"),
        "shapes": [],
        "annotations": [],
    }
    layout["xaxis"]["anchor"] = f"y{rows if rows > 1 else ''}"
    for i, curve in enumerate(curves[:rows] if rows > 1 or len(curves) == 1 else curves):
        axis = str(i + 1) if i and rows > 1 else ""
        start = 1 - min(i, rows - 1) * (each + gap) - each
        title = {"text": "error (%)", "font": {"size": style.BODY if rows < 3 else style.NOTE}}
        layout[f"yaxis{axis}"] = {
            "range": [0, top],
            "nticks": 4,
            "domain": [max(start, 0), start + each],
            "title": title,
        }
        shown = rows > 1 or len(curves) == 1
        layout["shapes"] += _regions(curve, low, high, axis) if shown else []
        caption = f"<b>{curve.name}</b>  {_worst_text(curve)}"
        layout["annotations"] += [
            shapes.note(caption, x=0, y=start + each, xanchor="left", font={"size": style.TICK}, visible=rows > 1)
        ]
    return layout


def _worst_text(curve: ErrorCurve, *, plain: bool = False) -> str:
    if not math.isfinite(curve.worst):
        return "no normal number in view"
    w = curve.window  # below the normal numbers the error grows, out of the chart
    where = (
        "among normal numbers"
        if w.normal > w.smallest
        else f"from {number_text.number(w.normal, digits=3, plain=plain)} on"
    )
    if curve.is_mean:
        return f"mean error {where}: up to {_percent(curve, plain=plain)}"
    return f"worst case {where}: {_percent(curve, plain=plain)}"


def _worst_word(curve: ErrorCurve) -> str:
    return "largest mean error" if curve.is_mean else "worst case"


def _percent(curve: ErrorCurve, *, plain: bool = False) -> str:
    return f"{number_text.number(curve.worst, digits=3, plain=plain)} %"


def _range_note(curve: ErrorCurve) -> str:
    return " (normal)" if curve.window.normal > curve.window.smallest else ""


def _edges(curve: ErrorCurve, low: float, high: float) -> list[tuple[str, float, float, str]]:
    """Name, start, end and fill of the ranges where a format is worse than its normal self."""
    w = curve.window
    flush, normal, end = (min(max(math.log2(v) if v > 0 else low, low), high) for v in (w.zero_high, w.normal, w.high))
    start = normal if w.normal <= w.smallest else flush
    lost, gradual = style.LOST_RANGE, style.SUBNORMAL_RANGE
    zero = "can be zero" if curve.is_mean else "to zero"
    return [(zero, low, flush, lost), ("subnormal", start, normal, gradual), ("overflow", end, high, lost)]


def _regions(curve: ErrorCurve, low: float, high: float, axis: str) -> list[dict[str, Any]]:
    return [shapes.region(start, end, fill, axis=axis) for _, start, end, fill in _edges(curve, low, high)]


def _title(curves: list[ErrorCurve]) -> str:
    finite = sorted((c for c in curves if math.isfinite(c.worst)), key=lambda c: c.worst)
    if len(curves) == 1:
        return (
            f"{curves[0].name}: {'mean ' * curves[0].is_mean}error up to {_percent(curves[0])}{_range_note(curves[0])}"
            if finite
            else f"{curves[0].name}: {'mean ' * curves[0].is_mean}relative error"
        )
    if len(curves) == 2 and len(finite) == 2:
        return f"{_worst_word(curves[0]).capitalize()}: " + ", ".join(f"{c.name} {_percent(c)}" for c in curves)
    word = _worst_word(curves[0]).capitalize()
    return f"{word} from {_percent(finite[0])} to {_percent(finite[-1])}" if finite else "Relative error"


def _alt(curves: list[ErrorCurve], rounding: AnyRounding, low: float, high: float) -> str:
    ends = f"{number_text.power(low, plain=True)} to {number_text.power(high, plain=True)}"
    told = "; ".join(f"{c.name}: {_worst_text(c, plain=True)}, {_limits_text(c)}" for c in curves)
    what = "Mean relative" if curves[0].is_mean else "Relative"
    return f"{what} rounding error with {rounding_text(rounding)} for magnitudes from {ends}: {told}."


def _limits_text(curve: ErrorCurve) -> str:
    flush, high = curve.window.zero_high, number_text.number(curve.window.high, digits=3, plain=True)
    zero = "can be zero" if curve.is_mean else "to zero"
    below = f"{zero} up to {number_text.number(flush, digits=3, plain=True)}" if flush else "nothing to zero"
    return f"{below}, overflow above {high}"
