"""The scale of every layer over a training, as an exponent of two, and a student's beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.compare_to_library import where_different
from lplab.figures.legend import entry, legend


def layer_scales(
    scales: Mapping[str, Any],
    yours: Mapping[str, Any] | None = None,
    *,
    steps: Sequence[int] | None = None,
    title: str = "",
    height: int = 340,
) -> go.Figure:
    """log2 of the scale of each layer over the steps: all in grey, the ends of the last step in colour.

    Args:
        scales: positive scales of each layer, [steps], all of one length, at least one layer.
        yours: those of another rule for the same layers, drawn where they differ; what is no positive number leaves a
            gap.
        steps: the numbers of the steps, ascending; by default 0, 1, 2 …
        title: the point that it makes; by default how far apart the layers are, or how often yours agrees.
        height: in pixels.

    Raises:
        ValueError: no layer, layers of different length, or other layers in ``yours``.

    >>> fig = layer_scales({"a": [1, 2, 4, 8], "b": [1, 2, 4, 4]})
    >>> fig.layout.meta["title"]
    'Scales at the last step: 2² to 2³'
    """
    result = {name: _exponents(values) for name, values in scales.items()}
    own = {} if yours is None else {name: _exponents(values) for name, values in yours.items()}
    at = _checked_steps(result, own, steps)
    lowest, highest = min(result, key=lambda n: result[n][-1]), max(result, key=lambda n: result[n][-1])
    every = np.concatenate(list(result.values()))
    apart = {name: where_different(values, result[name]) for name, values in own.items()}
    data = [
        _line("each layer", *_lines_as_one_trace(at, result), style.GREY, "solid", 1.0, opacity=0.6),
        _line(highest, at, result[highest], style.BLUE, "solid", 2.2),
        _line(lowest, at, result[lowest], style.VERMILION, "dash", 2.2),
        _line("yours", *_lines_as_one_trace(at, apart), style.PINK, "dot", 2.2, visible=bool(own)),
    ]
    others, first, last, own_ones = data
    entries = [entry(first), entry(last), entry(others, "the other layers", "─")]
    entries += [entry(own_ones, "yours, where it differs")] if own else []
    ends = [number_text.raised(number_text.power(float(result[name][-1]), plain=True)) for name in (lowest, highest)]
    ends_at = f"Scales at the last step: {ends[0]} to {ends[1]}"
    equal = sum(int((own[name] == result[name]).sum()) for name in own)
    text = title or (f"Yours agrees at {equal:,} of {every.size:,} scales" if own else ends_at)
    more = f" {ends_at}." if text != ends_at else ""
    layout = {
        "xaxis": axes.axis(0, max(int(at[-1]), 1), "step"),
        "yaxis": axes.power_axis(*_ends(every), "scale (powers of two)"),
    }
    return style.apply_style(
        style.figure(data, layout),
        alt=f"The scales of {len(result)} layers over {len(at)} steps. {text}.{more} The lowest is that of "
        f"{lowest}, the highest that of {highest}.",
        title=text,
        subtitle=legend(*entries),
        height=height,
        t=66,
    )


def _checked_steps(
    numbers: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray], steps: Sequence[int] | None
) -> np.ndarray:
    """The numbers of the steps."""
    shape, *others = {values.shape for values in (*numbers.values(), *own.values())} or {(0,)}
    if others or shape == (0,) or (own and own.keys() != numbers.keys()):
        raise ValueError("scales must be one sequence for each layer, all of one length, and yours the same layers")
    at = np.arange(*shape) if steps is None else np.asarray(steps)
    if at.shape != shape:
        raise ValueError(f"steps must be one number for each scale of a layer, got {at.shape}")
    return at


def _exponents(values: Any) -> np.ndarray:
    x = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore"):
        return np.log2(np.where((x > 0) & np.isfinite(x), x, np.nan))


def _lines_as_one_trace(steps: np.ndarray, lines: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """All lines as one trace: sixty traces would take a browser twice as long."""
    return traces.joined([steps.astype(np.float64) for _ in lines]), traces.joined(list(lines.values()))


def _ends(exponents: np.ndarray) -> tuple[float, float]:
    """The ends of an axis with one power of two to spare at each end."""
    return float(np.floor(exponents.min())) - 1, float(np.ceil(exponents.max())) + 1


def _line(name: str, x: np.ndarray, y: np.ndarray, colour: str, dash: str, width: float, **more: Any) -> dict[str, Any]:
    look = traces.stroke(colour, width, dash, shape="hv")
    return traces.line(name, x, y, look, "{name}<br>step   %{x}<br>scale  2<sup>%{y}</sup>", **more)
