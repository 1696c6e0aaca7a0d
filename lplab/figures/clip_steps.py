"""A clip while it is trained: α over the steps, beside where it should end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

STYLES = ((style.GREEN, "solid", 5.0), (style.BLUE, "dash", 2.2), (style.GREY, "dot", 2.2))  # colour, dash, width


def clip_steps(
    curves: Mapping[str, Sequence[float]],
    *,
    steps: int,
    best: float,
    largest: float,
    title: str = "",
    note: str = "",
    height: int = 340,
) -> go.Figure:
    """The clip of trainings over their steps, and lines at the clip with the least error and at the largest element.

    Args:
        curves: at most three: name → α before the first step and after each; an empty one is not started.
        steps: how many there will be: the axis does not move while curves grow.
        best: the clip with the least error.
        largest: the largest magnitude of the tensor.
        title: the point that it makes; by default where the curves are.
        note: a line below the axis.
        height: in pixels.

    Raises:
        ValueError: more than three curves.

    >>> fig = clip_steps({"library": [10.0, 5.0]}, steps=10, best=2.5, largest=6.6)
    >>> fig.layout.meta["title"]
    'After 1 of 10 steps: library α = 5'
    """
    if len(curves) > len(STYLES):
        raise ValueError(f"at most {len(STYLES)} curves can share a figure, got {len(curves)}")
    now = {name: number_text.number(values[-1], digits=3) for name, values in curves.items() if len(values)}
    done = max((len(values) - 1 for values in curves.values()), default=0)
    told = ", ".join(f"{name} α = {value}" for name, value in now.items())
    text = title or (f"After {done} of {steps} steps: {told}" if now else "Not started yet")
    top = 1.12 * max(largest, *(max(values, default=0.0) for values in curves.values()), best)
    lines = [_line(name, values, *look) for (name, values), look in zip(curves.items(), STYLES, strict=False)]
    layout = {
        "xaxis": axes.axis(0, steps, "step" + (f"<br>{note}" if note else "")),
        "yaxis": axes.axis(0, top, "clip α"),
        "shapes": [_level(best), _level(largest)],
    }
    return style.apply_style(
        style.figure([*lines, _ends(best, largest, steps, below=0.02 * top)], layout),
        alt=f"The clip over the steps of a training. {text}. The clip with the least error is "
        f"{number_text.number(best, digits=3)}, the largest element {number_text.number(largest, digits=3)}.",
        title=text,
        subtitle=legend(*map(entry, lines)),
        height=height,
        b=66 if note else 48,
    )


def _line(name: str, values: Sequence[float], colour: str, dash: str, width: float) -> dict[str, Any]:
    x, y = np.arange(len(values)), np.asarray(values, np.float64)
    return traces.line(name, x, y, traces.stroke(colour, width, dash), "{name}<br>step  %{x}<br>α     %{y:.4g}")


def _ends(best: float, largest: float, steps: int, below: float) -> dict[str, Any]:
    """The names of the two levels: that of the best clip at the left, as curves end there at the right."""
    x, y = np.array([0.01 * steps, steps], np.float64), np.array([best, largest]) - below
    return traces.words("levels", x, y, ["least error", "max x"], np.array(["bottom right", "bottom left"]))


def _level(at: float) -> dict[str, Any]:
    line = {"color": style.GREY, "width": 1.2, "dash": "dash"}
    return {"type": "line", "xref": "x domain", "x0": 0, "x1": 1, "yref": "y", "y0": at, "y1": at, "line": line}
