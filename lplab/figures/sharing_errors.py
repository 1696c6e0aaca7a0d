"""Signal to noise against how many numbers share a scale, a line for each format of the scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, shapes, style, traces
from lplab.figures.legend import entry, legend

DECIBELS = (
    0,
    50,
)  # of the axis, at most: 8 bits with a scale for 16 numbers reach 46; it ends at the next ten above the curves
_MOST = len(style.SERIES)
_SIZES = (8, 13, 7, 8)  # of the markers: a point that lies on another is seen in it


def sharing_errors(
    names: Sequence[str],
    curves: Mapping[str, Any],
    *,
    at: int,
    bits: Mapping[str, Any],
    title: str = "",
    height: int = 290,
) -> go.Figure:
    """Signal to noise of a tensor for several ways to share a scale, and for several formats of that scale.

    Args:
        names: the ways to share, from few numbers to many, [n].
        curves: by the format of the scale, at most four: signal to noise in dB, [n]; NaN where there is none.
            What lies beyond the axis, 0 to 50 dB, stands at its end.
        at: the way that is marked, from 0.
        bits: by the format of the scale: average bits a value, [n].
        title: the point that it makes; by default the best format of the scale at the mark.
        height: in pixels.

    Raises:
        ValueError: no ways, more than four formats, curves of another length, or no way ``at``.

    >>> fig = sharing_errors(["16", "32"], {"E4M3": [20.0, 19.0]}, at=1, bits={"E4M3": [4.5, 4.25]})
    >>> fig.layout.meta["title"]
    'Shared by 32: E4M3 scales keep most, 19.0 dB with 4.25 bits a value'
    """
    lines = {name: np.asarray(values, np.float64) for name, values in curves.items()}
    costs = {name: np.asarray(bits[name], np.float64) for name in lines}
    if not 1 <= len(lines) <= _MOST or any(len(each) != len(names) for each in (*lines.values(), *costs.values())):
        raise ValueError(f"1 to {_MOST} formats of the scale are needed, each with {len(names)} numbers")
    if not 0 <= at < len(names):
        raise ValueError(f"at must be from 0 to {len(names) - 1}, got {at}")
    x = np.arange(len(names), dtype=np.float64)
    largest = max((float(np.nanmax(values)) for values in lines.values() if np.isfinite(values).any()), default=0.0)
    top = float(np.clip(10 * np.ceil((largest + 1) / 10), DECIBELS[0] + 10, DECIBELS[1]))
    drawn = [
        traces.curve(
            name,
            x,
            np.clip(values, *DECIBELS),
            traces.stroke(colour, 2, dash),
            traces.marker(symbol, size, colour),
            "{name}<br>%{customdata[0]:.1f} dB, %{customdata[1]:.2f} bits a value",
            customdata=np.nan_to_num(np.stack([values, costs[name]], 1)),  # it travels as text, which has no NaN
        )
        for (name, values), (colour, dash, symbol), size in zip(lines.items(), style.SERIES, _SIZES, strict=False)
    ]
    here = {name: float(values[at]) for name, values in lines.items() if np.isfinite(values[at])}
    texts = [f"{name} {number_text.decibels(value)} with {_bits(costs[name][at])}" for name, value in here.items()]
    return style.apply_style(
        style.figure(
            drawn,
            {
                "xaxis": axes.axis(-0.4, len(names) - 0.6, "numbers that share a scale", **axes.ticks(x, names)),
                "yaxis": axes.axis(DECIBELS[0], top, "signal to noise (dB)", dtick=10),
                "shapes": [shapes.upright(float(at))],
            },
        ),
        alt=f"Signal to noise against the numbers that share a scale. Shared by {names[at]}: {'; '.join(texts)}.",
        title=title or _best_sharings_text(names[at], here, {name: float(costs[name][at]) for name in here}),
        subtitle=legend(*(entry(curve) for curve in drawn if np.isfinite(curve["y"]).any())),
        height=height,
        t=66,
    )


def _best_sharings_text(name: str, decibels: Mapping[str, float], bits: Mapping[str, float]) -> str:
    most = max(decibels.values())
    best = [sharing for sharing, value in decibels.items() if number_text.decibels(value) == number_text.decibels(most)]
    kept = f"{number_text.decibels(most)} with {_bits(min(bits[sharing] for sharing in best))}"
    return f"Shared by {name}: {' and '.join(best)} scales keep most, {kept}"


def _bits(value: float) -> str:
    return f"{round(value, 2):g} bits a value"
