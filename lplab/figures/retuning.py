"""Test errors of a network in several formats: rounded as it is, its batch norms tuned anew, trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.compare_to_library import compare_to_library
from lplab.figures.legend import entry, legend

MIN_ERROR = 0.5  # percent: the left end of the logarithmic axis; smaller errors are drawn there
_HOVER = "{name}<br>error  %{customdata:.4g} %"


def retuned_errors(
    labels: Sequence[str],
    direct: Any,
    retuned: Any,
    float32: float,
    yours: Any = None,
    *,
    retrained: Any = None,
    height: int = 300,
) -> go.Figure:
    """A row for each format: the test error as it is, re-tuned and trained on, beside that of the float32 network.

    Args:
        labels: of the formats.
        direct, retuned: test errors in percent, rounded as it is and with batch norms tuned anew, [formats]. NaN for
            formats that are not computed yet; they come last.
        float32: the error of the network that is not rounded.
        yours: the errors with statistics of another function, [formats].
        retrained: the errors after the rounded network was trained on, [formats].
        height: in pixels.

    Raises:
        ValueError: no formats, or numbers that are not as many as they.

    >>> retuned_errors(["1-5-2", "int4"], [3.0, 23.4], [2.5, 8.6], 1.3).layout.meta["title"]
    'int4: 23.4 % wrong, re-tuned 8.6 %, float32 1.3 %'
    """
    count = len(labels)
    before, after = np.asarray(direct, np.float64), np.asarray(retuned, np.float64)
    own, on = (np.full(count, np.nan) if e is None else np.asarray(e, np.float64) for e in (yours, retrained))
    if not count or not before.shape == after.shape == own.shape == on.shape == (count,):
        shapes = ", ".join(str(x.shape) for x in (before, after, own, on))
        raise ValueError(f"one number for each of {count} formats is needed, at least one; got shapes {shapes}")
    agree = own == after
    done = int(np.isfinite(before).sum())
    last = done - 1
    # One line has no more room.
    end = f"float32 {float32:.1f} %" if retrained is None else f"retrained {on[last]:.1f} %"
    text = f"{labels[last]}: {before[last]:.1f} % wrong, re-tuned {after[last]:.1f} %, {end}" if done else "Nothing yet"
    text += f"; yours agrees in {agree.sum()} of {done}" if yours is not None and done else ""
    y = np.arange(count, dtype=np.float64)
    base = np.full(2, np.log10(max(float32, MIN_ERROR)))
    is_finite = np.isfinite(own)
    ring, cross = traces.marker("circle-open", 17, style.VERMILION, 2), traces.marker("x-thin", 13, style.VERMILION, 2)
    data = [
        traces.reference("float32", base, np.array([-0.6, count - 0.4]), style.GREEN, "dash"),
        _dots("as it is", before, y, "square", style.VERMILION, 10),
        _dots("re-tuned", after, y, "circle", style.BLUE, 10),
        *compare_to_library(
            _place(own[is_finite]), y[is_finite], agree[is_finite], ring, cross, _HOVER, customdata=own[is_finite]
        ),
        _dots("retrained", on, y, "diamond", style.PINK, 9),
    ]
    entries = [entry(data[1]), entry(data[2]), entry(data[0])]
    entries += [entry(data[5])] if retrained is not None else []
    entries += [entry(data[3]), entry(data[4], "different")] if yours is not None else []
    told = "; ".join(
        f"{n} {d:.1f} %, re-tuned {r:.1f} %" + (f", retrained {t:.1f} %" if np.isfinite(t) else "")
        for n, d, r, t in list(zip(labels, before, after, on, strict=True))[:done]
    )
    tested = f"Test errors in {done} formats: {told}; float32 {float32:.1f} %." if done else "Test errors, none yet."
    return style.apply_style(
        style.figure(data, _layout(labels)),
        alt=f"{tested} {text}.",
        title=text,
        subtitle=legend(*entries),
        height=height,
        l=90,
    )


def _layout(labels: Sequence[str]) -> dict[str, Any]:
    rows = len(labels)
    errors = np.array([0.5, 1, 2, 5, 10, 20, 50, 100])
    ticks = axes.ticks(np.log10(errors), map("{:g}".format, errors))
    return {
        "xaxis": axes.axis(np.log10(MIN_ERROR) - 0.08, 2.05, "test error (%)", **ticks),
        "yaxis": {"range": [rows - 0.4, -0.6]} | axes.ticks(np.arange(rows, dtype=np.float64), labels),
    }


def _place(errors: np.ndarray) -> np.ndarray:
    """Where errors are drawn."""
    return np.log10(np.maximum(errors, MIN_ERROR))


def _dots(name: str, errors: np.ndarray, y: np.ndarray, symbol: str, colour: str, size: int) -> dict[str, Any]:
    is_finite, look = np.isfinite(errors), traces.marker(symbol, size, colour, 2)
    return traces.points(name, _place(errors[is_finite]), y[is_finite], look, _HOVER, customdata=errors[is_finite])
