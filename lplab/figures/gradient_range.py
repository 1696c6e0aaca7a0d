"""Recorded magnitudes of one tensor behind a loss scale, under a format's window."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, shapes, style, traces
from lplab.figures.legend import entry, legend
from lplab.figures.range_map import LEFT, SPLIT
from lplab.figures.range_outcomes import (
    FILLS,
    OCTAVES,
    OUTCOMES,
    RangeOutcomes,
    describe,
    headroom,
    in_view,
    range_outcomes,
    scale_text,
    spans,
)
from lplab.figures.window import Window
from lplab.recordings.magnitudes import MagnitudeCounts

_STYLES = (
    style.OUTCOME_STYLES["flushed"],
    {
        "color": style.AMBER,
        "line": {"width": 0},
        "pattern": {"shape": "-", "fgcolor": style.PAPER, "fillmode": "overlay", "size": 5},
    },
    style.OUTCOME_STYLES["rounded"],
    style.OUTCOME_STYLES["saturated"] | {"color": style.PINK},
)


def gradient_range(
    magnitudes: MagnitudeCounts,
    window: Window,
    scale: int = 0,
    *,
    name: str,
    what: str = "|gradient|",
    height: int = 340,
) -> go.Figure:
    """Histogram of log2 of the recorded magnitudes times a loss scale, with the format's window behind it.

    Args:
        found: of a :class:`~lplab.recordings.magnitudes.Recording`.
        window: of the format.
        scale: log2 of the loss scale.
        name: of the format.
        what: what the elements are, for the axis.
        height: in pixels.

    >>> from lplab.figures.window import window
    >>> from lplab.formats import get
    >>> from lplab.recordings.magnitudes import recorded
    >>> scores = recorded("transformer").magnitudes("blocks.2.attention/matmul", "output_gradient_dx", 1000)
    >>> gradient_range(scores, window(get("bf16")), name="bf16").layout.meta["title"]
    'bf16, no loss scale: nothing becomes zero, nothing overflows'
    """
    outcomes = range_outcomes(magnitudes, window, scale)
    shares = 100 * in_view(outcomes.counts, scale) / max(magnitudes.total, 1)
    low, high = OCTAVES
    top = headroom(magnitudes)  # from the tensor alone: neither format nor scale moves the axis
    message = f"{name}, {scale_text(scale)}: {describe(outcomes)}"
    x = axes.power_axis(low, high, f"{'loss scale × ' if scale else ''}{what} (powers of two)")
    bars = _bars(shares)
    fig = style.figure(
        data=[*bars, _names(outcomes, window, top)],
        layout={
            "barmode": "stack",
            "xaxis": x | {"domain": [0, SPLIT]},
            "yaxis": axes.axis(0, top, "share of elements (%)", nticks=6),
            "shapes": [shapes.region(a, b, fill) for (a, b), fill in zip(spans(window), FILLS, strict=True)],
        },
    )
    texts = [f"{name} {number_text.percent(share)}" for name, share in zip(OUTCOMES, outcomes.shares, strict=True)]
    key = legend(*map(entry, bars, texts))
    zeros = f"; {magnitudes.zeros:,} more are zero" if magnitudes.zeros else ""
    return style.apply_style(
        fig,
        alt=f"Histogram of {magnitudes.total:,} recorded magnitudes under the window of {message}. {', '.join(texts)}.",
        title=message,
        subtitle=f"{magnitudes.total:,} elements that are not zero{zeros}<br>{key}",
        height=height,
        t=82,
        l=LEFT,
    )


def _bars(shares: np.ndarray) -> list[dict[str, Any]]:
    octaves = np.arange(*OCTAVES)
    ranges = np.array([f"{number_text.power(k)} … {number_text.power(k + 1)}" for k in octaves.tolist()], dtype=str)
    result = []
    for outcome, share, look in zip(OUTCOMES, shares, _STYLES, strict=True):
        is_shown = share > 0  # empty bars would take the browser as long as others
        hover = "%{hovertext}<br>{name}  %{y:.3g} %"
        x, y = octaves[is_shown] + 0.5, share[is_shown]
        result.append(traces.bars(outcome, x, y, look, hover, width=0.96, hovertext=ranges[is_shown]))
    return result


def _names(outcomes: RangeOutcomes, window: Window, top: float) -> dict[str, Any]:
    low, high = OCTAVES
    named = [
        (f"{outcome}<br><b>{number_text.percent(share)}</b>", a, b)
        for outcome, share, (a, b) in zip(OUTCOMES, outcomes.shares.tolist(), spans(window), strict=True)
    ]
    names = traces.region_names(named, high - low, top)
    return names | {"cliponaxis": False}  # on half a page the last range is narrower than its name
