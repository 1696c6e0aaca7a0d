"""Where momentum stands in a training with compressed gradients: behind the average, or before what is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

_HOVER = "%{text}<br>test loss  %{x:.3f} bits"


def momentum_placement(
    losses: Mapping[str, Any], dense: Any, *, momentum: float = 0.9, title: str = "", height: int = 280
) -> go.Figure:
    """A row for each place of momentum: the test loss of each seed and their median, beside that without compression.

    Args:
        losses: by the name of the place, test losses in bits, one a seed, [seeds].
        dense: test losses of the same training without compression, [seeds].
        momentum: of all trainings that have one; for the texts.
        title: the point that it makes; by default the best and the worst row.
        height: in pixels.

    Raises:
        ValueError: no row, no seed, or a loss that is not a finite number.

    >>> made = momentum_placement({"behind": [1.0, 1.2], "before": [0.4, 0.3]}, [0.3, 0.3])
    >>> made.layout.meta["title"]
    'Momentum 0.9 before: 0.35 bits, behind: 1.10 bits; without compression 0.30'
    """
    rows = {name: np.asarray(values, np.float64) for name, values in losses.items()}
    base = np.asarray(dense, np.float64)
    if not rows or any(v.ndim != 1 or not v.size or not np.isfinite(v).all() for v in (base, *rows.values())):
        shapes = ", ".join(f"{name} {v.shape}" for name, v in {"dense": base, **rows}.items())
        raise ValueError(f"at least one row is needed, each of finite losses [seeds], got {shapes}")
    medians = {name: float(np.median(values)) for name, values in rows.items()}
    best, worst = (choose(medians, key=lambda name: medians[name]) for choose in (min, max))
    without = float(np.median(base))
    y = -np.arange(len(rows), dtype=np.float64)
    seeds = np.concatenate([np.full(len(v), place) for v, place in zip(rows.values(), y, strict=True)])
    names = np.concatenate([np.full(len(v), name) for name, v in rows.items()])
    x = np.concatenate(list(rows.values()))
    line = traces.reference(
        "without compression", np.full(2, without), np.array([0.6, y[-1] - 0.6]), style.GREEN, "dash"
    )
    dots = traces.points(
        "each seed", x, seeds, traces.marker("circle", 8, style.BLUE, opacity=0.85), _HOVER, text=names
    )
    look = traces.marker("diamond", 11, style.VERMILION)
    middle = traces.points("median", np.array(list(medians.values())), y, look, _HOVER, text=np.array(list(rows)))
    layout = {
        "xaxis": axes.axis(0, 1.08 * max(x.max(), base.max()), "test loss (bits)"),
        "yaxis": axes.row_axis(rows),
    }
    told = "; ".join(f"{name} {value:.2f}" for name, value in medians.items())
    point = f"Momentum {momentum:g} {best}: {medians[best]:.2f} bits"
    point += f", {worst}: {medians[worst]:.2f} bits" if worst != best else ""
    return style.apply_style(
        style.figure([line, dots, middle], layout),
        alt=f"Test loss in bits with momentum {momentum:g}, medians of the seeds: {told}; without compression "
        f"{without:.2f}.",
        title=title or f"{point}; without compression {without:.2f}",
        subtitle=legend(entry(dots), entry(middle), entry(line)),
        height=height,
    )
