"""Some bins of one layer: what each element is, the threshold that it must reach, and which are sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import style

MAX_HEIGHT = 6.0  # of the axis, in units of S; what lies beyond is drawn there


def adacomp_bins(
    residual: Any,
    gradient: Any,
    sent: Any,
    limit: Any,
    scale: float,
    *,
    bin: int,
    factor: float = 2.0,
    yours: Any = None,
    first: int = 0,
    title: str = "",
    height: int = 340,
) -> go.Figure:
    """The elements of some bins: |G|, the way to |H|, the bin's threshold, and the symbol of those that are sent.

    Args:
        residual, gradient: of consecutive elements, [n]; G is their sum, H = G + (factor − 1)·gradient.
        sent: which are sent, bool [n].
        limit: max|G| of each element's bin, [n].
        scale: S: what a symbol stands for. All is drawn in units of it.
        bin: elements of a bin.
        factor: s of the soft threshold.
        yours: the symbols of another function, −1, 0 or 1, [n]: crosses where they differ.
        first: the number of the first element in its layer, the beginning of a bin.
        title: the point that it makes; by default how many are sent.
        height: in pixels.

    Raises:
        ValueError: arrays of different length, or without elements.

    >>> fig = adacomp_bins([0.1, 0.9], [0.1, 0.3], [False, True], [1.2, 1.2], 1.2, bin=2)
    >>> fig.layout.meta["title"]
    '1 of these 2 elements is sent'
    """
    r, g, m = (np.asarray(x, np.float64) for x in (residual, gradient, limit))
    there, own = np.asarray(sent, bool), np.asarray(residual if yours is None else yours, np.float64)
    if r.ndim != 1 or not r.size or any(x.shape != r.shape for x in (g, m, there, own)):
        raise ValueError("residual, gradient, sent, limit and yours must be of one length, at least one element")
    unit = scale or 1.0
    total, boosted = (r + g) / unit, (r + factor * g) / unit
    symbols = np.where(there, np.sign(total), 0.0)
    own = symbols if yours is None else own
    text = title or _text(symbols, own, yours is not None)
    tallest = max(np.abs(boosted).max(initial=1), (m / unit).max(initial=1))
    data = [*_stems(total, boosted, there), _threshold(m / unit, bin), _scale(r.size)]
    data += [_symbols(boosted, symbols, first), _crosses(boosted, own, symbols, first)]
    return style.apply_style(
        style.figure(data, _layout(r.size, bin, tallest, first)),
        alt=f"{r.size} elements of a layer in bins of {bin:,}, in units of the scale S. {text}.",
        title=text,
        subtitle=_legend(yours is not None),
        height=height,
        t=82,
    )


def _legend(compared: bool) -> str:
    entries = [(style.BLUE, "▲▼", "sent as +S, −S"), (style.GREY, "┃", "|G| that stays"), (style.PINK, "│", "to |H|")]
    entries += [(style.VERMILION, "━", "the bin's max|G|"), (style.GREEN, "╍", "S")]
    entries += [(style.VERMILION, "×", "yours differs")] if compared else []
    return "<br>".join(style.legend(*entries[i : i + 3]) for i in range(0, len(entries), 3))


def _text(symbols: np.ndarray, own: np.ndarray, compared: bool) -> str:
    count = int(np.count_nonzero(symbols))
    if compared:
        return f"Yours agrees at {(own == symbols).sum()} of {own.size} elements"
    return f"{count} of these {symbols.size} elements {'is' if count == 1 else 'are'} sent"


def _stems(total: np.ndarray, boosted: np.ndarray, sent: np.ndarray) -> list[dict[str, Any]]:
    zero = np.zeros(total.size)
    g, h = np.minimum(np.abs(total), MAX_HEIGHT), np.minimum(np.abs(boosted), MAX_HEIGHT)
    return [
        _segments("|G| that stays", zero, g, ~sent, style.GREY, 1.2),
        _segments("|G| of those sent", zero, g, sent, style.BLUE, 2.0),
        _segments("from |G| to |H|", g, h, np.ones(g.size, bool), style.PINK, 1.2),
    ]


def _segments(name: str, low: np.ndarray, high: np.ndarray, shown: np.ndarray, colour: str, width: float) -> Any:
    """Upright strokes as one line with gaps: a bar for each would take a browser ten times as long."""
    at = np.flatnonzero(shown).astype(np.float64)
    gap = np.full(at.size, np.nan)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": np.stack([at, at, gap], axis=1).reshape(-1),
        "y": np.stack([low[shown], high[shown], gap], axis=1).reshape(-1),
        "line": {"color": colour, "width": width, "simplify": False},
        "hoverinfo": "skip",
    }


def _threshold(limit: np.ndarray, bin: int) -> dict[str, Any]:
    """max|G| of each bin, with a gap between bins."""
    starts = np.arange(0, limit.size, bin)
    ends = np.minimum(starts + bin, limit.size)
    x = np.stack([starts - 0.5, ends - 0.5, np.full(starts.size, np.nan)], axis=1)
    y = np.repeat(np.minimum(limit[starts], MAX_HEIGHT), 3)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "the bin's max|G|",
        "x": x.reshape(-1),
        "y": y,
        "line": {"color": style.VERMILION, "width": 1.8, "simplify": False},
        "hovertemplate": "largest |G| of this bin  %{y:.3g} S<extra></extra>",
    }


def _scale(size: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "S",
        "x": np.array([-0.5, size - 0.5]),
        "y": np.ones(2),
        "line": {"color": style.GREEN, "width": 1.4, "dash": "dash"},
        "hoverinfo": "skip",
    }


def _symbols(boosted: np.ndarray, symbols: np.ndarray, first: int) -> dict[str, Any]:
    at = np.flatnonzero(symbols)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "sent",
        "x": at,
        "y": np.minimum(np.abs(boosted[at]), MAX_HEIGHT),
        "customdata": np.stack([symbols[at], boosted[at], at + first], axis=1).reshape(-1, 3),
        "marker": {"size": 8, "color": style.BLUE}
        | {"symbol": np.where(symbols[at] > 0, "triangle-up", "triangle-down")},
        "hovertemplate": "element  %{customdata[2]}<br>H      %{customdata[1]:.3g} S<br>"
        "sent   %{customdata[0]:+.0f} · S<extra></extra>",
    }


def _crosses(boosted: np.ndarray, own: np.ndarray, symbols: np.ndarray, first: int) -> dict[str, Any]:
    at = np.flatnonzero(own != symbols)
    values = np.stack([own[at], symbols[at], at + first], axis=1)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "yours differs",
        "x": at,
        "y": np.minimum(np.abs(boosted[at]), MAX_HEIGHT),
        "customdata": values,
        "marker": {"size": 11, "symbol": "x", "color": style.VERMILION},
        "hovertemplate": "element  %{customdata[2]}<br>yours    %{customdata[0]:g}<br>library  %{customdata[1]:g}"
        "<extra></extra>",
        "visible": bool(at.size),
    }


def _layout(size: int, bin: int, tallest: float, first: int) -> dict[str, Any]:
    top = min(max(2.0, float(np.ceil(tallest))), MAX_HEIGHT)
    every = max(bin, 10) if size // max(bin, 10) >= 2 else size / 5
    every *= -(-size // int(every * 12)) if size > every * 12 else 1
    ticks = np.arange(0, size + 1, every)
    return {
        "xaxis": {"range": [-1, size], "title": {"text": f"element of the layer (bins of {bin:,})"}}
        | {"tickvals": ticks, "ticktext": np.array([f"{t + first:,.0f}" for t in ticks]), "showgrid": False},
        "yaxis": {"range": [0, 1.06 * top], "title": {"text": "units of S"}, "nticks": 6},
    }
