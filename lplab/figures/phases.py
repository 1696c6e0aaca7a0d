"""Both phases of radix-4 FP4 over all magnitudes: what is left of a number after rounding, and of the mean of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.compare_to_library import agreement, compare_to_library
from lplab.figures.legend import entry, legend
from lplab.quantizers import two_phase

OCTAVES = (-9.0, 7.0)


def phases(yours: tuple[Any, Any, Any] | None = None, *, title: str = "", height: int = 360) -> go.Figure:
    """The result of rounding as a multiple of the number, against its magnitude, in the even and in the odd phase.

    Args:
        yours: positive numbers, and what somebody made of them in the even and in the odd phase, 1-d arrays of equal
            length, at most 250 numbers: circles where they are the library's, crosses where not.
        title: the point that it makes; by default what share of yours agrees.
        height: in pixels.

    Raises:
        ValueError: arrays of different length.

    >>> phases((np.array([0.7, 3.0]), np.array([1.0, 4.0]), np.array([0.5, 4.0]))).layout.meta["title"]
    'Yours agrees at 3 of 4 points'
    """
    steps = np.exp2(np.linspace(*OCTAVES, 3201))
    even, odd = two_phase(steps)
    data = [
        _saw("unchanged", steps, steps, style.GREEN, "dot", 1.2),
        _saw("mean of both", steps, (even + odd) / 2, style.GREY, "solid", 1.4),
        _saw("even, for dx", steps, even, style.BLUE, "solid", 2.2),
        _saw("odd, for dW", steps, odd, style.VERMILION, "dash", 2.2),
    ]
    x, own_even, own_odd = (np.asarray(part, np.float64).ravel() for part in yours or ((), (), ()))
    if not x.shape == own_even.shape == own_odd.shape:
        raise ValueError(
            f"numbers and both results must be of one length, got {len(x)}, {len(own_even)}, {len(own_odd)}"
        )
    right = two_phase(x) if len(x) else (x, x)
    before, after = np.concatenate([x, x]), np.concatenate([own_even, own_odd])
    same = np.concatenate([own_even == right[0], own_odd == right[1]])
    ring, cross = (traces.marker(symbol, 8, style.PINK, 1.6) for symbol in ("circle-open", "x"))
    hover = "{name}<br>before  %{customdata[0]:.5g}<br>after   %{customdata[1]:.5g}"
    y, numbers = np.clip(after / before, 0, 1.7), np.stack([before, after], axis=1)
    data += compare_to_library(np.log2(before), y, same, ring, cross, hover, customdata=numbers)
    agrees = agreement(same, "points").capitalize()
    text = title or (agrees if len(x) else "Where one phase rounds up, the other often rounds down")
    _, mean, for_dx, for_dw, alike, different = data
    entries = [entry(for_dx), entry(for_dw), entry(mean, "mean", "─")]
    entries += [entry(alike), entry(different, "different")] if len(x) else []
    low, high = OCTAVES
    layout = {
        "xaxis": axes.power_axis(low, high, "magnitude before rounding"),
        "yaxis": axes.axis(-0.08, 1.75, "rounded ÷ number", nticks=8),
    }
    return style.apply_style(
        style.figure(data, layout),
        alt="The result of rounding as a multiple of the number: a sawtooth from 1.6 to 0.4 every two octaves for the "
        f"even phase of radix-4 FP4, one shifted by an octave for the odd phase, 1.2 to 0.6 for their mean. {text}.",
        title=text,
        subtitle=legend(*entries),
        height=height,
        t=66,
    )


def _saw(name: str, x: np.ndarray, y: np.ndarray, colour: str, dash: str, width: float) -> dict[str, Any]:
    return traces.line(name, np.log2(x), y / x, traces.stroke(colour, width, dash))
