"""Shares of what a chip could do, for layers or for networks, with another function's beside them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import style

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
    text += f"; yours agrees at {agree.sum()} of {len(values)}" if yours is not None else ""
    x = np.arange(len(values), dtype=np.float64)
    few = len(names) <= LABELLED
    other = ~agree & np.isfinite(own)
    data = [
        _points("library, modelled", x, values, names, {"symbol": "square", "size": 8, "color": style.BLUE}),
        _points("yours, the same", x[agree], own[agree], np.array(names)[agree], _open("circle-open", 13)),
        _points("yours, different", x[other], own[other].clip(-0.05, 1.15), np.array(names)[other], _open("x", 9)),
    ]
    layout = {
        "xaxis": _places(names, along),
        "yaxis": {"range": [-6, 116], "title": {"text": f"{what} (%)"}, "tickvals": np.arange(0, 101, 20)},
    }
    each = ", ".join(f"{n} {100 * v:.0f} %" for n, v in zip(names[:LABELLED], values, strict=False))
    return style.apply_style(
        style.figure(data, layout | _marks(band, begins or {})),
        alt=f"{what.capitalize()}, modelled: {each}{' and more' if not few else ''}. {text}.",
        title=text,
        subtitle=_legend(bool(band), yours is not None),
        height=height,
        b=88 if few else 48,
    )


def _legend(band: bool, yours: bool) -> str:
    entries = [(style.BLUE, "■", "library, modelled")]
    entries += [(style.VERMILION, "▒", "published range")] if band else []
    entries += [(style.VERMILION, "○", "yours, the same"), (style.VERMILION, "×", "yours, different")] if yours else []
    return style.legend(*entries)


def _places(names: Sequence[str], along: str) -> dict[str, Any]:
    """An axis with a name at each place, or, where there is no room for so many, with a title."""
    few = len(names) <= LABELLED
    return {
        "range": [-0.7, len(names) - 0.3],
        "showgrid": False,
        "tickvals": np.arange(len(names) if few else 0, dtype=np.float64),
        "ticktext": np.array([_below(n, i) for i, n in enumerate(names)] if few else [], dtype=str),
        "title": {"text": "" if few else along},
    }


def _marks(band: tuple[float, float] | None, begins: Mapping[int, str]) -> dict[str, Any]:
    """Shapes and annotations of a layout: a band, or else where groups of names begin."""
    if band:
        text = f"published range: {100 * band[0]:.0f} to {100 * band[1]:.0f} %"
        return {"shapes": [_band(*band)], "annotations": [style.note(text, y=0.99)]}
    if begins:
        starts = [_start(place) for place in begins if place]
        return {"shapes": starts, "annotations": [_above(place, word) for place, word in begins.items()]}
    return {}


def _below(name: str, place: int) -> str:
    """A name in lines of 12 letters; every second one begins a line lower, as neighbours would run together."""
    return "<br>" * (place % 2) + "<br>".join(textwrap.wrap(name, 12))


def _start(place: int) -> dict[str, Any]:
    trace_style = {"color": style.GREY, "width": 1, "dash": "dot"}
    x = place - 0.5
    return {"type": "line", "x0": x, "x1": x, "yref": "y domain", "y0": 0, "y1": 1, "line": trace_style}


def _above(place: int, word: str) -> dict[str, Any]:
    trace_style = {"showarrow": False, "xanchor": "left", "yanchor": "top", "font": {"size": style.NOTE}}
    return {"x": place - 0.4, "y": 1, "yref": "y domain", "text": word} | trace_style


def _open(symbol: str, size: int) -> dict[str, Any]:
    return {"symbol": symbol, "size": size, "color": style.VERMILION, "line": {"width": 2, "color": style.VERMILION}}


def _points(name: str, x: np.ndarray, y: np.ndarray, texts: Any, marker: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": x,
        "y": 100 * y,
        "text": np.array(texts, dtype=str),
        "marker": marker,
        "hovertemplate": f"%{{text}}<br>{name}  %{{y:.3g}} %<extra></extra>",
    }


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
