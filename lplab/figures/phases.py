"""Both phases of radix-4 FP4 over all magnitudes: two staircases that take turns, and their mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import style
from lplab.quantizers import two_phase

OCTAVES = (-9.0, 7.0)


def phases(yours: tuple[Any, Any, Any] | None = None, *, title: str = "", height: int = 360) -> go.Figure:
    """log2 of the rounded magnitude against log2 of the magnitude, in the even and in the odd phase.

    Args:
        yours: positive numbers and what somebody made of them in the even and in the odd phase, 1-d arrays of equal
            length, at most 250 numbers: circles where they are the library's, crosses where not.
        title: the point that it makes; by default what share of yours agrees.
        height: in pixels.

    Raises:
        ValueError: arrays of different length.

    >>> phases((np.array([0.7, 3.0]), np.array([1.0, 4.0]), np.array([0.5, 4.0]))).layout.meta["title"]
    'Yours agrees at 3 of 4 points'
    """
    steps = np.exp2(np.linspace(*OCTAVES, 1601))
    even, odd = two_phase(steps)
    data = [
        _stairs("unchanged", steps, steps, style.GREEN, "dot", 1.2),
        _stairs("mean of both", steps, (even + odd) / 2, style.GREY, "solid", 1.4),
        _stairs("even, for dx", steps, even, style.BLUE, "solid", 2.2),
        _stairs("odd, for dW", steps, odd, style.VERMILION, "dash", 2.2),
    ]
    x, own_even, own_odd = (np.asarray(part, np.float64).ravel() for part in yours or ((), (), ()))
    if not x.shape == own_even.shape == own_odd.shape:
        raise ValueError(
            f"numbers and both results must be of one length, got {len(x)}, {len(own_even)}, {len(own_odd)}"
        )
    right = two_phase(x) if len(x) else (x, x)
    points = np.concatenate([x, x]), np.concatenate([own_even, own_odd])
    same = np.concatenate([own_even == right[0], own_odd == right[1]])
    data += [_points("yours, the same", *points, same, "circle-open"), _points("yours, different", *points, ~same, "x")]
    agrees = f"Yours agrees at {int(same.sum())} of {len(same)} points"
    said = title or (agrees if len(x) else "Where one phase rounds up, the other often rounds down")
    entries = [(style.BLUE, "━", "even, for dx"), (style.VERMILION, "╍", "odd, for dW"), (style.GREY, "─", "mean")]
    entries += [(style.PINK, "○", "yours, the same"), (style.PINK, "×", "different")] if len(x) else []
    low, high = OCTAVES
    layout = {
        "xaxis": style.power_axis(low, high, "magnitude before rounding"),
        "yaxis": style.power_axis(low, high, "after rounding"),
    }
    return style.finish(
        style.figure(data, layout),
        alt="Staircases of the even and the odd phase of radix-4 FP4: steps of two octaves, an octave apart. Their "
        f"mean has a step in every octave. {said}.",
        title=said,
        subtitle=style.key(*entries),
        height=height,
        t=66,
    )


def _log2(values: np.ndarray) -> np.ndarray:
    """Exponents; what is not positive leaves a gap."""
    with np.errstate(invalid="ignore"):
        return np.log2(np.where((values > 0) & np.isfinite(values), values, np.nan))


def _stairs(name: str, x: np.ndarray, y: np.ndarray, colour: str, dash: str, width: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": _log2(x),
        "y": _log2(y),
        "line": {"color": colour, "dash": dash, "width": width},
        "hoverinfo": "skip",
    }


def _points(name: str, x: np.ndarray, y: np.ndarray, shown: np.ndarray, symbol: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": _log2(x[shown]),
        "y": _log2(y[shown]),
        "marker": {"symbol": symbol, "size": 8, "color": style.PINK, "line": {"width": 1.6, "color": style.PINK}},
        "customdata": np.stack([x[shown], y[shown]], axis=1),
        "hovertemplate": f"{name}<br>before  %{{customdata[0]:.5g}}<br>after   %{{customdata[1]:.5g}}<extra></extra>",
    }
