"""Gradient compression over a training: the share of each layer that is sent, and its residual (AdaComp: residue)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import style

MAX_LAYERS = len(style.COLOURS)
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
    height: int = 480,
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
    text = title or _now(histories[chosen], steps)
    each = "; ".join(f"{c.name}: {_numbers(c, -1)}" for c in histories if len(c.steps))
    entries = [(style.COLOURS[i], style.DASH_SIGNS[i], history.name) for i, history in enumerate(histories)]
    return style.apply_style(
        style.figure([*data, *mark], _layout(steps)),
        alt=f"Share sent and residual of {len(histories)} layers over {steps} steps. At the end: {each}."
        if each
        else "Share sent and residual of each layer: not started yet.",
        title=text,
        subtitle="<br>".join(style.legend(*entries[i : i + 2]) for i in range(0, len(entries), 2)),
        height=height,
        t=82,
        r=20,
    )


def _now(history: SentHistory, steps: int) -> str:
    if not len(history.steps):
        return "Not started yet"
    return f"Step {history.steps[-1]:.0f} of {steps}: {history.name} {_numbers(history, -1)}"


def _numbers(history: SentHistory, at: int) -> str:
    return f"sends {number_text.percent(history.sent[at])}, holds back {history.residual[at]:.1f} gradients"


def _line(history: SentHistory, i: int, chosen: bool, lower: bool) -> dict[str, Any]:
    low, high = RESIDUAL if lower else SHARES
    y = history.residual if lower else history.sent
    what = "residual  %{customdata:.2f} gradients" if lower else "sent  %{customdata:.2%}"
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{history.name}, {'residual' if lower else 'sent'}",
        "x": history.steps,
        "y": np.clip(y, low, high),
        "yaxis": "y2" if lower else "y",
        "customdata": y,
        "line": {"width": 3.2 if chosen else 1.3, "color": style.COLOURS[i], "dash": style.DASHES[i]},
        "opacity": 1.0 if chosen else 0.75,
        "hovertemplate": f"{history.name}<br>step  %{{x}}<br>{what}<extra></extra>",
    }


def _mark(at: float | None) -> list[dict[str, Any]]:
    """A line through both panels where a step is looked at: two traces, as shapes cost a browser more."""
    x = np.empty(0) if at is None else np.array([at, at], np.float64)
    trace_style = {"type": "scatter", "mode": "lines", "line": {"width": 1.4, "color": style.GREY, "dash": "dash"}}
    ends = {"y": np.array(SHARES)[: len(x)]}, {"y": np.array(RESIDUAL)[: len(x)], "yaxis": "y2"}
    return [
        trace_style | {"name": "step", "x": x, "hoverinfo": "skip", "visible": at is not None} | end for end in ends
    ]


def _layout(steps: int) -> dict[str, Any]:
    shares, residuals = np.array([1e-4, 1e-3, 0.01, 0.1, 1.0]), np.array([0.3, 1.0, 3.0, 10.0, 30.0])
    upper, lower = (np.log10(ends).tolist() for ends in (SHARES, RESIDUAL))
    return {
        "xaxis": {"range": [0, steps], "title": {"text": "step"}, "anchor": "y2"},
        "yaxis": {"type": "log", "range": upper, "domain": [_SPLIT[0], 1], "title": {"text": "sent (%)"}}
        | {"tickvals": shares, "ticktext": np.array([f"{100 * share:g}" for share in shares])},
        "yaxis2": {"type": "log", "range": lower, "domain": [0, _SPLIT[1]]}
        | {
            "title": {"text": "residual (gradients)"},
            "tickvals": residuals,
            "ticktext": np.array([f"{h:g}" for h in residuals]),
        },
    }
