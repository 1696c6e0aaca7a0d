"""Recorded magnitudes of one tensor behind a loss scale, under a format's window."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import style, words
from lplab.figures.range_fates import (
    FATES,
    FILLS,
    OCTAVES,
    RangeFates,
    in_view,
    range_fates,
    room_above,
    said_of,
    scale_text,
    spans,
)
from lplab.figures.range_map import LEFT, SPLIT
from lplab.figures.window import Window
from lplab.recording_files import Magnitudes

_LOOKS = (
    style.FATE_LOOKS["flushed"],
    {
        "color": style.AMBER,
        "line": {"width": 0},
        "pattern": {"shape": "-", "fgcolor": style.PAPER, "fillmode": "overlay", "size": 5},
    },
    style.FATE_LOOKS["rounded"],
    style.FATE_LOOKS["saturated"],
)
_SIGNS = ((style.VERMILION, "▨"), (style.AMBER, "▤"), (style.BLUE, "■"), (style.VERMILION, "▩"))


def gradient_range(
    found: Magnitudes,
    window: Window,
    scale: int = 0,
    *,
    name: str,
    what: str = "|gradient|",
    height: int = 340,
) -> go.Figure:
    """Histogram of log2 of the recorded magnitudes times a loss scale, with the format's window behind it.

    Args:
        found: of a :class:`~lplab.recording_files.Recording`.
        window: of the format.
        scale: log2 of the loss scale.
        name: of the format.
        what: what the elements are, for the axis.
        height: in pixels.

    >>> from lplab.figures.window import window
    >>> from lplab.formats import get
    >>> from lplab.recording_files import recorded
    >>> scores = recorded("transformer").magnitudes("blocks.2.attention/matmul", "output_gradient_dx", 1000)
    >>> gradient_range(scores, window(get("bf16")), name="bf16").layout.meta["title"]
    'bf16, no loss scale: nothing becomes zero, nothing overflows'
    """
    fates = range_fates(found, window, scale)
    shares = 100 * in_view(fates.counts, scale) / max(found.total, 1)
    low, high = OCTAVES
    top = room_above(found)  # from the tensor alone: neither format nor scale moves the axis
    said = f"{name}, {scale_text(scale)}: {said_of(fates)}"
    x = style.power_axis(low, high, f"{'loss scale × ' if scale else ''}{what} (powers of two)")
    fig = style.figure(
        data=[*_bars(shares), _names(fates, window, top)],
        layout={
            "barmode": "stack",
            "xaxis": x | {"domain": [0, SPLIT]},
            "yaxis": {"range": [0, top], "title": {"text": "share of elements (%)"}, "nticks": 6},
            "shapes": [style.region(a, b, fill) for (a, b), fill in zip(spans(window), FILLS, strict=True)],
        },
    )
    each = ", ".join(f"{text} {words.percent(share)}" for text, share in zip(FATES, fates.shares, strict=True))
    zeros = f"; {found.zeros:,} more are zero" if found.zeros else ""
    return style.finish(
        fig,
        alt=f"Histogram of {found.total:,} recorded magnitudes under the window of {said}. {each}.",
        title=said,
        subtitle=f"{found.total:,} elements that are not zero{zeros}<br>{_key(fates)}",
        height=height,
        t=82,
        l=LEFT,
    )


def _key(fates: RangeFates) -> str:
    texts = [f"{name} {words.percent(share)}" for name, share in zip(FATES, fates.shares, strict=True)]
    return style.key(*((*sign, text) for sign, text in zip(_SIGNS, texts, strict=True)))


def _bars(shares: np.ndarray) -> list[dict[str, Any]]:
    octaves = np.arange(*OCTAVES)
    ranges = np.array([f"{words.power(k)} … {words.power(k + 1)}" for k in octaves.tolist()], dtype=str)
    return [
        {
            "type": "bar",
            "name": fate,
            "x": octaves[share > 0] + 0.5,  # empty bars would take the browser as long as others
            "y": share[share > 0],
            "width": 0.96,
            "hovertext": ranges[share > 0],
            "hovertemplate": f"%{{hovertext}}<br>{fate}  %{{y:.3g}} %<extra></extra>",
            "marker": look,
        }
        for fate, share, look in zip(FATES, shares, _LOOKS, strict=True)
    ]


def _names(fates: RangeFates, window: Window, top: float) -> dict[str, Any]:
    low, high = OCTAVES
    named = [
        (f"{fate}<br><b>{words.percent(share)}</b>", a, b)
        for fate, share, (a, b) in zip(FATES, fates.shares.tolist(), spans(window), strict=True)
    ]
    names = style.region_names(named, high - low, top)
    return names | {"cliponaxis": False}  # on half a page the last range is narrower than its name
