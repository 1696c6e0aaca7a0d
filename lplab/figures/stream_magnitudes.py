"""The largest numbers of a residual stream from block to block: the first token, the others, the median."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

FIRST, OTHERS, MEDIAN = "first token", "other tokens", "median of all"


def stream_magnitudes(first: Any, others: Any, medians: Any, *, title: str = "", height: int = 300) -> go.Figure:
    """Three curves over the blocks on a logarithmic axis; the box of a point names the channel.

    Args:
        first, others: |x| of each channel, of the first token and the largest of the others: [places, channels].
        medians: of all numbers: [places].
        title: the point that it makes; by default the largest number and its channel.
        height: in pixels.

    Raises:
        ValueError: arrays that do not fit together, or a number that is not above 0.

    >>> fig = stream_magnitudes([[1.0, 900.0]], [[3.0, 2.0]], [1.5])
    >>> fig.layout.meta["title"]
    'First token, channel 1: 900'
    """
    largest = {FIRST: np.asarray(first, np.float64), OTHERS: np.asarray(others, np.float64)}
    middle = np.asarray(medians, np.float64)
    if any(each.ndim != 2 or len(each) != len(middle) for each in largest.values()):
        raise ValueError(f"arrays of {len(middle)} rows are needed, got {[each.shape for each in largest.values()]}")
    curves = {name: each.max(1) for name, each in largest.items()} | {MEDIAN: middle}
    if not all((np.isfinite(each) & (each > 0)).all() for each in curves.values()):
        raise ValueError("magnitudes must be finite and above 0")
    x = np.arange(len(middle), dtype=np.float64)
    drawn = [
        traces.curve(
            name,
            x,
            values,
            traces.stroke(colour, 2, dash),
            traces.marker(symbol, 6, colour),
            "before block %{x}<br>{name}  %{y:.4g}%{text}",
            text=np.array(
                [f", channel {each}" for each in largest[name].argmax(1)] if name in largest else [""] * len(x)
            ),
        )
        for (name, values), (colour, dash, symbol) in zip(curves.items(), style.SERIES, strict=False)
    ]
    place = int(curves[FIRST].argmax())
    channel = int(largest[FIRST][place].argmax())
    top, usual = (f"{float(f'{each[place]:.3g}'):,g}" for each in (curves[FIRST], middle))
    low, high = (
        float(f(np.log10(g(np.concatenate(list(curves.values())))))) for f, g in ((np.floor, np.min), (np.ceil, np.max))
    )
    decades = np.arange(low, high + 1)
    ticks = axes.ticks(10.0**decades, [f"{10.0**decade:,g}" for decade in decades.tolist()])
    layout = {
        "xaxis": axes.axis(-0.5, len(x) - 0.5, "before block", nticks=8),
        "yaxis": axes.axis(low, high, "largest magnitude", type="log") | ticks,
    }
    return style.apply_style(
        style.figure(drawn, layout),
        alt=f"Magnitudes before each of {len(x) - 1} blocks. Largest before block {place}: channel {channel} of the "
        f"first token has {top}, the median there is {usual}.",
        title=title or f"First token, channel {channel}: {top}",
        subtitle=legend(*map(entry, drawn)),
        height=height,
        t=66,
    )
