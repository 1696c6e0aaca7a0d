"""Test error of trainings: against fraction bits, a curve per rounding rule; and over the epochs of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, shapes, style, traces
from lplab.figures.legend import entry, legend

ERRORS = (0.8, 100.0)  # percent, the ends of the logarithmic axis; what is below lies on its lower end
TICKS = (1, 2, 5, 10, 20, 50, 100)
BITS_TITLE = "fraction bits of the weights (FL)"

_KEYS = 3  # entries of the legend on a line
_TOP, _TITLE_DOWN = 82, 28  # pixels: the margin above the plot, and where in it the title hangs


@dataclass(frozen=True)
class Curve:
    """Test errors of one rounding rule.

    Args:
        name: as the legend of the figure calls it.
        x: fraction bits, or epochs: [n].
        errors: percent, [n] or [n, seeds].
        shown: False leaves the curve out and keeps the styles of the others.

    >>> Curve("stochastic", [4, 8], [[2.0, 4.0], [1.0, 1.5]]).medians
    array([3.  , 1.25])
    """

    name: str
    x: Any
    errors: Any
    shown: bool = True

    def __post_init__(self) -> None:
        x, errors = np.asarray(self.x, np.float64), np.asarray(self.errors, np.float64)
        errors = errors[:, None] if errors.ndim == 1 else errors
        if x.ndim != 1 or errors.ndim != 2 or len(x) != len(errors):
            raise ValueError(
                f"{self.name}: errors must be [n] or [n, seeds] for n values of x, got {errors.shape} for {x.shape}"
            )
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "errors", errors)

    @property
    def medians(self) -> np.ndarray:
        """The median over the seeds, [n]."""
        return np.median(self.errors, axis=1) if len(self.x) else np.zeros(0)


def training_error(
    curves: Sequence[Curve],
    baseline: Any = (),
    *,
    bits: tuple[int, int] = (4, 14),
    marked_bits: int | None = None,
    title: str = "",
    note: str = "",
    height: int = 360,
) -> go.Figure:
    """Test error against fraction bits: a point for each seed, a line through the medians.

    Args:
        curves: one for each rounding rule, at most four.
        baseline: errors of floating point in percent, one for each seed: a band with a line at their median.
        bits: the ends of the axis.
        marked_bits: fraction bits to mark with a vertical line, and of which the title speaks.
        title: the point that it makes; by default the errors at ``marked_bits``, or where the curves differ most.
        note: a line below the axis, such as the provenance.
        height: in pixels.

    Raises:
        ValueError: more than four curves.

    >>> fig = training_error([Curve("stochastic", [6, 8], [[2.0], [1.5]]), Curve("nearest", [6, 8], [[90.0], [3.0]])])
    >>> fig.layout.meta["title"]
    'FL 6: stochastic 2.0 %, nearest 90 %'
    """
    _check(curves)
    low, high = bits
    floating = np.asarray(baseline, np.float64).ravel()
    band = _band(floating, low, high)
    points = [_points(curve, i, len(curves)) for i, curve in enumerate(curves)]
    lines = [_line(curve, i, "fraction bits") for i, curve in enumerate(curves)]
    shown = [line for line in lines if line["visible"]] + ([band[-1]] if len(floating) else [])
    layout = _layout(low - 0.5, high + 0.5, BITS_TITLE, note)
    layout["xaxis"] |= {"dtick": 1, "tick0": low}
    layout["shapes"] = [mark(low if marked_bits is None else marked_bits, marked_bits is not None)]
    return _apply_style(
        style.figure([*band, *(trace for pair in zip(points, lines, strict=True) for trace in pair)], layout),
        alt=_alt(curves, floating),
        title=title or _title(curves, marked_bits),
        subtitle=legend(*map(entry, shown), per_line=_KEYS),
        height=height,
        b=66 if note else 48,
    )


def training_epochs(
    curves: Sequence[Curve], baseline: Curve | None = None, *, epochs: int, title: str = "", height: int = 320
) -> go.Figure:
    """Test error over the epochs of a training, finished or not: one line for each run.

    Args:
        curves: at most four; x counts epochs from 1.
        baseline: the same training in floating point.
        epochs: how many there will be: the axis does not move while curves grow.
        title: the point that it makes; by default the errors now.
        height: in pixels.

    >>> training_epochs([Curve("stochastic", [1, 2], [50.0, 20.0])], epochs=60).layout.meta["title"]
    'After 2 of 60 epochs: stochastic 20 %'
    """
    _check(curves)
    lines = [_line(curve, i, "epoch", mode="lines") for i, curve in enumerate(curves)]
    has_baseline, look = baseline is not None, traces.stroke(style.GREEN, 1.5, "solid")
    floating = _line(baseline or Curve("floating point", [], []), 0, "epoch", mode="lines")
    floating |= {"line": look, "visible": has_baseline}
    entries = [entry(line) for line in lines if line["visible"]]
    entries += [entry(floating, "floating point")] if has_baseline else []
    done = max((int(curve.x[-1]) for curve in curves if len(curve.x)), default=0)
    everyone = [*curves, *([baseline] if baseline else [])]
    now = [f"{c.name} {error_text(c.medians[-1])}" for c in everyone if len(c.x)]
    text = f"After {done} of {epochs} epochs: {', '.join(now)}" if now else "Not started yet"
    layout = _layout(0, epochs + 0.5, "epoch", "")
    return _apply_style(
        style.figure([*lines, floating], layout),
        alt=f"Test error over the epochs of a training. {text}.",
        title=title or text,
        subtitle=legend(*entries, per_line=_KEYS),
        height=height,
    )


def error_text(percent: float) -> str:
    """An error as text: two digits.

    >>> error_text(1.7632), error_text(88.2)
    ('1.8 %', '88 %')
    """
    return f"{percent:.1f} %" if percent < 10 else f"{percent:.0f} %"


def _check(curves: Sequence[Curve]) -> None:
    if len(curves) > len(style.SERIES_BESIDE_GREEN):
        raise ValueError(f"at most {len(style.SERIES_BESIDE_GREEN)} curves can share a figure, got {len(curves)}")


def _band(floating: np.ndarray, low: float, high: float) -> list[dict[str, Any]]:
    """The range of floating point over all seeds, and its median."""
    ends, is_shown = np.array([low - 0.5, high + 0.5]), len(floating) > 0
    least, middle, most = (np.full(2, f(floating)) if is_shown else np.ones(2) for f in (np.min, np.median, np.max))
    none, median = {"width": 0}, traces.stroke(style.GREEN, 2)
    filled = {"fill": "tonexty", "fillcolor": "rgba(0,158,115,.18)"}
    return [
        traces.line("least", ends, least, none, visible=is_shown),
        traces.line("floating point, all seeds", ends, most, none, visible=is_shown, **filled),
        traces.line("floating point", ends, middle, median, "{name}<br>median  %{y:.3g} %", visible=is_shown),
    ]


def _points(curve: Curve, i: int, curves: int) -> dict[str, Any]:
    """All seeds, beside each other rule's: a small shift to the side keeps symbols apart."""
    colour, _, symbol = style.SERIES_BESIDE_GREEN[i]
    seeds = curve.errors.shape[1]
    return traces.points(
        f"{curve.name}, each seed",
        np.repeat(curve.x + 0.13 * (i - (curves - 1) / 2), seeds),
        np.maximum(curve.errors.ravel(), ERRORS[0]),
        traces.marker(symbol, 5, colour, opacity=0.55),
        f"{curve.name}, one seed<br>FL     %{{customdata}}<br>error  %{{y:.3g}} %",
        visible=curve.shown,
        customdata=np.repeat(curve.x, seeds),
    )


def _line(curve: Curve, i: int, what: str, **more: Any) -> dict[str, Any]:
    colour, dash, symbol = style.SERIES_BESIDE_GREEN[i]
    look = traces.stroke(colour, 2, dash), traces.marker(symbol, 9, colour)
    hover = f"{{name}}<br>{what}  %{{x}}<br>error  %{{y:.3g}} %"
    y = np.maximum(curve.medians, ERRORS[0])
    return traces.curve(curve.name, curve.x, y, *look, hover, visible=curve.shown, **more)


def _layout(left: float, right: float, x_title: str, note: str) -> dict[str, Any]:
    low, high = (math.log10(end) for end in ERRORS)
    below = shapes.note(note, x=0, y=0, xanchor="left", yanchor="top", yshift=-44) if note else None
    ticks = axes.ticks(np.array(TICKS, np.float64), map(str, TICKS))
    return {
        "xaxis": axes.axis(left, right, x_title),
        "yaxis": axes.axis(low, high + 0.02, "test error (%, logarithmic)", type="log", **ticks),
        "annotations": [below] if below else [],
    }


def mark(bits: float, visible: bool) -> dict[str, Any]:
    """A vertical dotted line at some fraction bits, as a shape."""
    return shapes.upright(bits, layer="below", visible=visible)


def _apply_style(fig: go.Figure, *, height: int, **words_and_margin: Any) -> go.Figure:
    """Apply the style, with space for the second line of the legend in any case, so that the plot never moves."""
    style.apply_style(fig, height=height, t=_TOP, **words_and_margin)
    style.as_plain_dicts(fig)[1]["title"]["y"] = 1 - _TITLE_DOWN / height
    return fig


def _median_at(curve: Curve, bits: float) -> float:
    return float(curve.medians[curve.x == bits][0])


def _title(curves: Sequence[Curve], marked_bits: int | None) -> str:
    """The medians of the first two curves at ``marked_bits``, or where the shown curves differ most."""
    shown = [curve for curve in curves if curve.shown and len(curve.x)]
    everywhere = sorted(set.intersection(*(set(curve.x.tolist()) for curve in shown))) if shown else []
    if not everywhere:
        return "Test error against fraction bits"

    def spread(bits: float) -> float:
        values = [max(_median_at(curve, bits), ERRORS[0]) for curve in shown]
        return max(values) / min(values)

    bits = float(marked_bits) if marked_bits is not None and marked_bits in everywhere else max(everywhere, key=spread)
    return f"FL {bits:g}: " + ", ".join(f"{c.name} {error_text(_median_at(c, bits))}" for c in shown[:2])


def _alt(curves: Sequence[Curve], floating: np.ndarray) -> str:
    each = [
        f"{curve.name}: "
        + ", ".join(f"{error_text(m)} at {int(x)}" for x, m in zip(curve.x, curve.medians, strict=True))
        for curve in curves
        if curve.shown
    ]
    seeds = max((curve.errors.shape[1] for curve in curves), default=0)
    base = f" Floating point: {error_text(float(np.median(floating)))}." if len(floating) else ""
    return (
        f"Test error against fraction bits, medians over {number_text.number(seeds)} seeds. "
        f"{'; '.join(each) or 'No curve'}."
        f"{base}"
    )
