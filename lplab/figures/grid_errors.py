"""How good a scale is for each grid of four bits: error, bias or loss against the scale, and with a scale per layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, shapes, style, traces
from lplab.figures.legend import entry, legend
from lplab.quantizers import GRADIENT_GRIDS

STYLES = {  # colour and dash
    "int4": (style.PINK, "dashdot"),
    "radix2": (style.VERMILION, "dash"),
    "luq": (style.GREEN, "dot"),
    "radix4_even": (style.BLUE, "solid"),
    "radix4_odd": (style.BLUE, "longdash"),
    "radix4_mean": (style.GREY, "solid"),
}
GOOD = 0.5  # an error that loses no more than half of a layer's gradient


def grid_errors(
    scales: Any,
    curves: Mapping[str, Any],
    own: Mapping[str, float],
    *,
    what: str,
    unit: str = "%",
    limits: tuple[float, float],
    at: int | None = None,
    good: float | None = None,
    title: str = "",
    height: int = 330,
) -> go.Figure:
    """A number of each grid against one scale for all layers; at the right, with a scale for each layer.

    Args:
        scales: exponents of two, whole numbers in steps of one, [n].
        curves: the number at each scale, [n], by the names of ``lplab.quantizers.GRADIENT_GRIDS``.
        own: the number with a scale of each layer's own, by name.
        what: what the number is, for the axis.
        unit: "%" multiplies by a hundred.
        limits: of the axis; what lies beyond is a triangle at its edge, and a line between two such is left out.
        at: the scale to mark; None marks the scales of the layers' own.
        good: where given, values up to this count as good, and the title tells at how many scales.
        title: the point that it makes, by default that of ``good``.
        height: in pixels.

    Raises:
        ValueError: no scales, curves of another length than the scales, or an unknown grid.

    >>> fig = grid_errors([8, 9], {"radix2": [0.9, 0.4]}, {"radix2": 0.2}, what="error", limits=(0, 1), good=0.5)
    >>> fig.layout.meta["title"]
    'Good scales: FP4 radix 2 1'
    """
    x = np.asarray(scales, np.float64)
    result = {name: np.asarray(values, np.float64) for name, values in curves.items()}
    if not len(x):
        raise ValueError("at least one scale is needed")
    if not result.keys() <= STYLES.keys() or any(values.shape != x.shape for values in result.values()):
        raise ValueError(f"curves must be grids of {', '.join(STYLES)} with a number for each of {len(x)} scales")
    factor = 100.0 if unit == "%" else 1.0
    right = float(x[-1]) + 2
    low, high = factor * limits[0], factor * limits[1]
    lines = [_line(name, x, factor * values, low, high) for name, values in result.items()]
    points = [_point(name, right, factor * own[name], low, high) for name in result]
    beyond = _triangles_at_edges(x, {name: factor * values for name, values in result.items()}, low, high)
    upto = (factor * good, float(x[-1]) + 0.7) if good is not None else (0, float(x[0]))
    layout = {
        "xaxis": _scales(x, right),
        "yaxis": axes.axis(low, high, f"{what} ({unit})" if unit else what),
        "shapes": [shapes.upright(float(at) if at is not None else right), _limit(*upto)],
    }
    text = title or (_windows(x, result, good) if good is not None else what)
    at_mark = {n: own[n] if at is None else float(v[np.searchsorted(x, at)]) for n, v in result.items()}
    now = ", ".join(f"{GRADIENT_GRIDS[n].label} {factor * v:.3g} {unit}".strip() for n, v in at_mark.items())
    where = "a scale for each layer" if at is None else f"one scale of {number_text.power(at, plain=True)}"
    return style.apply_style(
        style.figure([*lines, *points, beyond], layout),
        alt=f"{what} against the scale. {text}. With {where}: {now}.".replace("-", number_text.MINUS),
        title=text,
        subtitle=legend(
            *map(entry, lines),
            *([(style.GREY, "▲", "off the scale")] if len(beyond["x"]) else []),
        ),
        height=height,
        t=66,
    )


def _scales(x: np.ndarray, right: float) -> dict[str, Any]:
    """An axis of exponents, every second one labelled, with one place more at the right."""
    places = np.arange(x[0], x[-1] + 1, 2)
    labels = [number_text.raised(number_text.power(place, plain=True)) for place in places]
    ticks = axes.ticks(np.append(places, right), [*labels, "per layer"])
    return axes.axis(float(x[0]) - 0.7, right + 1, "one scale for all layers", ticklabeloverflow="allow", **ticks)


def good_scales(scales: Any, values: Any, good: float = GOOD) -> list[int]:
    """The scales at which a number is at most ``good``.

    >>> good_scales([8, 9, 10], [0.9, 0.4, 0.5])
    [9, 10]
    """
    return [int(s) for s, value in zip(scales, values, strict=True) if value <= good]


def _windows(x: np.ndarray, curves: Mapping[str, np.ndarray], good: float) -> str:
    counts = {name: len(good_scales(x, values, good)) for name, values in curves.items()}
    return "Good scales: " + ", ".join(f"{GRADIENT_GRIDS[name].label} {count}" for name, count in counts.items())


def _line(name: str, x: np.ndarray, y: np.ndarray, low: float, high: float) -> dict[str, Any]:
    colour, dash = STYLES[name]
    outside = np.concatenate([[True], (y < low) | (y > high), [True]])
    far = outside[:-2] & outside[1:-1] & outside[2:]
    shown = np.where(far, np.nan, np.clip(y, low, high))
    # %{x} would be the label of a tick where there is one (2¹⁶), and the exponent elsewhere.
    scales = np.array([number_text.power(place) for place in x.tolist()], dtype=str)
    hover = "{name}<br>scale  %{text}<br>value  %{customdata:.3g}"
    look = traces.stroke(colour, 2, dash)
    return traces.line(GRADIENT_GRIDS[name].label, x, shown, look, hover, customdata=y, text=scales)


def _point(name: str, x: float, y: float, low: float, high: float) -> dict[str, Any]:
    label, value = GRADIENT_GRIDS[name].label, np.array([y])
    return traces.points(
        f"{label}, a scale per layer",
        np.array([x]),
        np.clip(value, low, high),
        traces.marker("diamond", 10, STYLES[name][0]),
        f"{label}<br>a scale per layer<br>value  %{{customdata:.3g}}",
        customdata=value,
    )


def _triangles_at_edges(x: np.ndarray, curves: Mapping[str, np.ndarray], low: float, high: float) -> dict[str, Any]:
    """Triangles at the edge for what lies beyond it."""
    outside = {name: (y < low) | (y > high) for name, y in curves.items()}
    count = [int(is_outside.sum()) for is_outside in outside.values()]
    symbols = [np.where(y[outside[name]] > high, "triangle-up", "triangle-down") for name, y in curves.items()]
    values = np.concatenate([y[outside[name]] for name, y in curves.items()])
    colours = np.repeat([STYLES[name][0] for name in outside], count)
    return traces.points(
        "off the scale",
        np.concatenate([x[is_outside] for is_outside in outside.values()]),
        np.clip(values, low, high),
        {"symbol": np.concatenate(symbols), "size": 9, "color": colours},
        "{name}<br>value  %{customdata:,.0f}",
        customdata=values,
        cliponaxis=False,
    )


def _limit(y: float, right: float) -> dict[str, Any]:
    """Up to where values count as good."""
    look = traces.stroke(style.GREY, 1.2)
    return {"type": "line", "xref": "x", "x0": 0, "x1": right, "y0": y, "y1": y, "line": look, "layer": "below"}
