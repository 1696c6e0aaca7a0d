"""How efficient a cluster is against its number of devices: a curve for each way of sending gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import style

STYLES = (  # colour, dash, symbol, sign in the legend
    (style.BLUE, "solid", "circle", style.DASH_SIGNS[0]),
    (style.VERMILION, "dash", "square", style.DASH_SIGNS[1]),
    (style.PINK, "dot", "diamond", style.DASH_SIGNS[2]),
    (style.GREY, "dashdot", "triangle-up", style.DASH_SIGNS[3]),
)
_NAMES_AT = 1.07  # where names begin, in lengths of the axis
_ROOM = 0.052  # between two names at the right edge, as a share of the axis


@dataclass(frozen=True)
class ScalingCurve:
    """Efficiency of one design against devices.

    Args:
        name: as the legend calls it.
        devices: how many, increasing: [n].
        efficiency: examples per second and device over those of one device alone: [n].
        style_index: which of :data:`STYLES`; by default its place among the curves. Curves of one style are one
            family.

    Raises:
        ValueError: arrays that differ in length.
    """

    name: str
    devices: Any
    efficiency: Any
    style_index: int | None = None

    def __post_init__(self) -> None:
        devices, efficiency = np.asarray(self.devices, np.float64), np.asarray(self.efficiency, np.float64)
        if devices.shape != efficiency.shape or devices.ndim != 1 or not len(devices):
            raise ValueError(f"{self.name}: devices and efficiency must be of one length, 1 or more")
        object.__setattr__(self, "devices", devices)
        object.__setattr__(self, "efficiency", efficiency)


def scaling(
    curves: Sequence[ScalingCurve],
    *,
    chosen: int | None = None,
    published: Sequence[tuple[str, float, float]] = (),
    families: Sequence[str] = (),
    title: str = "",
    subtitle: str = "",
    height: int = 320,
) -> go.Figure:
    """Efficiency against devices, the axis in powers of two.

    Up to four curves have styles of their own and a legend. More stand in families of one style, with each name at the
    right end of its curve.

    Args:
        curves: what was **modelled**.
        chosen: a number of devices that is marked on the first curve.
        published: name, devices, efficiency of **published** runs: rings, so that nobody takes them for the model's.
        families: names of the styles that curves refer to.
        title: the point that it makes.
        subtitle: in place of the legend.
        height: in pixels.

    Raises:
        ValueError: no curves, or more than four without families.

    >>> curve = ScalingCurve("FP32", [1, 2, 4], [1.0, 0.9, 0.8])
    >>> scaling([curve], chosen=4).layout.meta["title"]
    'FP32: 80 % of perfect scaling on 4 devices'
    """
    if not curves or (len(curves) > len(STYLES) and not families):
        raise ValueError(f"give 1 to {len(STYLES)} curves, or name their families; got {len(curves)}")
    trace_styles = [
        STYLES[curve.style_index if curve.style_index is not None else i % len(STYLES)]
        for i, curve in enumerate(curves)
    ]
    last = max(float(curve.devices[-1]) for curve in curves)
    data = [_line(curve, trace_style) for curve, trace_style in zip(curves, trace_styles, strict=True)]
    data += [_marked(curves[0], chosen), _published(published), *(_names(curves, last) if families else ())]
    return style.apply_style(
        style.figure(data, _layout(last, 0.34 if families else 0.02)),
        alt=_alt(curves, chosen, published),
        title=title or _title(curves, chosen),
        subtitle=subtitle or _legend(curves, trace_styles, families, bool(published)),
        height=height,
        l=72,
    )


def _layout(last: float, right: float) -> dict[str, Any]:
    """Axes up to so many devices, and this share of the axis more for names."""
    span = np.log2(max(last, 2.0))
    ticks = 2.0 ** np.arange(0, span + 0.01, max(1, round(span / 8)))
    return {
        "xaxis": {
            "range": [-0.1, span * (1 + right)],
            "tickvals": np.log2(ticks),
            "ticktext": np.array([f"{n:,.0f}" for n in ticks], dtype=str),
            "title": {"text": "devices"},
            "automargin": False,
        },
        "yaxis": {"range": [0, 1.06], "tickformat": ".0%", "title": {"text": "efficiency"}, "automargin": False},
    }


def _line(curve: ScalingCurve, trace_style: tuple[str, ...]) -> dict[str, Any]:
    colour, dash, symbol, _ = trace_style
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": curve.name,
        "x": np.log2(curve.devices),
        "y": curve.efficiency,
        "customdata": curve.devices,
        "line": {"width": 2, "color": colour, "dash": dash},
        "marker": {"size": 6, "symbol": symbol, "color": colour},
        "hovertemplate": f"{curve.name} (modelled)<br>%{{customdata:,}} devices: %{{y:.1%}}<extra></extra>",
    }


def _marked(curve: ScalingCurve, chosen: int | None) -> dict[str, Any]:
    """The chosen number of devices, on the first curve."""
    at = float(chosen or 1)
    height = np.interp(np.log2(at), np.log2(curve.devices), curve.efficiency)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "here",
        "x": np.array([np.log2(at)]),
        "y": np.array([height]),
        "marker": {"size": 13, "symbol": "circle-open", "color": style.BLUE, "line": {"width": 3}},
        "hoverinfo": "skip",
        "visible": chosen is not None,
    }


def _published(points: Sequence[tuple[str, float, float]]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": "published",
        "x": np.log2(np.array([devices for _, devices, _ in points], np.float64)),
        "y": np.array([efficiency for _, _, efficiency in points], np.float64),
        "text": np.array([f"{name}, published" for name, _, _ in points], dtype=str),
        "textposition": "bottom left",
        "textfont": {"size": style.NOTE},
        "marker": {"size": 11, "symbol": "star-open", "color": style.GREEN, "line": {"width": 2}},
        "hovertemplate": "%{text}: %{y:.0%}<extra></extra>",
        "visible": bool(points),
    }


def _names(curves: Sequence[ScalingCurve], last: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Names at the right ends of the curves, moved apart where curves end together, and lines that lead to them."""
    order = sorted(curves, key=lambda curve: curve.efficiency[-1])
    ends = np.array([curve.efficiency[-1] for curve in order])
    heights = apart(ends, _ROOM, (0.02, 1.03))
    right, none = np.log2(max(last, 2.0)), np.full(len(order), np.nan)
    begins = np.log2([curve.devices[-1] for curve in order]) + 0.01 * right
    leaders = {
        "type": "scatter",
        "mode": "lines",
        "name": "leaders",
        "x": np.column_stack([begins, np.full(len(order), _NAMES_AT * right), none]).ravel(),
        "y": np.column_stack([ends, heights, none]).ravel(),
        "line": {"width": 1, "color": style.GREY},
        "hoverinfo": "skip",
    }
    return leaders, {
        "type": "scatter",
        "mode": "text",
        "name": "names",
        "x": np.full(len(order), _NAMES_AT * right),
        "y": heights,
        "text": np.array([curve.name for curve in order], dtype=str),
        "textposition": "middle right",
        "textfont": {"size": style.NOTE},
        "hoverinfo": "skip",
        "visible": bool(order),
    }


def apart(heights: np.ndarray, room: float, ends: tuple[float, float]) -> np.ndarray:
    """The heights nearest to these, increasing ones, that keep so much room between each other: least squares.

    >>> apart(np.array([0.0, 0.01, 0.5, 0.52]), 0.05, (0.01, 1.0)).round(3).tolist()
    [0.01, 0.06, 0.485, 0.535]
    """
    blocks: list[tuple[float, int]] = []  # mean and length of neighbours that stick together (pool adjacent violators)
    for value in heights - room * np.arange(len(heights)):
        mean, length = float(value), 1
        while blocks and blocks[-1][0] >= mean:
            before, count = blocks.pop()
            mean, length = (before * count + mean * length) / (count + length), count + length
        blocks.append((mean, length))
    flat = [mean for mean, length in blocks for _ in range(length)]
    highest = max(ends[1] - room * (len(heights) - 1), ends[0])
    return np.clip(flat, ends[0], highest) + room * np.arange(len(heights))


def _legend(
    curves: Sequence[ScalingCurve], trace_styles: Sequence[tuple[str, ...]], families: Sequence[str], published: bool
) -> str:
    if families:
        entries = [(STYLES[i][0], STYLES[i][3], family) for i, family in enumerate(families)]
    else:
        entries = [
            (trace_style[0], trace_style[3], curve.name)
            for curve, trace_style in zip(curves, trace_styles, strict=True)
        ]
    return style.legend(*entries, *([(style.GREEN, "☆", "published")] if published else []))


def _at(curve: ScalingCurve, devices: float) -> float:
    return float(np.interp(np.log2(devices), np.log2(curve.devices), curve.efficiency))


def _title(curves: Sequence[ScalingCurve], chosen: int | None) -> str:
    first = curves[0]
    at = float(chosen or first.devices[-1])
    return f"{first.name}: {100 * _at(first, at):.0f} % of perfect scaling on {at:,.0f} devices"


def _alt(curves: Sequence[ScalingCurve], chosen: int | None, published: Sequence[tuple[str, float, float]]) -> str:
    at = float(chosen or max(curve.devices[-1] for curve in curves))
    each = ", ".join(f"{curve.name} {_at(curve, at):.0%}" for curve in curves)
    known = "".join(f" Published: {name}, {devices:,.0f} devices, {e:.0%}." for name, devices, e in published)
    return f"Modelled efficiency against devices; on {at:,.0f} devices: {each}.{known}"
