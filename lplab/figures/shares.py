"""Shares of what a chip could do, for layers or for networks, with another function's beside them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, shapes, style, traces
from lplab.figures.compare_to_library import agreement, compare_to_library
from lplab.figures.legend import entry, legend

LABELLED = 12  # names that have room below the axis


def shares(
    names: Sequence[str],
    library: Any,
    yours: Any = None,
    *,
    name: str,
    what: str,
    along: str = "layers",
    band: tuple[float, float] | None = None,
    begins: Mapping[int, str] | None = None,
    height: int = 340,
) -> go.Figure:
    """Shares as squares, those of another function as circles where they are the same, else as crosses.

    Args:
        names: of what each share belongs to, [n].
        library: shares from 0 to 1, modelled, [n].
        yours: those of another function, [n].
        name: of the whole, for the title.
        what: a word for the share.
        along: title of the axis where there are too many names for it.
        band: published lowest and highest share, a shaded range.
        begins: where a group of names begins, and what stands above it.
        height: in pixels.

    Raises:
        ValueError: arguments of different length, or none.

    >>> shares(["a", "b"], [0.5, 0.9], name="Two layers", what="cells at work").layout.meta["title"]
    'Two layers: cells at work 50 to 90 %'
    """
    values = np.asarray(library, np.float64)
    own = np.full(values.shape, np.nan) if yours is None else np.asarray(yours, np.float64)
    if not len(names) == len(values) == len(own) or not len(names):
        raise ValueError(f"names, library and yours must be of one length, got {len(names)}, {len(values)}, {len(own)}")
    agree = np.isclose(own, values, rtol=1e-9, atol=0)
    text = f"{name}: {what} {100 * values.min():.0f} to {100 * values.max():.0f} %"
    text += f"; {agreement(agree)}" if yours is not None else ""
    x, texts = np.arange(len(values), dtype=np.float64), np.array(names, dtype=str)
    few = len(names) <= LABELLED
    is_drawn, drawn = agree | np.isfinite(own), 100 * np.where(agree, own, own.clip(-0.05, 1.15))
    ring, cross = traces.marker("circle-open", 13, style.PINK, 2), traces.marker("x", 9, style.PINK, 2)
    squares, hover = traces.marker("square", 8, style.BLUE), "%{text}<br>{name}  %{y:.3g} %"
    data = [
        traces.points("library, modelled", x, 100 * values, squares, hover, text=texts),
        *compare_to_library(x[is_drawn], drawn[is_drawn], agree[is_drawn], ring, cross, hover, text=texts[is_drawn]),
    ]
    entries = [entry(data[0])]
    entries += [(style.VERMILION, "▒", "published range")] if band else []
    entries += map(entry, data[1:]) if yours is not None else []
    layout = {
        "xaxis": _places(names, along),
        "yaxis": axes.axis(-6, 116, f"{what} (%)", tickvals=np.arange(0, 101, 20)),
    }
    told = ", ".join(f"{n} {100 * v:.0f} %" for n, v in zip(names[:LABELLED], values, strict=False))
    return style.apply_style(
        style.figure(data, layout | _marks(band, begins or {})),
        alt=f"{what.capitalize()}, modelled: {told}{' and more' if not few else ''}. {text}.",
        title=text,
        subtitle=legend(*entries),
        height=height,
        b=88 if few else 48,
    )


def _places(names: Sequence[str], along: str) -> dict[str, Any]:
    """An axis with a name at each place, or, where there is no room for so many, with a title."""
    few = len(names) <= LABELLED
    ticks = axes.ticks(np.arange(len(names), dtype=np.float64), map(_name_below, names, range(len(names))))
    none = axes.ticks(np.empty(0), [])
    return axes.axis(-0.7, len(names) - 0.3, "" if few else along, showgrid=False, **(ticks if few else none))


def _marks(band: tuple[float, float] | None, begins: Mapping[int, str]) -> dict[str, Any]:
    """Shapes and annotations of a layout: a band, or else where groups of names begin."""
    if band:
        text = f"published range: {100 * band[0]:.0f} to {100 * band[1]:.0f} %"
        return {"shapes": [_band(*band)], "annotations": [shapes.note(text, y=0.99)]}
    if begins:
        starts = [shapes.upright(place - 0.5, 1) for place in begins if place]
        return {"shapes": starts, "annotations": [_word_above(place, word) for place, word in begins.items()]}
    return {}


def _name_below(name: str, place: int) -> str:
    """A name in lines of 12 letters; every second one begins a line lower, as neighbours would run together."""
    return "<br>" * (place % 2) + "<br>".join(textwrap.wrap(name, 12))


def _word_above(place: int, word: str) -> dict[str, Any]:
    trace_style = {"showarrow": False, "xanchor": "left", "yanchor": "top", "font": {"size": style.NOTE}}
    return {"x": place - 0.4, "y": 1, "yref": "y domain", "text": word} | trace_style


def _band(low: float, high: float) -> dict[str, Any]:
    return {
        "type": "rect",
        "layer": "below",
        "xref": "x domain",
        "yref": "y",
        "x0": 0,
        "x1": 1,
        "y0": 100 * low,
        "y1": 100 * high,
        "fillcolor": style.LOST_RANGE,
        "line": {"width": 1, "color": style.VERMILION, "dash": "dot"},
    }
