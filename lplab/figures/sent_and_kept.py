"""Gradient compression over a training: the share of each layer that is sent, and what its residue holds back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import style, words

MOST = len(style.COLOURS)
SHARES = 1e-4, 1.5  # the ends of both axes, fixed: a control that moves them would hide what it does
HELD = 0.3, 60.0
_SPLIT = 0.54, 0.46


@dataclass(frozen=True, eq=False)
class SentCourse:
    """One layer so far.

    Args:
        name: as the key of the figure calls it.
        steps: ascending, [n].
        sent: share of its elements that is sent, 0 to 1, [n].
        held: length of the residue over that of the gradient, [n].

    Raises:
        ValueError: lengths that differ, or a share that is none.
    """

    name: str
    steps: Any
    sent: Any
    held: Any

    def __post_init__(self) -> None:
        for name in ("steps", "sent", "held"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))
        if self.steps.ndim != 1 or not self.steps.shape == self.sent.shape == self.held.shape:
            raise ValueError(f"{self.name}: steps, sent and held must be of one length")
        if not ((self.sent >= 0) & (self.sent <= 1)).all():
            raise ValueError(f"{self.name}: a share that is sent lies between 0 and 1")


def sent_and_kept(
    courses: Sequence[SentCourse],
    *,
    steps: int,
    chosen: int = 0,
    at: float | None = None,
    title: str = "",
    height: int = 480,
) -> go.Figure:
    """What is sent of each layer above, what stays in its residue below, over the steps of a training.

    Args:
        courses: one to four layers.
        steps: how many there will be: the axis does not move while curves grow.
        chosen: the layer that is drawn thick.
        at: the step to mark.
        title: the point that it makes; by default how far the training is.
        height: in pixels.

    Raises:
        ValueError: no layer, more than four, or a chosen one that does not exist.

    >>> fig = sent_and_kept([SentCourse("dense", [0, 1], [0.1, 0.01], [1.0, 3.0])], steps=10)
    >>> fig.layout.meta["title"]
    'Step 1 of 10: dense sends 1.0 %, holds back 3.0 gradients'
    """
    if not 1 <= len(courses) <= MOST:
        raise ValueError(f"one to {MOST} layers share a figure, got {len(courses)}")
    if not 0 <= chosen < len(courses):
        raise ValueError(f"chosen must be a layer from 0 to {len(courses) - 1}, got {chosen}")
    mark = _mark(at)
    data = [_line(course, i, i == chosen, lower) for lower in (False, True) for i, course in enumerate(courses)]
    said = title or _now(courses[chosen], steps)
    each = "; ".join(f"{c.name}: {_numbers(c, -1)}" for c in courses if len(c.steps))
    entries = [(style.COLOURS[i], style.DASH_SIGNS[i], course.name) for i, course in enumerate(courses)]
    return style.finish(
        style.figure([*data, *mark], _layout(steps)),
        alt=f"Share sent and residue of {len(courses)} layers over {steps} steps. At the end: {each}."
        if each
        else "Share sent and residue of each layer: not started yet.",
        title=said,
        subtitle="<br>".join(style.key(*entries[i : i + 2]) for i in range(0, len(entries), 2)),
        height=height,
        t=82,
        r=20,
    )


def _now(course: SentCourse, steps: int) -> str:
    if not len(course.steps):
        return "Not started yet"
    return f"Step {course.steps[-1]:.0f} of {steps}: {course.name} {_numbers(course, -1)}"


def _numbers(course: SentCourse, at: int) -> str:
    return f"sends {words.percent(course.sent[at])}, holds back {course.held[at]:.1f} gradients"


def _line(course: SentCourse, i: int, chosen: bool, lower: bool) -> dict[str, Any]:
    low, high = HELD if lower else SHARES
    y = course.held if lower else course.sent
    what = "residue  %{customdata:.2f} gradients" if lower else "sent  %{customdata:.2%}"
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{course.name}, {'residue' if lower else 'sent'}",
        "x": course.steps,
        "y": np.clip(y, low, high),
        "yaxis": "y2" if lower else "y",
        "customdata": y,
        "line": {"width": 3.2 if chosen else 1.3, "color": style.COLOURS[i], "dash": style.DASHES[i]},
        "opacity": 1.0 if chosen else 0.75,
        "hovertemplate": f"{course.name}<br>step  %{{x}}<br>{what}<extra></extra>",
    }


def _mark(at: float | None) -> list[dict[str, Any]]:
    """A line through both panels where a step is looked at: two traces, as shapes cost a browser more."""
    x = np.empty(0) if at is None else np.array([at, at], np.float64)
    look = {"type": "scatter", "mode": "lines", "line": {"width": 1.4, "color": style.GREY, "dash": "dash"}}
    ends = {"y": np.array(SHARES)[: len(x)]}, {"y": np.array(HELD)[: len(x)], "yaxis": "y2"}
    return [look | {"name": "step", "x": x, "hoverinfo": "skip", "visible": at is not None} | end for end in ends]


def _layout(steps: int) -> dict[str, Any]:
    shares, held = np.array([1e-4, 1e-3, 0.01, 0.1, 1.0]), np.array([0.3, 1.0, 3.0, 10.0, 30.0])
    upper, lower = (np.log10(ends).tolist() for ends in (SHARES, HELD))
    return {
        "xaxis": {"range": [0, steps], "title": {"text": "step"}, "anchor": "y2"},
        "yaxis": {"type": "log", "range": upper, "domain": [_SPLIT[0], 1], "title": {"text": "sent (%)"}}
        | {"tickvals": shares, "ticktext": np.array([f"{100 * share:g}" for share in shares])},
        "yaxis2": {"type": "log", "range": lower, "domain": [0, _SPLIT[1]]}
        | {"title": {"text": "residue (gradients)"}, "tickvals": held, "ticktext": np.array([f"{h:g}" for h in held])},
    }
