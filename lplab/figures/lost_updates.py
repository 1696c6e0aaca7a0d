"""Why a training in fixed point fails: the share of updates that are lost, and of outputs that saturate."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend
from lplab.figures.training_error import BITS_TITLE, mark

STYLES = (  # name, colour, dash, symbol
    ("updates lost", style.VERMILION, "solid", "circle"),
    ("outputs saturated", style.BLUE, "dash", "square"),
)


def lost_updates(
    bits_shown: tuple[int, int],
    fraction_bits: Any,
    lost: Any,
    saturated: Any,
    *,
    rule: str,
    marked_bits: int | None = None,
    height: int = 260,
) -> go.Figure:
    """The two ways to lose, against fraction bits: a point for each seed, a line through the medians.

    Args:
        bits_shown: the ends of the axis.
        fraction_bits: [n].
        lost: share of the updates that were not zero and became zero, 0 to 1, [n, seeds].
        saturated: share of the layer outputs that lay outside the range, 0 to 1, [n, seeds].
        rule: the rounding rule, for the title.
        marked_bits: fraction bits to mark.
        height: in pixels.

    Raises:
        ValueError: the arrays do not fit each other.

    >>> fig = lost_updates((4, 14), [6, 14], [[0.99], [0.1]], [[0.0], [0.4]], rule="stochastic")
    >>> fig.layout.meta["title"]
    'Stochastic: what is lost'
    """
    x = np.asarray(fraction_bits, np.float64)
    shares = [100 * np.asarray(part, np.float64) for part in (lost, saturated)]
    if any(part.ndim != 2 or len(part) != len(x) for part in shares):
        raise ValueError(
            f"lost and saturated must be [n, seeds] for {len(x)} fraction bits, got {[p.shape for p in shares]}"
        )
    data = [trace for look, part in zip(STYLES, shares, strict=True) for trace in _curve(x, part, *look)]
    low, high = bits_shown
    layout = {
        "xaxis": axes.axis(low - 0.5, high + 0.5, BITS_TITLE, dtick=1, tick0=low),
        "yaxis": axes.axis(-3, 103, "share (%)", tickvals=np.arange(0, 101, 25)),
        "shapes": [mark(low if marked_bits is None else marked_bits, marked_bits is not None)],
    }
    lost_median, saturated_median = (np.median(part, axis=1) / 100 for part in shares)
    title, alt = _title_and_alt(x, lost_median, saturated_median, rule)
    return style.apply_style(
        style.figure(data, layout), alt=alt, title=title, subtitle=legend(*map(entry, data[1::2])), height=height
    )


def _curve(x: np.ndarray, part: np.ndarray, name: str, colour: str, dash: str, symbol: str) -> list[dict[str, Any]]:
    hover = f"{name}<br>FL     %{{x}}<br>share  %{{y:.3g}} %"
    seeds, point = traces.marker(symbol, 5, colour, opacity=0.45), traces.marker(symbol, 8, colour)
    line = traces.stroke(colour, 2, dash)
    return [
        traces.points(f"{name}, each seed", np.repeat(x, part.shape[1]), part.ravel(), seeds, hover),
        traces.curve(name, x, np.median(part, axis=1), line, point, hover),
    ]


def _title_and_alt(x: np.ndarray, lost: np.ndarray, saturated: np.ndarray, rule: str) -> tuple[str, str]:
    """Title and alt text."""
    title = f"{rule[:1].upper()}{rule[1:]}: what is lost"
    told = ", ".join(
        f"{number_text.percent(a)} and {number_text.percent(b)} at {int(bits)}"
        for bits, a, b in zip(x, lost, saturated, strict=True)
    )
    return title, f"Updates lost and outputs saturated with rounding {rule}, medians, by fraction bits: {told}."
