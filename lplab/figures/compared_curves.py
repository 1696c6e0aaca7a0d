"""A few quantities over layers or settings, one curve for each, and somebody's results beside the library's."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.compare_to_library import SAME, agreement, compare_to_library
from lplab.figures.legend import entry, legend

LETTERS = 8  # on a line below the axis, so that five names have room on a phone
LETTER, BOTTOM, LINE = 6.8, 64, 16  # pixels: the width of a letter of an axis title, room below the plot, a line
_HOVER = "%{text}<br>{name}  %{y:.4g}"


def compared_curves(
    places: Sequence[str],
    library: Mapping[str, Any],
    yours: Mapping[str, Any] | None = None,
    *,
    what: str,
    name: str,
    along: str = "",
    tolerance: float = 1e-6,
    height: int = 340,
) -> go.Figure:
    """A curve for each quantity over named places; rings where another function agrees, crosses where it does not.

    Args:
        places: names below the axis, [n], such as layers.
        library: up to four quantities by name, [n] each, finite.
        yours: those of another function, by the same names; NaN where it gives none.
        what: title of the y axis, with the unit.
        name: of the whole, for the title.
        along: title of the x axis, where the names of the places need one.
        tolerance: up to where results agree, as a share of the library's.
        height: in pixels.

    Raises:
        ValueError: no quantity or more than four, other names in ``yours``, or arrays of another length.

    >>> library, yours = {"plain": [20.0, 10.0]}, {"plain": [20.0, 12.0]}
    >>> fig = compared_curves(["a", "b"], library, yours, what="error (%)", name="Two")
    >>> fig.layout.meta["title"]
    'Two: error (%), yours agrees at 1 of 2'
    """
    values = {key: np.asarray(y, np.float64) for key, y in library.items()}
    own = {key: np.asarray(y, np.float64) for key, y in (yours or {}).items()}
    if not 1 <= len(values) <= len(style.SERIES) or (yours is not None and own.keys() != values.keys()):
        raise ValueError(
            f"one to {len(style.SERIES)} quantities are needed, the same in both, got {', '.join(values) or 'none'}"
        )
    if any(y.shape != (len(places),) for y in (*values.values(), *own.values())):
        raise ValueError(f"each quantity needs a number for each of the {len(places)} places")
    x, texts = np.arange(len(places), dtype=np.float64), np.array(places, dtype=str)
    low, high = _ends(np.concatenate(list(values.values())))
    curves = [
        traces.curve(key, x, y, traces.stroke(colour, 1.5, dash), traces.marker(symbol, 8, colour), _HOVER, text=texts)
        for (key, y), (colour, dash, symbol) in zip(values.items(), style.SERIES, strict=False)
    ]
    every = np.concatenate([own.get(key, np.full(len(places), np.nan)) for key in values])
    same = np.isclose(every, np.concatenate(list(values.values())), rtol=tolerance, atol=0)
    is_finite = np.isfinite(every)
    many_x, many_texts = np.tile(x, len(values)), np.tile(texts, len(values))
    ring, cross = traces.marker("circle-open", 14, style.PINK, 2), traces.marker("x", 10, style.PINK, 2)
    drawn = every[is_finite].clip(low, high)
    beside = compare_to_library(
        many_x[is_finite], drawn, same[is_finite], ring, cross, _HOVER, text=many_texts[is_finite]
    )
    text = f"{name}: {what}" + (f", {agreement(same)}" if own else "")
    told = "; ".join(
        f"{key} {', '.join(f'{p} {v:.3g}' for p, v in zip(places, y, strict=True))}" for key, y in values.items()
    )
    entries = [entry(curve) for curve in curves] + ([entry(beside[0], SAME), entry(beside[1])] if own else [])
    ticks = axes.ticks(x, ["<br>".join(textwrap.wrap(place, LETTERS)) for place in places])
    top = 66 + LINE * (len(entries) > 3)
    # An axis title longer than its axis would be cut at both ends.
    title = textwrap.wrap(what, int((height - top - BOTTOM) / LETTER))
    layout = {
        "xaxis": axes.axis(-0.5, len(places) - 0.5, along, showgrid=False, **ticks),
        "yaxis": axes.axis(low, high, "<br>".join(title)),
    }
    return style.apply_style(
        style.figure([*curves, *beside], layout),
        alt=f"{what[:1].upper()}{what[1:]}: {told}. {text}.",
        title=text,
        subtitle=legend(*entries, per_line=3),
        height=height,
        t=top,
        b=BOTTOM,
        l=64 + LINE * (len(title) - 1),
    )


def _ends(values: np.ndarray) -> tuple[float, float]:
    """Ends of an axis with room around the values; from zero where that wastes no more than half of it."""
    low, high = float(values.min()), float(values.max())
    low = 0.0 if 0 <= low <= 0.6 * high else low
    room = 0.1 * (high - low or abs(high) or 1.0)
    return low - room, high + room
