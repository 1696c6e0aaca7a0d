"""Gradient compression over a training: the share of each layer that is sent, and its residual (AdaComp: residue)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

MAX_LAYERS = len(style.SERIES)
SHARES = 1e-4, 1.5  # the ends of both axes, fixed: a control that moves them would hide what it does
RESIDUAL = 0.3, 60.0
_SPLIT = 0.54, 0.46


@dataclass(frozen=True, eq=False)
class SentHistory:
    """One layer so far.

    Args:
        name: as the legend of the figure calls it.
        steps: ascending, [n].
        sent: share of its elements that is sent, 0 to 1, [n].
        residual: length of the residual over that of the gradient, [n].

    Raises:
        ValueError: lengths that differ, or a share that is none.
    """

    name: str
    steps: Any
    sent: Any
    residual: Any

    def __post_init__(self) -> None:
        for name in ("steps", "sent", "residual"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))
        if self.steps.ndim != 1 or not self.steps.shape == self.sent.shape == self.residual.shape:
            raise ValueError(f"{self.name}: steps, sent and residual must be of one length")
        if not ((self.sent >= 0) & (self.sent <= 1)).all():
            raise ValueError(f"{self.name}: a share that is sent lies between 0 and 1")


def sent_and_kept(
    histories: Sequence[SentHistory],
    *,
    steps: int,
    chosen: int = 0,
    at: float | None = None,
    title: str = "",
    height: int = 500,
) -> go.Figure:
    """What is sent of each layer above, what stays in its residual below, over the steps of a training.

    Args:
        histories: one to four layers.
        steps: how many there will be: the axis does not move while curves grow.
        chosen: the layer that is drawn thick.
        at: the step to mark.
        title: the point that it makes; by default how far the training is.
        height: in pixels.

    Raises:
        ValueError: no layer, more than four, or a chosen one that does not exist.

    >>> fig = sent_and_kept([SentHistory("dense", [0, 1], [0.1, 0.01], [1.0, 3.0])], steps=10)
    >>> fig.layout.meta["title"]
    'Step 1 of 10: dense sends 1.0 %, holds back 3.0 gradients'
    """
    if not 1 <= len(histories) <= MAX_LAYERS:
        raise ValueError(f"one to {MAX_LAYERS} layers share a figure, got {len(histories)}")
    if not 0 <= chosen < len(histories):
        raise ValueError(f"chosen must be a layer from 0 to {len(histories) - 1}, got {chosen}")
    mark = _mark(at)
    data = [_line(history, i, i == chosen, lower) for lower in (False, True) for i, history in enumerate(histories)]
    text = title or _last_step_text(histories[chosen], steps)
    told = "; ".join(f"{c.name}: {_numbers(c, -1)}" for c in histories if len(c.steps))
    entries = [entry(line, history.name) for line, history in zip(data, histories, strict=False)]
    return style.apply_style(
        style.figure([*data, *mark], _layout(steps)),
        alt=f"Share sent and residual of {len(histories)} layers over {steps} steps. At the end: {told}."
        if told
        else "Share sent and residual of each layer: not started yet.",
        title=text,
        subtitle=legend(*entries, per_line=2),
        height=height,
        t=82,
        r=20,
    )


def _last_step_text(history: SentHistory, steps: int) -> str:
    if not len(history.steps):
        return "Not started yet"
    return f"Step {history.steps[-1]:.0f} of {steps}: {history.name} {_numbers(history, -1)}"


def _numbers(history: SentHistory, at: int) -> str:
    return f"sends {number_text.percent(history.sent[at])}, holds back {history.residual[at]:.1f} gradients"


def _line(history: SentHistory, i: int, chosen: bool, lower: bool) -> dict[str, Any]:
    low, high = RESIDUAL if lower else SHARES
    y = history.residual if lower else history.sent
    what = "residual  %{customdata:.2f} gradients" if lower else "sent  %{customdata:.2%}"
    colour, dash, _ = style.SERIES[i]
    return traces.line(
        f"{history.name}, {'residual' if lower else 'sent'}",
        history.steps,
        np.clip(y, low, high),
        traces.stroke(colour, 3.2 if chosen else 1.3, dash, simplify=False),
        f"{history.name}<br>step  %{{x}}<br>{what}",
        yaxis="y2" if lower else "y",
        customdata=y,
        opacity=1.0 if chosen else 0.75,
    )


def _mark(at: float | None) -> list[dict[str, Any]]:
    """A line through both panels where a step is looked at: two traces, as shapes cost a browser more."""
    x = np.empty(0) if at is None else np.array([at, at], np.float64)
    look, is_visible = traces.stroke(style.GREY, 1.4, "dash", simplify=False), at is not None
    return [
        traces.line("step", x, np.array(SHARES)[: len(x)], look, visible=is_visible),
        traces.line("step", x, np.array(RESIDUAL)[: len(x)], look, visible=is_visible, yaxis="y2"),
    ]


def _layout(steps: int) -> dict[str, Any]:
    shares, residuals = np.array([1e-4, 1e-3, 0.01, 0.1, 1.0]), np.array([0.3, 1.0, 3.0, 10.0, 30.0])
    (lowest, highest), (least, most) = np.log10([SHARES, RESIDUAL]).tolist()
    percents = axes.ticks(shares, [f"{100 * share:g}" for share in shares])
    gradients = axes.ticks(residuals, map("{:g}".format, residuals))
    return {
        "xaxis": axes.axis(0, steps, "step", anchor="y2"),
        "yaxis": axes.axis(lowest, highest, "sent (%)", type="log", domain=[_SPLIT[0], 1], **percents),
        "yaxis2": axes.axis(least, most, "residual (gradients)", type="log", domain=[0, _SPLIT[1]], **gradients),
    }
