"""Recipes that branch from one float32 checkpoint: how far each is above float32, on the same batches, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

REFERENCE = "float32"
SMOOTHED_OVER = 10  # the lines are means of a tenth of the steps: pairs share their batch, but rounding still jumps
_HOVER = "{name}<br>step        %{x}<br>difference  %{y:+.4f} bits"


def branched_losses(
    losses: Mapping[str, Any],
    *,
    before: int = 0,
    steps: int = 0,
    limits: tuple[float, float] | None = None,
    title: str = "",
    height: int = 320,
) -> go.Figure:
    """The difference to float32 over the steps of a branch: a thin line for each seed, a thick one for their mean.

    Args:
        losses: by name, the training loss of each step in bits, float64 [seeds, steps]; NaN after a divergence. One of
            the names is "float32", with which up to four others are compared. As ``Branches.losses`` of
            :func:`lplab.claims.branches` has it. None for a branch that was not measured: it has no line.
        before: steps in float32 before the branches, for the axis.
        steps: of a whole branch, where there are fewer losses, or none yet; by default as many as there are losses.
        limits: ends of the axis of the difference, in bits; by default around all lines.
        title: the point that it makes; by default how far the last branch ends above float32.
        height: in pixels.

    Raises:
        ValueError: no float32, nothing or more than four to compare with it, shapes that differ, or more losses than
            steps.

    >>> made = {"float32": [[2.0, 1.9]], "1-5-2": [[2.1, 2.0]]}
    >>> branched_losses(made, before=500).layout.meta["title"]
    '1-5-2: +0.100 bits against float32, on 1 of 1 seeds above it'
    """
    unmeasured = [name for name, each in losses.items() if each is None]
    base = np.asarray(losses.get(REFERENCE, ()), np.float64)
    values = {
        name: np.full_like(base, np.nan) if each is None else np.asarray(each, np.float64)
        for name, each in losses.items()
    }
    if REFERENCE not in values or not 2 <= len(values) <= 1 + len(style.SERIES_BESIDE_GREEN):
        most = len(style.SERIES_BESIDE_GREEN)
        raise ValueError(f"{REFERENCE!r} and one to {most} other names are needed, got {', '.join(values) or 'none'}")
    del values[REFERENCE]
    if (
        base.ndim != 2
        or not (base.size or (steps and len(base)))
        or any(each.shape != base.shape for each in values.values())
    ):
        shapes = ", ".join(str(each.shape) for each in (base, *values.values()))
        raise ValueError(f"losses must be [seeds, steps], the same for all names, at least one of each; got {shapes}")
    whole = steps or base.shape[1]
    if base.shape[1] > whole:
        raise ValueError(f"a branch of {steps} steps cannot have {base.shape[1]} losses")
    gaps = {name: _smooth(each - base, whole) for name, each in values.items()}
    x_of = before + np.arange(1, base.shape[1] + 1, dtype=np.float64)
    thin, thick = [], []
    for (name, gap), (colour, dash, _) in zip(gaps.items(), style.SERIES_BESIDE_GREEN, strict=False):
        x, y = traces.joined([x_of] * len(gap)), traces.joined(list(gap))
        thin.append(traces.line(f"{name}, each seed", x, y, traces.stroke(colour, 1), opacity=0.65))
        # The mean of all seeds: where one has diverged there is none.
        thick.append(traces.line(name, x_of, gap.mean(axis=0), traces.stroke(colour, 2.5, dash), _HOVER))
    zero = traces.reference(REFERENCE, before + np.array([1.0, whole]), np.zeros(2), style.GREEN, "solid")
    text = {name: "was not measured" if name in unmeasured else _gap_text(values[name] - base) for name in values}
    last = list(values)[-1]
    layout = {
        "xaxis": axes.axis(before, before + whole + 0.5, "step"),
        "yaxis": axes.axis(*(limits or axes.ends_with_zero(gaps.values(), room=0.08)), "gap in training loss (bits)"),
    }
    return style.apply_style(
        style.figure([zero, *thin, *thick], layout),
        alt=f"Training loss above {REFERENCE} after {before} common steps: "
        + "; ".join(f"{name} {words}" for name, words in text.items())
        + ".",
        title=title or f"{last}: {text[last]}",
        subtitle=legend(*map(entry, [zero, *thick])),
        height=height,
    )


def _smooth(gap: np.ndarray, whole: int) -> np.ndarray:
    """Means of each step and those before it, a tenth of a whole branch: float64 [seeds, steps]."""
    window = max(1, whole // SMOOTHED_OVER)
    means = [gap[:, max(0, i + 1 - window) : i + 1].mean(axis=1) for i in range(gap.shape[1])]
    return np.stack(means, axis=1) if means else gap


def _gap_text(gap: np.ndarray) -> str:
    """The mean difference of the last half of the steps, and on how many seeds it is above zero."""
    if not gap.size:
        return "has no step yet"
    ends = gap[:, gap.shape[1] // 2 :].mean(axis=1)
    is_finite = np.isfinite(ends)
    lost = f", {(~is_finite).sum()} diverged" if not is_finite.all() else ""
    if not is_finite.any():
        return f"diverged on all {len(ends)} seeds"
    difference = f"{ends[is_finite].mean():+.3f}".replace("-", "−")
    return f"{difference} bits against {REFERENCE}, on {(ends > 0).sum()} of {len(ends)} seeds above it{lost}"
