"""What is left of the true gradient in every layer, from the loss back to the input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import style

_COLOURS = (style.BLUE, style.VERMILION, style.PINK)  # of the ways to round; green is the reference
_SIGNS = {"circle": "●", "square": "■", "diamond": "◆", "triangle-up": "▲"}


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
    layers = [list(each) for each in gains.values()]
    if not 0 < len(gains) <= len(_COLOURS) or not layers[0] or any(each != layers[0] for each in layers):
        raise ValueError(f"gains must be one to {len(_COLOURS)} ways to round with the same layers")
    names = np.array([name.removesuffix(".weight") for name in layers[0]], dtype=str)
    rows = np.arange(len(names), dtype=np.float64)
    trace_styles = [(colour, symbol) for colour, symbol in zip(_COLOURS, style.SYMBOLS, strict=False)]
    data = [
        _points(label, np.array(list(each.values())), rows, names, *trace_style)
        for (label, each), trace_style in zip(gains.items(), trace_styles, strict=False)
    ]
    firsts = {label: f"{100 * next(iter(each.values())):.0f} %" for label, each in gains.items()}
    text = title or f"Left in the first layer: {', '.join(firsts.values())}"  # whose is whose the key says
    top = max(1.15, 1.05 * max(max(each.values()) for each in gains.values()))
    layout = {
        "xaxis": {"range": [0, top], "title": {"text": "gain: length along the true gradient"}, "tickformat": ".0%"},
        "yaxis": {"range": [-0.6, len(names) - 0.4], "tickvals": rows, "ticktext": names},
        "shapes": [_one(len(names))],
    }
    entries = [(c, _SIGNS[s], f"{label}: {firsts[label]}") for label, (c, s) in zip(gains, trace_styles, strict=False)]
    ranges = "; ".join(f"{label} from {min(e.values()):.2f} to {max(e.values()):.2f}" for label, e in gains.items())
    return style.apply_style(
        style.figure(data, layout),
        alt=f"What is left of the gradient of {len(names)} layers: {ranges}. {text}.",
        title=text,
        subtitle=style.legend(*entries),
        height=height or 120 + 20 * len(names),
        l=170,
        t=66,
    )


def _points(name: str, x: np.ndarray, y: np.ndarray, layers: np.ndarray, colour: str, symbol: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": x,
        "y": y,
        "text": layers,
        "marker": {"color": colour, "symbol": symbol, "size": 10},
        "hovertemplate": f"%{{text}}<br>{name}<br>gain  %{{x:.3f}}<extra></extra>",
    }


def _one(rows: int) -> dict[str, Any]:
    """Where nothing is lost."""
    line = {"width": 1.6, "color": style.GREEN, "dash": "dash"}
    return {"type": "line", "x0": 1, "x1": 1, "y0": -0.6, "y1": rows - 0.4, "line": line, "layer": "below"}
