"""A number on which a function's rounding and the right one differ, drawn among the numbers of the format."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, shapes, style, traces
from lplab.figures.counterexample_labels import LabelledValue, labels_of, marks_of
from lplab.figures.grid import element_of
from lplab.figures.legend import legend
from lplab.figures.neighbourhood import Neighbourhood, neighbourhood
from lplab.figures.rows import hover
from lplab.figures.statistics import as_format, name_of

HEIGHT = 190
_TOP, _BOTTOM = 56, 42
_LOW, _HIGH = -14.0, 74.0  # pixels below and above the line
_STYLES = {  # sign, colour: the same as in the number line, where x is green and what it becomes is pink
    "x": ("triangle-down", style.GREEN),
    "expected": ("diamond", style.PINK),
    "yours": ("x-thin-open", style.VERMILION),
}


def counterexample(fmt: Any, x: float, yours: float, expected: float, *, height: int = HEIGHT) -> go.Figure:
    """What a function made of x and what was expected, on a short number line around x.

    Each number of the format is a tick with its value and its code; x (▼), what was expected (◆) and what the function
    gave (×) stand above, each in its own lane, so that equal ones do not cover each other. What lies too far away
    stands at the edge with an arrow; what is NaN has no place on the line and is named alone. For x = NaN there is no
    line at all, only the words.

    Args:
        fmt: a format or its name; of a block format the grid of an element before scaling.
        x: the number that was rounded; NaN and infinity are allowed.
        yours: what the function gave; need not be a number of the format.
        expected: what it should have given.
        height: in pixels.

    Raises:
        ValueError: x, yours or expected is no single number.

    >>> fig = counterexample("e4m3fn", 0.296875, yours=0.28125, expected=0.3125)
    >>> fig.layout.meta["title"]
    'e4m3fn: 0.296875 becomes 0.3125, not 0.28125'
    >>> fig.layout.meta["subtitle"].split("    ")[-1]
    "<span style='color:#7F7F7F'>┊</span> halfway: 0.296875, just where x is"
    """
    chosen = as_format(fmt)
    element = element_of(chosen)
    x, yours, expected = (_single(name, v) for name, v in (("x", x), ("yours", yours), ("expected", expected)))
    around = None if math.isnan(x) else neighbourhood(element, x, (yours, expected))
    marks = marks_of(chosen, {"x": x, "expected": expected, "yours": yours}, around)
    values = around.values if around else np.empty(0)
    fig = style.figure(data=_traces(chosen, values, around, marks), layout=_layout(element, around))
    return style.apply_style(
        fig,
        alt=_alt(chosen, x, marks, around),
        title=_title(chosen, x, yours, expected),
        subtitle=_subtitle(element, around, x),
        height=height,
        l=20,
        r=20,
        t=_TOP,
        b=_BOTTOM,
    )


def _single(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name} must be one number, got {value!r}") from None


# ---- the figure ------------------------------------------------------------------------------------------------------


def _traces(
    fmt: Any, values: np.ndarray, around: Neighbourhood | None, marks: list[LabelledValue]
) -> list[dict[str, Any]]:
    """Always the same six: normal and subnormal numbers, zero, the halfway point, the stems of the signs, the signs."""
    size = np.abs(values)
    normal = size >= element_of(fmt).smallest_normal
    halfway = around.halfway if around else math.nan
    stems = [m for m in marks if m.inside]
    stem_x = [x for m in stems for x in (m.place, m.place, math.nan)]
    stem_y = [y for m in stems for y in (0.0, m.lane - 6, math.nan)]
    return [
        _ticks(fmt, values[normal & (size > 0)], "normal", style.BLUE, 9.0),
        _ticks(fmt, values[~normal & (size > 0)], "subnormal", style.VERMILION, 6.0),
        _zero(fmt, values[size == 0]),
        _line("halfway", [halfway, halfway], [-12.0, 12.0], traces.stroke(style.GREY, 1.6, "2px,2px")),
        _line("stems", stem_x, stem_y, traces.stroke(style.GREY, 1.2), xaxis="x2"),
        _signs(marks),
    ]


def _line(name: str, x: Any, y: Any, look: dict[str, Any], hover: str = "", **more: Any) -> dict[str, Any]:
    """A line that is hidden where it has no place."""
    xs = np.array(x, np.float64)
    is_visible = bool(np.isfinite(xs).any())
    return traces.line(name, xs, np.array(y, np.float64), look, hover, visible=is_visible, **more)


def _ticks(fmt: Any, values: np.ndarray, kind: str, colour: str, half: float) -> dict[str, Any]:
    texts = np.array(hover(fmt, values, kind), dtype=str).repeat(3)
    y = np.tile([-half, half, np.nan], len(values))
    look = traces.stroke(colour, 2)
    return _line(kind, values.repeat(3), y, look, "%{hovertext}", hoverinfo="text", hovertext=texts)


def _zero(fmt: Any, values: np.ndarray) -> dict[str, Any]:
    texts = np.array(hover(fmt, values, "zero"), dtype=str)
    trace = _line("zero", values, [0.0] * len(values), {"color": style.GREY}, "%{hovertext}", hoverinfo="text")
    return trace | {"mode": "markers", "marker": traces.marker("circle-open", 8, style.GREY, 2), "hovertext": texts}


def _signs(marks: list[LabelledValue]) -> dict[str, Any]:
    colours = np.array([_STYLES[m.name][1] for m in marks], dtype=str)
    return traces.words(
        "x, expected, yours",
        np.array([m.place for m in marks]),
        np.array([m.lane for m in marks]),
        [f"  {m.text}  " for m in marks],
        np.array([f"middle {'left' if m.left else 'right'}" for m in marks], dtype=str),
        mode="markers+text",
        textfont={"size": style.TICK},
        marker={
            "symbol": np.array([_STYLES[m.name][0] for m in marks], dtype=str),
            "size": np.array([10, 11, 9]),
            "opacity": 1,
            "color": colours,
            "line": {"width": np.array([0, 0, 3]), "color": colours},
        },
        xaxis="x2",
        cliponaxis=False,
    )


def _layout(fmt: Any, around: Neighbourhood | None) -> dict[str, Any]:
    low, high = around.view if around else (0.0, 1.0)
    ticks = axes.ticks(*labels_of(fmt, around))
    beyond = around.beyond if around else (0.0, 0.0)
    return {
        "xaxis": {
            "range": [low, high],
            "tickfont": {"size": style.NOTE},
            "ticklen": 1,
            "tickcolor": "rgba(0,0,0,0)",
            "showline": False,
            "showgrid": False,
            "automargin": False,
            "visible": around is not None,
        }
        | ticks,
        "xaxis2": {"range": [0, 1], "overlaying": "x", "visible": False, "fixedrange": True},
        "yaxis": {"range": [_LOW, _HIGH], "visible": False},
        "shapes": [
            {
                "type": "line",
                "layer": "below",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": 0,
                "y1": 0,
                "line": {"width": 1, "color": style.GREY},
                "visible": around is not None,
            },
            shapes.region(*beyond, style.LOST_RANGE),
        ],
        "annotations": [],
    }


# ---- the words -------------------------------------------------------------------------------------------------------


def _title(fmt: Any, x: float, yours: float, expected: float) -> str:
    same = number_text.decimal(yours) == number_text.decimal(expected)
    return f"{name_of(fmt)}: {number_text.decimal(x)} becomes {number_text.decimal(expected)}" + (
        "" if same else f", not {number_text.decimal(yours)}"
    )


def _subtitle(fmt: Any, around: Neighbourhood | None, x: float) -> str:
    if around is None:
        return "NaN has no place on the number line"
    has_subnormals = fmt.smallest_normal > fmt.smallest_subnormal  # fixed point, for one, has no such two kinds
    entries = [(style.BLUE, "┃", "normal"), (style.VERMILION, "╻", "subnormal")] if has_subnormals else []
    if math.isfinite(around.halfway):
        text = f"halfway: {number_text.decimal(around.halfway)}" + (", just where x is" if x == around.halfway else "")
        entries.append((style.GREY, "┊", text))
    return legend(*entries)


def _alt(fmt: Any, x: float, marks: list[LabelledValue], around: Neighbourhood | None) -> str:
    text = ", ".join(m.text.strip("←→ ") for m in marks)
    if around is None:
        return f"No number line, as NaN has no place on one; in {name_of(fmt)}: {text}."
    below, above = around.values[around.values < x], around.values[around.values > x]
    if not len(above) or not len(below):
        end = number_text.decimal(float(around.values[-1] if not len(above) else around.values[0]))
        where = f"x is not inside {name_of(fmt)}, whose last number is {end}"
        if x == around.values[-1] or x == around.values[0]:
            where = f"x is the last number of {name_of(fmt)}"
    elif x in around.values:
        where = f"x is a number of {name_of(fmt)}"
    else:
        where = (
            f"x lies between its neighbours {number_text.decimal(float(below[-1]))} and "
            f"{number_text.decimal(float(above[0]))}"
        )
        where += (
            ", exactly halfway"
            if x == around.halfway
            else f", which have {number_text.decimal(around.halfway)} halfway"
        )
    return f"Number line of {name_of(fmt)}: {text}; {where}."
