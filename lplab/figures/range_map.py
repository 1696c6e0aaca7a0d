"""Recorded magnitudes of every layer, or of every step, under a format's window: a row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, shapes, style, traces
from lplab.figures.range_outcomes import FILLS, OCTAVES, RangeOutcomes, in_view, range_outcomes, scale_text, spans
from lplab.figures.window import Window
from lplab.recordings.magnitudes import MagnitudeCounts

# Percent of a row's elements in an octave that make the tallest ridge, and its height in rows.
FULL, TALLEST = (
    25.0,
    1.5,
)
SPLIT, LEFT = 0.66, 142  # of the width: where the plot ends, so that two columns of shares fit beside it on a
# phone; pixels to its left. The histogram above keeps them, too


def range_map(
    rows: Sequence[tuple[str, MagnitudeCounts]],
    window: Window,
    scale: int = 0,
    *,
    name: str,
    chosen: int | None = 0,
    what: str = "|gradient|",
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """Every layer, or every step, as a row: how its magnitudes lie in the window, and which share becomes zero.

    Args:
        rows: label and magnitudes, from the top.
        window: of the format.
        scale: log2 of the loss scale.
        name: of the format.
        chosen: the row to outline, or None.
        what: what the elements are, for the axis.
        title: the point that it makes; by default the row that loses most.
        height: in pixels.

    Raises:
        ValueError: no row, or no such row to outline.

    >>> from lplab.figures.window import window
    >>> from lplab.formats import get
    >>> from lplab.recordings.magnitudes import recorded
    >>> rows = [(layer, recorded("digits_resnet").magnitudes(layer, "weight", 0)) for layer in ("stem", "head")]
    >>> range_map(rows, window(get("fp16")), name="fp16").layout.meta["title"]
    'fp16, no loss scale: nothing becomes zero in any row'
    """
    if not rows or (chosen is not None and not 0 <= chosen < len(rows)):
        raise ValueError(f"chosen must be one of {len(rows)} rows, got {chosen!r}")
    outcomes = [range_outcomes(result, window, scale) for _, result in rows]
    shares = np.array([100 * in_view(result.counts[None], scale)[0] / max(result.total, 1) for _, result in rows])
    text = title or f"{name}, {scale_text(scale)}: {_worst_row_text(rows, outcomes)}"
    lost = [f"{label}: {number_text.percent(f.lost)}" for (label, _), f in zip(rows, outcomes, strict=True)]
    fig = style.figure(
        [*_ridges(rows, shares, chosen), *_column(outcomes)], _map_layout(rows, window, scale, chosen, what)
    )
    return style.apply_style(
        fig,
        alt=f"{len(rows)} rows of magnitudes under the window of {text}. Share that becomes zero: {'; '.join(lost)}.",
        title=text,
        subtitle="a histogram in each row · right: shares that become zero, and that overflow",
        height=height,
        t=66,
        l=LEFT,
    )


def _worst_row_text(rows: Sequence[tuple[str, MagnitudeCounts]], outcomes: Sequence[RangeOutcomes]) -> str:
    lost, beyond = [f.lost for f in outcomes], [f.overflowed for f in outcomes]
    overflows = max(beyond) > 0
    shares, what = (beyond, "overflows") if overflows else (lost, "loses")
    largest = number_text.percent(max(shares))
    if not max(shares):
        return "nothing becomes zero in any row"
    if len(rows) > 1 and min(shares) == max(shares):
        return f"every row {what} {largest}"
    most = "" if overflows and np.count_nonzero(shares) == 1 else " most"
    return f"{rows[int(np.argmax(shares))][0]} {what}{most}, {largest}"


def _ridges(
    rows: Sequence[tuple[str, MagnitudeCounts]], shares: np.ndarray, chosen: int | None
) -> list[dict[str, Any]]:
    """The histograms as ridges, each on the line of its row: the chosen one, and all others as one trace."""
    result = []
    for name, fill, here in (("the other rows", 0.4, False), ("the chosen row", 0.9, True)):
        wanted = [i for i in range(len(rows)) if (i == chosen) == here]
        x, y, text = _outlines([(i, rows[i][0], shares[i]) for i in wanted])
        look, hover = traces.stroke(style.BLUE, 1), "%{text} at 2<sup>%{x}</sup>"
        more = {"text": text, "fill": "toself", "fillcolor": f"rgba(0,114,178,{fill})", "hoveron": "points"}
        result.append(traces.line(name, x, y, look, hover, **more))
    return result


def _outlines(rows: Sequence[tuple[int, str, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Polygons through the middles of the bars, with gaps between them; and what to say at each corner.

    A loss scale moves x alone: the rest is not sent to the browser again.
    """
    x, y, text = [np.empty(0)], [np.empty(0)], [""][:0]
    for i, label, share in rows:
        filled = np.flatnonzero(share)
        if not len(filled):
            continue
        low, high = int(filled[0]), int(filled[-1])
        height = np.minimum(share[low : high + 1] / FULL, 1.0) * TALLEST
        x.append(np.concatenate([[low], np.arange(low, high + 1) + 0.5, [high + 1, np.nan]]) + OCTAVES[0])
        y.append(np.concatenate([[i], i - height, [i, np.nan]]))
        text += [label, *(f"{label}<br>{value:.3g} %" for value in share[low : high + 1].tolist()), label, ""]
    return np.concatenate(x), np.concatenate(y), np.array(text, dtype=str)


def _column(outcomes: Sequence[RangeOutcomes]) -> list[dict[str, Any]]:
    """What each row loses, beside it: to zero, and in the colour of losses what overflows."""
    y = np.arange(-1.0, len(outcomes))
    result = []
    for name, x, shares in (
        ("→ 0", 0.0, [f.lost for f in outcomes]),
        ("over", 1.0, [f.overflowed for f in outcomes]),
    ):
        texts = [name, *(number_text.percent(share) if share else "0" for share in shares)]
        result.append(traces.words(name, np.full(len(y), x), y, texts, xaxis="x2"))
    return result


def _map_layout(
    rows: Sequence[tuple[str, MagnitudeCounts]], window: Window, scale: int, chosen: int | None, what: str
) -> dict[str, Any]:
    low, high = OCTAVES
    texts = [f"<b>{label}</b>" if i == chosen else label for i, (label, _) in enumerate(rows)]
    x = axes.power_axis(low, high, f"{'loss scale × ' if scale else ''}{what} (powers of two)")
    at = chosen or 0
    outline = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": at - 0.5, "y1": at + 0.5}
    outline["visible"] = chosen is not None
    return {
        "xaxis": x | {"domain": [0, SPLIT]},
        "xaxis2": {"domain": [SPLIT + 0.02, 1], "range": [-0.62, 1.38], "visible": False, "fixedrange": True},
        "yaxis": {"range": [len(rows) - 0.5, -1.6], "showgrid": False, "ticks": "", "showline": False}
        | axes.ticks(np.arange(len(rows)), texts)
        | {"tickfont": {"size": style.NOTE}},
        "shapes": [
            *(shapes.region(a, b, fill) for (a, b), fill in zip(spans(window), FILLS, strict=True)),
            outline | {"line": traces.stroke(style.GREY, 1.5), "fillcolor": "rgba(0,0,0,0)"},
        ],
    }
