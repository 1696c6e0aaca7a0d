"""What is left of the true gradient in every layer, from the loss back to the input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

_LOOKS = style.SERIES_BESIDE_GREEN[:3]  # of the ways to round; green is the reference


def gradient_gains(gains: Mapping[str, Mapping[str, float]], *, title: str = "", height: int = 0) -> go.Figure:
    """One row for each layer, the one at the loss on top; one symbol for each way to round.

    Args:
        gains: for up to three ways to round, by their names: the gain of each layer (1: nothing lost), from the input
            to the loss, of the same layers (``lplab.training.loop.gradient_projection.gradient_projection``).
        title: the point that it makes; by default what is left in the first layer.
        height: in pixels; by default what the rows need.

    Raises:
        ValueError: no way or more than three, or different layers.

    >>> gradient_gains({"LUQ": {"a.weight": 1.0, "b.weight": 0.99}}).layout.meta["title"]
    'Left in the first layer: 100 %'
    """
    layers = [list(by_layer) for by_layer in gains.values()]
    if not 0 < len(gains) <= len(_LOOKS) or not layers[0] or any(by_layer != layers[0] for by_layer in layers):
        raise ValueError(f"gains must be one to {len(_LOOKS)} ways to round with the same layers")
    names = np.array([name.removesuffix(".weight") for name in layers[0]], dtype=str)
    rows = np.arange(len(names), dtype=np.float64)
    data = []
    for (label, by_layer), (colour, _, symbol) in zip(gains.items(), _LOOKS, strict=False):
        x, look = np.array(list(by_layer.values())), traces.marker(symbol, 10, colour)
        data.append(traces.points(label, x, rows, look, "%{text}<br>{name}<br>gain  %{x:.3f}", text=names))
    firsts = {label: f"{100 * next(iter(by_layer.values())):.0f} %" for label, by_layer in gains.items()}
    shares = [next(iter(by_layer.values())) for by_layer in gains.values()]
    ends = dict.fromkeys(f"{100 * share:.0f} %" for share in (min(shares), max(shares)))  # whose is whose the key says
    text = title or f"Left in the first layer: {' to '.join(ends)}"
    top = max(1.15, 1.05 * max(max(by_layer.values()) for by_layer in gains.values()))
    layout = {
        "xaxis": axes.axis(0, top, "gain: length along the true gradient", tickformat=".0%"),
        "yaxis": {"range": [-0.6, len(names) - 0.4]} | axes.ticks(rows, names),
        "shapes": [_line_without_loss(len(names))],
    }
    ranges = "; ".join(f"{label} from {min(e.values()):.2f} to {max(e.values()):.2f}" for label, e in gains.items())
    return style.apply_style(
        style.figure(data, layout),
        alt=f"What is left of the gradient of {len(names)} layers: {ranges}. {text}.",
        title=text,
        subtitle=legend(*(entry(points, f"{points['name']}: {firsts[points['name']]}") for points in data)),
        height=height or 120 + 20 * len(names),
        l=170,
        t=66,
    )


def _line_without_loss(rows: int) -> dict[str, Any]:
    """Where nothing is lost."""
    look = traces.stroke(style.GREEN, 1.6, "dash")
    return {"type": "line", "x0": 1, "x1": 1, "y0": -0.6, "y1": rows - 0.4, "line": look, "layer": "below"}
