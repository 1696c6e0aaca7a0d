"""A loss scale over the steps of a training: how it is found by trial, and which steps that cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

_COLOURS = (style.PINK, style.BLUE)
_DASHES = ("solid", "dash")


@dataclass(frozen=True)
class LossScaleHistory:
    """The loss scales of a training so far.

    Args:
        name: as the legend of the figure calls it.
        scales: positive, of each step, [n].
        skipped: whether the step was left out, [n].

    Raises:
        ValueError: lengths that differ, or a scale that is not positive and finite.
    """

    name: str
    scales: Sequence[float]
    skipped: Sequence[bool]

    def __post_init__(self) -> None:
        scales = np.asarray(self.scales, np.float64)
        if scales.ndim != 1 or len(scales) != len(self.skipped) or not (np.isfinite(scales) & (scales > 0)).all():
            raise ValueError(f"{self.name}: scales must be positive numbers, one for each step")


def loss_scale_history(histories: Sequence[LossScaleHistory], *, steps: int, height: int = 320) -> go.Figure:
    """log2 of the loss scale over the steps, up to two trainings; a cross for each step that was left out.

    Args:
        histories: one or two.
        steps: how many there will be: the axis does not move while curves grow.
        height: in pixels.

    Raises:
        ValueError: no history, or more than two.

    >>> fig = loss_scale_history([LossScaleHistory("library", [8.0, 4.0, 4.0], [True, False, False])], steps=10)
    >>> fig.layout.meta["title"]
    'Loss scale after 3 of 10 steps'
    """
    if not 1 <= len(histories) <= len(_COLOURS):
        raise ValueError(f"one or two histories share a figure, got {len(histories)}")
    done = max(len(history.scales) for history in histories)
    text = f"Loss scale after {done} of {steps} steps" if done else "Not started yet"
    told = "; ".join(_text(history) for history in histories)
    data = []
    for history, colour, dash in zip(histories, _COLOURS, _DASHES, strict=False):
        data += [_line(history, colour, dash), _crosses(history, colour)]
    layout = {
        "xaxis": axes.axis(0, steps + 0.5, "step"),
        "yaxis": axes.axis(-0.5, 26, "loss scale (powers of two)", **axes.ticks(*axes.power_ticks(0, 26))),
    }
    entries = map(entry, data[::2], map(_text, histories))
    return style.apply_style(
        style.figure(data, layout),
        alt=f"{text}: {told}." if done else "Loss scale of a training: not started yet.",
        title=text,
        subtitle=legend(*entries) + f"<br>{legend((style.GREY, '✕', 'step left out'))}",
        height=height,
        t=82,
    )


def _text(history: LossScaleHistory) -> str:
    if not len(history.scales):
        return history.name
    count, now = sum(history.skipped), float(np.log2(history.scales[-1]))
    power = number_text.raised(number_text.power(now, plain=True))
    return f"{history.name} {power}, {count} step{'s' * (count != 1)} left out"


def _line(history: LossScaleHistory, colour: str, dash: str) -> dict[str, Any]:
    x, y = np.arange(1, len(history.scales) + 1), np.log2(np.asarray(history.scales, np.float64))
    look = traces.stroke(colour, 2, dash, shape="hv")
    return traces.line(history.name, x, y, look, "{name}<br>step   %{x}<br>scale  2<sup>%{y:.3g}</sup>")


def _crosses(history: LossScaleHistory, colour: str) -> dict[str, Any]:
    at = np.flatnonzero(np.asarray(history.skipped, bool))
    y, look = np.log2(np.asarray(history.scales, np.float64)[at]), traces.marker("x", 9, colour)
    hover = "step %{x} left out: a gradient was not finite"
    return traces.points(f"{history.name}: left out", at + 1, y, look, hover)
