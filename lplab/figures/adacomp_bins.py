"""Some bins of one layer: what each element is, the threshold that it must reach, and which are sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.compare_to_library import agreement
from lplab.figures.legend import entry, legend

_MARK = 0.35  # half the width of the mark at |H|, in elements
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
    top: float | None = None,
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
        top: what the axis must have room for besides, in units of S, such as :func:`tallest` of other steps.
        title: the point that it makes; by default how many are sent.
        height: in pixels.

    Raises:
        ValueError: arrays of different length, or without elements.

    >>> fig = adacomp_bins([0.1, 0.9], [0.1, 0.3], [False, True], [1.2, 1.2], 1.2, bin=2)
    >>> fig.layout.meta["title"]
    '1 of these 2 elements is sent'
    """
    r, g, m = (np.asarray(x, np.float64) for x in (residual, gradient, limit))
    is_sent, own = np.asarray(sent, bool), np.asarray(residual if yours is None else yours, np.float64)
    if r.ndim != 1 or not r.size or any(x.shape != r.shape for x in (g, m, is_sent, own)):
        raise ValueError("residual, gradient, sent, limit and yours must be of one length, at least one element")
    unit = scale or 1.0
    total, boosted = (r + g) / unit, (r + factor * g) / unit
    symbols = np.where(is_sent, np.sign(total), 0.0)
    own = symbols if yours is None else own
    text = title or _text(symbols, own, yours is not None)
    high = max(tallest(r, g, m, scale, factor), top or 0.0)
    data = [*_stems(total, boosted, is_sent), _threshold(m / unit, bin), _scale(r.size)]
    data += [_symbols(boosted, symbols, first), _crosses(boosted, own, symbols, first)]
    stays, goes, way, most, one, sent_ones, crosses = data
    entries = [entry(sent_ones, "sent as +S, −S", "▲▼"), entry(goes, sign="┃"), entry(stays, sign="┃")]
    entries.append(entry(way, "|H|", "┬"))
    entries += [entry(most), entry(one)] + ([entry(crosses)] if yours is not None else [])
    return style.apply_style(
        style.figure(data, _layout(r.size, bin, high, first)),
        alt=f"{r.size} elements of a layer in bins of {bin:,}, in units of the scale S. {text}.",
        title=text,
        subtitle=legend(*entries, per_line=3 if yours is None else 4),
        height=height,
        t=82,
    )


def tallest(residual: Any, gradient: Any, limit: Any, scale: float, factor: float = 2.0) -> float:
    """The largest of |H| and of the thresholds in units of S, at least 1; arguments as for :func:`adacomp_bins`.

    >>> tallest(np.array([0.1, 0.9]), np.array([0.1, 0.3]), np.array([1.2, 1.2]), 0.5)
    3.0
    """
    boosted, most = np.abs(residual + factor * gradient).max(initial=0), np.max(limit, initial=0)
    return max(1.0, float(max(boosted, most)) / (scale or 1.0))


def _text(symbols: np.ndarray, own: np.ndarray, compared: bool) -> str:
    count = int(np.count_nonzero(symbols))
    if compared:
        return agreement(own == symbols, "elements").capitalize()
    return f"{count} of these {symbols.size} elements {'is' if count == 1 else 'are'} sent"


def _stems(total: np.ndarray, boosted: np.ndarray, sent: np.ndarray) -> list[dict[str, Any]]:
    zero = np.zeros(total.size)
    g, h = np.minimum(np.abs(total), MAX_HEIGHT), np.minimum(np.abs(boosted), MAX_HEIGHT)
    result = []
    for name, low, high, shown, colour, width in (
        ("|G| that stays", zero, g, ~sent, style.GREY, 1.2),
        ("|G| of those sent", zero, g, sent, style.BLUE, 2.0),
        ("from |G| to |H|", g, h, np.ones(g.size, bool), style.PINK, 1.2),
    ):
        at = np.flatnonzero(shown).astype(np.float64)
        x, y = traces.segments(at, at), traces.segments(low[shown], high[shown])
        if colour == style.PINK:  # where |H| is smaller, only a mark, as a stroke would hide the stem of |G|
            gap = np.full(at.size, np.nan)
            x = np.column_stack([at, at, at - _MARK, at + _MARK, gap]).ravel()  # in one stroke: half the paths to draw
            y = np.column_stack([np.minimum(low, high), high, high, high, gap]).ravel()
        x, y = (_coordinate_or_nan(each) for each in (x, y))
        result.append(traces.line(name, x, y, traces.stroke(colour, width, simplify=False)))
    return result


def _coordinate_or_nan(coordinate: np.ndarray) -> np.ndarray:
    """One coordinate, or that of nowhere where there are no points: a trace that comes or goes has all drawn anew."""
    return coordinate if len(coordinate) else np.full(1, np.nan)


def _threshold(limit: np.ndarray, bin: int) -> dict[str, Any]:
    """max|G| of each bin, with a gap between bins."""
    starts = np.arange(0, limit.size, bin)
    x = traces.segments(starts - 0.5, np.minimum(starts + bin, limit.size) - 0.5)
    y = np.repeat(np.minimum(limit[starts], MAX_HEIGHT), 3)
    look = traces.stroke(style.VERMILION, 1.8, simplify=False)
    return traces.line("the bin's max|G|", x, y, look, "largest |G| of this bin  %{y:.3g} S")


def _scale(size: int) -> dict[str, Any]:
    look = traces.stroke(style.GREEN, 1.4, "dash", simplify=False)
    return traces.line("S", np.array([-0.5, size - 0.5]), np.ones(2), look)


def _symbols(boosted: np.ndarray, symbols: np.ndarray, first: int) -> dict[str, Any]:
    at = np.flatnonzero(symbols)
    look = {"size": 8, "color": style.BLUE, "symbol": np.where(symbols[at] > 0, "triangle-up", "triangle-down")}
    hover = "element  %{customdata[2]}<br>H      %{customdata[1]:.3g} S<br>sent   %{customdata[0]:+.0f} · S"
    numbers = np.stack([symbols[at], boosted[at], at + first], axis=1).reshape(-1, 3)
    x, y = _coordinate_or_nan(at.astype(np.float64)), _coordinate_or_nan(np.minimum(np.abs(boosted[at]), MAX_HEIGHT))
    return traces.points("sent", x, y, look, hover, customdata=numbers)


def _crosses(boosted: np.ndarray, own: np.ndarray, symbols: np.ndarray, first: int) -> dict[str, Any]:
    at = np.flatnonzero(own != symbols)
    return traces.points(
        "yours differs",
        at,
        np.minimum(np.abs(boosted[at]), MAX_HEIGHT),
        traces.marker("x", 11, style.VERMILION),
        "element  %{customdata[2]}<br>yours    %{customdata[0]:g}<br>library  %{customdata[1]:g}",
        customdata=np.stack([own[at], symbols[at], at + first], axis=1),
        visible=bool(at.size),
    )


def _layout(size: int, bin: int, high: float, first: int) -> dict[str, Any]:
    top = min(max(2.0, float(np.ceil(high))), MAX_HEIGHT)
    unit = f"units of S, cut at {MAX_HEIGHT:g}" if high > MAX_HEIGHT else "units of S"
    every = max(bin, 10) if size // max(bin, 10) >= 2 else size / 5
    every *= -(-size // int(every * 12)) if size > every * 12 else 1
    at = np.arange(0, size + 1, every)
    labels = axes.ticks(at, [f"{t + first:,.0f}" for t in at])
    title = f"element of the layer (bins of {bin:,})"
    # a label at the right end fits the margin: that must not get wider, as the whole figure would be drawn anew for it
    return {
        "xaxis": axes.axis(-1, size, title, **labels, showgrid=False, automargin="height"),
        "yaxis": axes.axis(0, 1.06 * top, unit, nticks=6),
    }
