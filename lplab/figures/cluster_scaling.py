"""How efficient a cluster is against its number of devices: a curve for each way of sending gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import SIGNS, entry, legend

_NAMES_AT = 1.07  # where names begin, in lengths of the axis
_ROOM = 0.052  # between two names at the right edge, as a share of the axis


@dataclass(frozen=True)
class ScalingCurve:
    """Efficiency of one design against devices.

    Args:
        name: as the legend calls it.
        devices: how many, increasing: [n].
        efficiency: examples per second and device over those of one device alone: [n].
        style_index: which of ``style.SERIES_BESIDE_GREEN``; by default its place among the curves. Curves of one style
            are one family.

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
    styles = style.SERIES_BESIDE_GREEN
    if not curves or (len(curves) > len(styles) and not families):
        raise ValueError(f"give 1 to {len(styles)} curves, or name their families; got {len(curves)}")
    last = max(float(curve.devices[-1]) for curve in curves)
    lines = []
    for i, curve in enumerate(curves):
        index = i % len(styles) if curve.style_index is None else curve.style_index
        lines.append(_line(curve, *styles[index]))
    star = _published(published)
    data = [*lines, _mark_of_chosen(curves[0], chosen), star, *(_names(curves, last) if families else ())]
    entries = [entry(line, sign=SIGNS[line["line"]["dash"]]) for line in lines]
    if families:
        entries = [(styles[i][0], SIGNS[styles[i][1]], family) for i, family in enumerate(families)]
    entries += [entry(star)] if published else []
    return style.apply_style(
        style.figure(data, _layout(last, 0.34 if families else 0.02)),
        alt=_alt(curves, chosen, published),
        title=title or _title(curves, chosen),
        subtitle=subtitle or legend(*entries),
        height=height,
        l=72,
    )


def _layout(last: float, right: float) -> dict[str, Any]:
    """Axes up to so many devices, and this share of the axis more for names."""
    span = np.log2(max(last, 2.0))
    devices = 2.0 ** np.arange(0, span + 0.01, max(1, round(span / 8)))
    ticks = axes.ticks(np.log2(devices), [f"{n:,.0f}" for n in devices])
    return {
        "xaxis": axes.axis(-0.1, span * (1 + right), "devices", **ticks, automargin=False),
        "yaxis": axes.axis(0, 1.06, "efficiency", tickformat=".0%", automargin=False),
    }


def _line(curve: ScalingCurve, colour: str, dash: str, symbol: str) -> dict[str, Any]:
    look = traces.stroke(colour, 2, dash), traces.marker(symbol, 6, colour)
    hover = "{name} (modelled)<br>%{customdata:,} devices: %{y:.1%}"
    return traces.curve(curve.name, np.log2(curve.devices), curve.efficiency, *look, hover, customdata=curve.devices)


def _mark_of_chosen(curve: ScalingCurve, chosen: int | None) -> dict[str, Any]:
    """The chosen number of devices, on the first curve."""
    at = float(chosen or 1)
    height = np.interp(np.log2(at), np.log2(curve.devices), curve.efficiency)
    x, y = np.array([np.log2(at)]), np.array([height])
    look = traces.marker("circle-open", 24, style.BLUE, line={"width": 2.5})  # a star of the same place is seen in it
    return traces.points("here", x, y, look, visible=chosen is not None, cliponaxis=False)


def _published(points: Sequence[tuple[str, float, float]]) -> dict[str, Any]:
    return traces.points(
        "published",
        np.log2(np.array([devices for _, devices, _ in points], np.float64)),
        np.array([efficiency for _, _, efficiency in points], np.float64),
        traces.marker("star-open", 11, style.GREEN, line={"width": 2}),
        "%{text}: %{y:.0%}",
        mode="markers+text",
        text=np.array([f"{name}, published: {100 * e:.0f} %" for name, _, e in points], dtype=str),
        textposition="bottom left",
        textfont={"size": style.NOTE},
        visible=bool(points),
    )


def _names(curves: Sequence[ScalingCurve], last: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Names at the right ends of the curves, moved apart where curves end together, and lines that lead to them."""
    order = sorted(curves, key=lambda curve: curve.efficiency[-1])
    ends = np.array([curve.efficiency[-1] for curve in order])
    heights = apart(ends, _ROOM, (0.02, 1.03))
    right = np.log2(max(last, 2.0))
    begins, names_at = np.log2([c.devices[-1] for c in order]) + 0.01 * right, np.full(len(order), _NAMES_AT * right)
    x, y = traces.segments(begins, names_at), traces.segments(ends, heights)
    names = [curve.name for curve in order]
    return (
        traces.line("leaders", x, y, traces.stroke(style.GREY, 1)),
        traces.words("names", names_at, heights, names, "middle right", visible=bool(order)),
    )


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


def _efficiency_at(curve: ScalingCurve, devices: float) -> float:
    return float(np.interp(np.log2(devices), np.log2(curve.devices), curve.efficiency))


def _title(curves: Sequence[ScalingCurve], chosen: int | None) -> str:
    first = curves[0]
    at = float(chosen or first.devices[-1])
    return f"{first.name}: {100 * _efficiency_at(first, at):.0f} % of perfect scaling on {at:,.0f} devices"


def _alt(curves: Sequence[ScalingCurve], chosen: int | None, published: Sequence[tuple[str, float, float]]) -> str:
    at = float(chosen or max(curve.devices[-1] for curve in curves))
    told = ", ".join(f"{curve.name} {_efficiency_at(curve, at):.0%}" for curve in curves)
    stars = "".join(f" Published: {name}, {devices:,.0f} devices, {e:.0%}." for name, devices, e in published)
    return f"Modelled efficiency against devices; on {at:,.0f} devices: {told}.{stars}"
