"""Training losses step by step, of trainings side by side, finished or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

SMOOTHED_OVER = 25  # the line is the mean of the last 1/25 of the steps: a batch's own loss jumps up and down
_ENTRIES = 2  # of the legend on a line, where not all have room on one: an entry has a name and a number
_LETTERS = 59  # that a line of the legend has room for beside an open side bar


@dataclass(frozen=True)
class LossCurve:
    """The losses of one training so far.

    Args:
        name: as the legend of the figure calls it.
        losses: one for each step, [n]; at least all finite ones.
        diverged: whether it ended there, because it diverged.

    Raises:
        ValueError: losses that are not finite, or in more than one dimension.

    >>> LossCurve("fp32", [2.0, 1.0]).smooth(2)
    array([2. , 1.5])
    """

    name: str
    losses: Any
    diverged: bool = False

    def __post_init__(self) -> None:
        losses = np.asarray(self.losses, np.float64)
        if losses.ndim != 1 or not np.isfinite(losses).all():
            raise ValueError(f"{self.name}: losses must be finite numbers [n], got shape {losses.shape}")
        object.__setattr__(self, "losses", losses)

    def smooth(self, window: int) -> np.ndarray:
        """Mean of each loss and those before it, ``window`` of them where there are as many."""
        total = np.concatenate([[0.0], np.cumsum(self.losses)])
        last = np.arange(1, len(total))
        first = np.maximum(last - window, 0)
        return (total[last] - total[first]) / (last - first)


def loss_curves(
    curves: Sequence[LossCurve],
    reference: LossCurve | None = None,
    *,
    steps: int,
    unit: str = "nats",
    loss_range: tuple[float, float] | None = None,
    title: str = "",
    height: int = 320,
) -> go.Figure:
    """Training loss over the steps: a line for each training, a cross where one diverged.

    Args:
        curves: at most four.
        reference: the same training in float32, in green.
        steps: how many there will be: the axis does not move while curves grow.
        unit: of the loss.
        loss_range: ends of the loss axis; by default from 0 to a little above the first losses.
        title: the point that it makes; by default how far the trainings are.
        height: in pixels.

    Raises:
        ValueError: more than four curves, or a range whose ends are not in order.

    >>> fig = loss_curves([LossCurve("hfp8_2019", [2.3, 2.1])], steps=100)
    >>> fig.layout.meta["title"], fig.layout.meta["alt"]
    ('Training loss after 2 of 100 steps', 'Training loss after 2 of 100 steps: hfp8_2019 2.20 nats.')
    """
    if len(curves) > len(style.SERIES_BESIDE_GREEN):
        raise ValueError(f"at most {len(style.SERIES_BESIDE_GREEN)} curves can share a figure, got {len(curves)}")
    window = max(1, steps // SMOOTHED_OVER)
    bottom, top = loss_range or (0.0, _top(_with_reference(curves, reference)))
    if not bottom < top:
        raise ValueError(f"loss_range must be two numbers in order, got {loss_range!r}")
    looks = zip(curves, style.SERIES_BESIDE_GREEN, strict=False)
    lines = [_line(curve, window, colour, dash) for curve, (colour, dash, _) in looks]
    has_reference = reference is not None
    green = _line(reference or LossCurve("fp32", []), window, style.GREEN, "solid", visible=has_reference)
    crosses = _crosses(_with_reference(curves, reference), window, top)
    layout = {
        "xaxis": axes.axis(0, steps + 0.5, "step" + f" (lines: mean of the last {window} steps)" * (window > 1)),
        "yaxis": axes.axis(bottom, top, f"loss ({unit})"),
    }
    done = max((len(curve.losses) for curve in _with_reference(curves, reference)), default=0)
    text = f"Training loss after {done} of {steps} steps"
    told = ", ".join(_loss_text(curve, window, f" {unit}") for curve in _with_reference(curves, reference))
    fig = style.apply_style(
        style.figure([*lines, green, crosses], layout),
        alt=f"{text}: {told}." if done else "Training loss: not started yet.",
        title=title or (text if done else "Not started yet"),
        subtitle=_legend([*lines, *([green] if has_reference else [])], _with_reference(curves, reference), window),
        height=height,
        t=50 + 16 * max(1, -(-len(_with_reference(curves, reference)) // _ENTRIES)),  # for the legend at its longest
    )
    # Where it is with a legend, whether there is one or not.
    style.as_plain_dicts(fig)[1]["title"]["y"] = 1 - 28 / height
    return fig


def _top(curves: list[LossCurve]) -> float:
    return 1.15 * max((float(c.losses[0]) for c in curves if len(c.losses)), default=1.0) or 1.0


def _with_reference(curves: Sequence[LossCurve], reference: LossCurve | None) -> list[LossCurve]:
    return [*curves, *([reference] if reference else [])]


def _line(curve: LossCurve, window: int, colour: str, dash: str, **more: Any) -> dict[str, Any]:
    x, look = np.arange(1, len(curve.losses) + 1), traces.stroke(colour, 2, dash)
    return traces.line(curve.name, x, curve.smooth(window), look, "{name}<br>step  %{x}<br>loss  %{y:.4g}", **more)


def _crosses(curves: Sequence[LossCurve], window: int, top: float) -> dict[str, Any]:
    """Where trainings diverged, on the upper edge if beyond it."""
    ended = [curve for curve in curves if curve.diverged]
    last = [curve.smooth(window)[-1] if len(curve.losses) else top for curve in ended]
    return traces.points(
        "diverged",
        np.array([len(curve.losses) for curve in ended]),
        np.minimum(np.array(last, np.float64), top),
        traces.marker("x", 11, style.VERMILION),
        "%{text}<br>{name} after step %{x}",
        text=np.array([curve.name for curve in ended], dtype=str),
        cliponaxis=False,
        visible=bool(ended),
    )


def _loss_text(curve: LossCurve, window: int, unit: str = "", between: str = " ") -> str:
    if curve.diverged:
        return f"{curve.name} diverged after {len(curve.losses)}"
    return f"{curve.name}{between}{curve.smooth(window)[-1]:.2f}{unit}" if len(curve.losses) else curve.name


def _legend(lines: Sequence[dict[str, Any]], curves: Sequence[LossCurve], window: int) -> str:
    entries = [entry(line, _loss_text(curve, window, between=": ")) for line, curve in zip(lines, curves, strict=True)]
    letters = sum(len(text) + 6 for _, _, text in entries)  # a sign before each, and room between them
    return legend(*entries, per_line=0 if letters <= _LETTERS else _ENTRIES)
