"""One bin of AdaComp in one step, as bars: from residual and gradient to the message and the new residual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

PANELS = ("residual r", "gradient g", "G = r + g", "H = G + g", "message", "new r = G − message")
NUMBERED = 12  # elements of a bin at most whose bars bear numbers
_PER_ROW, _GAP = 3, 1.5  # panels side by side, and the space between two of them in bars
_ROWS = ([0.56, 1.0], [0.0, 0.44])  # the two rows of panels, as shares of the height
_HALF_LINE = 0.055  # of the height of a panel: half a line of text, with some space above it
_FILLED = {"line": {"width": 0}}


def bin_step(residual: Any, gradient: Any, message: Any, *, title: str = "", height: int = 500) -> go.Figure:
    """What AdaComp does with one bin in one step: six panels of bars with the same heights.

    An element is sent where |H| reaches the largest |G| of the bin, which is the line in the panels of G and H.

    Args:
        residual, gradient: of the elements of the bin, [n]; G is their sum, and H has the gradient once more.
        message: the number that is sent for each element, 0 where nothing is sent, [n].
        title: the point that it makes; by default how many elements are sent.
        height: in pixels.

    Raises:
        ValueError: arrays of different length, or without elements.

    >>> fig = bin_step([0.0, 0.0], [4.0, 1.0], [4.0, 0.0])
    >>> fig.layout.meta["title"]
    '1 of 2 elements is sent: |H| must reach 4'
    >>> fig.data[5].y.tolist()  # the new residual
    [0.0, 1.0]
    """
    r, g, sent = (np.asarray(x, np.float64) for x in (residual, gradient, message))
    if r.ndim != 1 or not r.size or not r.shape == g.shape == sent.shape:
        raise ValueError("residual, gradient and message must be of one length, at least one element")
    total, boosted = r + g, r + 2 * g
    limit = float(np.abs(total).max())
    each = (r, g, total, boosted, sent, total - sent)
    low = 1.25 * min(-limit, float(np.min(each))) or -1.0  # space for the numbers at the bars, and for the names above
    high = 1.5 * max(limit, float(np.max(each))) or 1.0
    text = title or _text(sent, limit)
    data = [_bars(k, values, sent) for k, values in enumerate(each)]
    lines = [_limit(k, r.size, limit) for k in (2, 3)]
    names = [_names(row, r.size, high - _HALF_LINE * (high - low)) for row in (0, 1)]
    return style.apply_style(
        style.figure([*data, *lines, *names], _layout(r.size, low, high)),
        alt=f"{r.size} elements of a bin. G: {_row(total)}. H: {_row(boosted)}. Largest |G|: {_number(limit)}. "
        f"Message: {_row(sent)}. New residual: {_row(each[-1])}.",
        title=text,
        subtitle=legend(entry(data[4], "sent"), entry(data[0], "stays"), entry(lines[0])),
        height=height,
    )


def _text(sent: np.ndarray, limit: float) -> str:
    count = int(np.count_nonzero(sent))
    if not count:
        return f"Nothing is sent: no |H| reaches {_number(limit)}" if limit else "Nothing is sent: all G are zero"
    return f"{count} of {sent.size} elements {'is' if count == 1 else 'are'} sent: |H| must reach {_number(limit)}"


def _number(value: float) -> str:
    return number_text.number(float(value) + 0.0, digits=3, plain=True)


def _row(values: np.ndarray) -> str:
    return ", ".join(map(_number, values))


def _start(panel: int, size: int) -> float:
    """Where a panel begins on the x axis of its row."""
    return panel % _PER_ROW * (size + _GAP)


def _axes(panel: int) -> dict[str, str]:
    return {"xaxis": "x2", "yaxis": "y2"} if panel >= _PER_ROW else {"xaxis": "x", "yaxis": "y"}


def _bars(panel: int, values: np.ndarray, sent: np.ndarray) -> dict[str, Any]:
    """The bars of a panel. The elements that are sent are blue in G, H and the message."""
    shown = {"text": np.array([_number(v) for v in values], dtype=str), "textposition": "outside", "cliponaxis": False}
    colour: Any = {4: style.BLUE}.get(panel, style.GREY)
    if panel in (2, 3):
        colour = np.where(sent != 0, style.BLUE, style.GREY)
    return traces.bars(
        PANELS[panel],
        _start(panel, values.size) + np.arange(values.size),
        values,
        {"color": colour, **_FILLED},
        "{name}<br>element  %{customdata}<br>value  %{y:.3g}",
        customdata=np.arange(1, values.size + 1),
        textfont={"size": style.NOTE},
        **(shown if values.size <= NUMBERED else {}),
        **_axes(panel),
    )


def _limit(panel: int, size: int, limit: float) -> dict[str, Any]:
    """The largest |G|, above and below zero."""
    ends = _start(panel, size) - 0.5, _start(panel, size) + size - 0.5
    x = traces.segments(np.full(2, ends[0]), np.full(2, ends[1]))
    y = traces.segments(np.array([limit, -limit]), np.array([limit, -limit]))
    look = traces.stroke(style.VERMILION, 1.8, "dash")
    return traces.line("the bin's max|G|", x, y, look, **_axes(panel))


def _names(row: int, size: int, top: float) -> dict[str, Any]:
    """The names of a row's panels, at their top."""
    panels: Sequence[int] = range(row * _PER_ROW, (row + 1) * _PER_ROW)
    x = np.array([_start(panel, size) + (size - 1) / 2 for panel in panels])
    names = [f"<b>{PANELS[panel]}</b>" for panel in panels]
    return traces.words(f"names, row {row + 1}", x, np.full(len(x), top), names, "middle center", **_axes(panels[0]))


def _layout(size: int, low: float, high: float) -> dict[str, Any]:
    every = 1 if size <= NUMBERED else -(-size // 5)
    elements = np.arange(0, size, every)
    places = np.concatenate([_start(panel, size) + elements for panel in range(_PER_ROW)])
    labels = axes.ticks(places, [f"{element + 1}" for _ in range(_PER_ROW) for element in elements])
    width = _start(_PER_ROW - 1, size) + size
    x = axes.axis(-0.8, width - 0.2, "", showgrid=False, **labels)
    y = axes.axis(low, high, "", nticks=5)
    return {
        "xaxis": x | {"anchor": "y"},
        "xaxis2": axes.axis(-0.8, width - 0.2, "element of the bin", showgrid=False, **labels) | {"anchor": "y2"},
        "yaxis": y | {"domain": _ROWS[0], "anchor": "x"},
        "yaxis2": y | {"domain": _ROWS[1], "anchor": "x2"},
        "bargap": 0.25,
        "barmode": "overlay",
    }
