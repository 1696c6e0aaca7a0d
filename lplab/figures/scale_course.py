"""A loss scale over the steps of a training: how it is found by trial, and which steps that cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import style, words

_COLOURS = (style.PINK, style.BLUE)
_DASHES = ("solid", "dash")


@dataclass(frozen=True)
class ScaleCourse:
    """The loss scales of a training so far.

    Args:
        name: as the key of the figure calls it.
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


def scale_course(courses: Sequence[ScaleCourse], *, steps: int, height: int = 320) -> go.Figure:
    """log2 of the loss scale over the steps, up to two trainings; a cross for each step that was left out.

    Args:
        courses: one or two.
        steps: how many there will be: the axis does not move while curves grow.
        height: in pixels.

    Raises:
        ValueError: no course, or more than two.

    >>> fig = scale_course([ScaleCourse("library", [8.0, 4.0, 4.0], [True, False, False])], steps=10)
    >>> fig.layout.meta["title"]
    'Loss scale after 3 of 10 steps'
    """
    if not 1 <= len(courses) <= len(_COLOURS):
        raise ValueError(f"one or two courses share a figure, got {len(courses)}")
    done = max(len(course.scales) for course in courses)
    said = f"Loss scale after {done} of {steps} steps" if done else "Not started yet"
    each = "; ".join(_said(course) for course in courses)
    look = list(zip(courses, _COLOURS, _DASHES, strict=False))
    positions, labels = style.power_ticks(0, 26)
    fig = style.figure(
        [part for course, colour, dash in look for part in (_line(course, colour, dash), _crosses(course, colour))],
        {
            "xaxis": {"range": [0, steps + 0.5], "title": {"text": "step"}},
            "yaxis": {"range": [-0.5, 26], "title": {"text": "loss scale (powers of two)"}}
            | {"tickvals": positions, "ticktext": labels},
        },
    )
    entries = [(colour, sign, _said(course)) for (course, colour, _), sign in zip(look, style.DASH_SIGNS, strict=False)]
    return style.finish(
        fig,
        alt=f"{said}: {each}." if done else "Loss scale of a training: not started yet.",
        title=said,
        subtitle=style.key(*entries) + f"<br>{style.key((style.GREY, '✕', 'step left out'))}",
        height=height,
        t=82,
    )


def _said(course: ScaleCourse) -> str:
    if not len(course.scales):
        return course.name
    count, now = sum(course.skipped), float(np.log2(course.scales[-1]))
    power = words.raised(words.power(now, plain=True))
    return f"{course.name} {power}, {count} step{'s' * (count != 1)} left out"


def _line(course: ScaleCourse, colour: str, dash: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": course.name,
        "x": np.arange(1, len(course.scales) + 1),
        "y": np.log2(np.asarray(course.scales, np.float64)),
        "line": {"width": 2, "color": colour, "dash": dash, "shape": "hv"},
        "hovertemplate": f"{course.name}<br>step   %{{x}}<br>scale  2<sup>%{{y:.3g}}</sup><extra></extra>",
    }


def _crosses(course: ScaleCourse, colour: str) -> dict[str, Any]:
    at = np.flatnonzero(np.asarray(course.skipped, bool))
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{course.name}: left out",
        "x": at + 1,
        "y": np.log2(np.asarray(course.scales, np.float64)[at]),
        "marker": {"symbol": "x", "size": 9, "color": colour},
        "hovertemplate": "step %{x} left out: a gradient was not finite<extra></extra>",
    }
