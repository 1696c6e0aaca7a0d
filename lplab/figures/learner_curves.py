"""Trainings by many learners while they run: the loss, and the bytes that all learners have sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend
from lplab.figures.many_learners import bytes_unit, bytes_word
from lplab.figures.stacked import stacked
from lplab.figures.step_losses import LossCurve, loss_curves

_LEFT = 84  # pixels left of the plot: room for "400 MB" and the axis's title


@dataclass(frozen=True)
class LearnerCurve:
    """A training by several learners so far.

    Args:
        name: as the legend of the figure calls it.
        losses: mean of the learners, one for each step, [n].
        sent_bytes: by all learners together, one for each step, [n].

    Raises:
        ValueError: lengths that differ.
    """

    name: str
    losses: Sequence[float]
    sent_bytes: Sequence[int]

    def __post_init__(self) -> None:
        if len(self.losses) != len(self.sent_bytes):
            raise ValueError(f"{self.name}: {len(self.losses)} losses, but {len(self.sent_bytes)} numbers of bytes")


def learner_runs(
    curves: Sequence[LearnerCurve], *, steps: int, loss_range: tuple[float, float] | None = None
) -> go.Figure:
    """Losses above, bytes sent so far below, over the steps.

    Args:
        curves: one to four.
        steps: how many there will be.
        loss_range: ends of the loss axis; by default from 0 to a little above the first losses.

    Raises:
        ValueError: no curve, or more than four.

    >>> fig = learner_runs([LearnerCurve("ScaleCom", [2.3, 2.2], [480, 480])], steps=10)
    >>> fig.layout.meta["alt"]
    'Training loss after 2 of 10 steps: ScaleCom 2.20 nats. Sent by all learners: ScaleCom 960 B.'
    """
    if not 1 <= len(curves) <= len(style.SERIES_BESIDE_GREEN):
        raise ValueError(f"one to {len(style.SERIES_BESIDE_GREEN)} runs share a figure, got {len(curves)}")
    losses = loss_curves(
        [LossCurve(curve.name, _finite(curve.losses)) for curve in curves],
        steps=steps,
        loss_range=loss_range,
        height=300,
    )
    return stacked([losses, _sent_bytes_figure(curves, steps)], left=_LEFT)


def _finite(losses: Sequence[float]) -> np.ndarray:
    """The losses up to the first that is not a number: later ones would leave the axis."""
    values = np.asarray(losses, np.float64)
    good = np.isfinite(values)
    return values if good.all() else values[: int(np.argmin(good))]


def _sent_bytes_figure(curves: Sequence[LearnerCurve], steps: int) -> go.Figure:
    sums = [np.cumsum(np.asarray(curve.sent_bytes, np.float64)) for curve in curves]
    now = [f"{curve.name} {bytes_word(total[-1])}" for curve, total in zip(curves, sums, strict=True) if len(total)]
    top = 1.08 * max((total[-1] / len(total) * steps for total in sums if len(total)), default=1000.0)
    size, unit = bytes_unit(top)
    data = []
    for curve, total, (colour, dash, _) in zip(curves, sums, style.SERIES_BESIDE_GREEN, strict=False):
        hover = f"{curve.name}<br>step  %{{x}}<br>sent  %{{y:,.4~g}} {unit}"
        steps_done, look = np.arange(1, len(total) + 1), traces.stroke(colour, 2, dash)
        data.append(traces.line(f"{curve.name}: sent", steps_done, total / size, look, hover))
    layout = {
        "xaxis": axes.axis(0, steps + 0.5, "step"),
        "yaxis": axes.axis(0, top / size, "sent", ticksuffix=f" {unit}"),
    }
    message = "Sent by all learners"
    entries = map(entry, [trace for trace in data if len(trace["x"])], now)
    return style.apply_style(
        style.figure(data, layout),
        alt=f"{message}: {', '.join(now)}." if now else f"{message}: nothing yet.",
        title=message,
        subtitle=legend(*entries) or "nothing yet",
        height=230,
    )
