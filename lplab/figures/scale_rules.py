"""What becomes of the largest number of a block when its power-of-two scale is rounded down, and when rounded up."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

CHANGES = (-32, 32)  # percent of the axis


def scale_rules(
    largest: Any, down: Any, up: Any, *, agreed: tuple[int, int] | None = None, title: str = "", height: int = 320
) -> go.Figure:
    """The change of each block's largest magnitude against its place between two powers of two, by both rules.

    Args:
        largest: the largest magnitude of each block, above 0, [n].
        down, up: by how much it changed, as a share of itself, under scales rounded down and up, [n]. Changes beyond
            the axis stand at its end.
        agreed: how many blocks agree with the library, and of how many.
        title: the point that it makes; by default the mean change by both rules.
        height: in pixels.

    Raises:
        ValueError: no blocks, arrays of different lengths, or a magnitude that is not above 0.

    >>> scale_rules([1.0, 7.0], [0.0, -1 / 7], [0.0, 1 / 7]).layout.meta["title"]
    'On average −7.1 % rounded down, +7.1 % rounded up'
    """
    sizes, each = np.asarray(largest, np.float64), [np.asarray(change, np.float64) for change in (down, up)]
    if sizes.ndim != 1 or not len(sizes) or any(change.shape != sizes.shape for change in each):
        raise ValueError("one change by each rule is needed for each of at least one block")
    if not (sizes > 0).all():
        raise ValueError("the largest magnitude of a block must be above 0")
    place = 2 * np.frexp(sizes)[0]
    drawn = [
        traces.points(
            name,
            place,
            np.clip(100 * change, *CHANGES),
            traces.marker(symbol, 7, colour),
            "{name}<br>%{x:.3f} × a power of two<br>changes by %{y:.1f} %",
        )
        for name, change, colour, symbol in (
            ("rounded down", each[0], style.VERMILION, "square-open"),
            ("rounded up", each[1], style.BLUE, "circle"),
        )
    ]
    down_text, up_text = (number_text.signed_percent(float(change.mean()), 2) for change in each)
    mine = f"; yours agrees in {agreed[0]} of {agreed[1]} results" if agreed else ""
    text = title or f"On average {down_text} rounded down, {up_text} rounded up{mine}"
    worst = ", ".join(
        f"{trace['name']} from {number_text.signed_percent(float(change.min()), 2)} to "
        f"{number_text.signed_percent(float(change.max()), 2)}"
        for trace, change in zip(drawn, each, strict=True)
    )
    return style.apply_style(
        style.figure(
            drawn,
            {
                "xaxis": axes.axis(0.98, 2.02, "largest magnitude of the block, as a multiple of a power of two"),
                "yaxis": axes.axis(*CHANGES, "it changes by (%)", dtick=10),
            },
        ),
        alt=f"What becomes of the largest magnitude of {len(sizes)} blocks: {worst}. {text}.",
        title=text,
        subtitle=legend(*map(entry, drawn)),
        height=height,
        t=66,
    )
