"""Published trainings beside what a formula makes of their inputs, and a wrong estimate put right step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend
from lplab.hardware.footprint.runs import TrainingRun
from lplab.hardware.units import mass

KILOGRAMS = 1000.0  # in a tonne


def published_runs(runs: Sequence[TrainingRun], *, title: str = "", height: int = 0) -> go.Figure:
    """CO2e of published trainings: as published, a diamond, and watts × hours × PUE × grid, a square.

    Args:
        runs: with published CO2e, at least one; drawn from the smallest.
        title: the point that it makes; by default how far formula and papers are apart at most.
        height: in pixels; by default by the number of runs.

    Raises:
        ValueError: no run, or one without published CO2e.

    >>> from lplab.hardware.footprint import runs
    >>> published_runs([runs.get("gpt3"), runs.get("t5")]).layout.meta["title"]
    'Watts × hours × PUE × grid: within 0.4 %'
    """
    if not runs or any(run.published_kilograms is None for run in runs):
        raise ValueError("runs with published CO2e are needed, at least one")
    rows = sorted(runs, key=lambda run: run.bill.kilograms)
    ours = np.array([run.bill.kilograms for run in rows])
    theirs = np.array([run.published_kilograms or 0.0 for run in rows])
    apart = float(np.abs(ours / theirs - 1).max())
    text = title or f"Watts × hours × PUE × grid: within {100 * apart:.1f} %"
    hover = np.array(
        [[r.label, mass(o), r.published, r.source, r.input_grade] for r, o in zip(rows, ours, strict=True)]
    )
    y = np.array([f"{run.label} ({run.year})" for run in rows], dtype=str)
    data = [_dots("modelled", ours, y, hover, 9), _dots("published", theirs, y, hover, 15)]
    axis = _masses(0.6 * min(ours.min(), theirs.min()), 1.7 * max(ours.max(), theirs.max()))
    layout = {  # plotly's own axes, so that an exported table has kilograms and names
        "xaxis": {**axis, "type": "log", "tickvals": 10.0 ** axis["tickvals"]},
        "yaxis": {"type": "category", "range": [-0.6, len(rows) - 0.4]},
    }
    told = "; ".join(f"{run.label} {mass(o)}, published {run.published}" for run, o in zip(rows, ours, strict=True))
    return style.apply_style(
        style.figure(data, layout),
        alt=f"CO2e of trainings, ours and published. {told}. {text}.",
        title=text,
        subtitle=legend(entry(data[0], "our formula"), entry(data[1])),
        height=height or 110 + 26 * len(rows),
        l=250,
        t=66,
    )


def corrections(
    steps: Sequence[tuple[str, float]], published: Sequence[float], *, title: str = "", height: int = 0
) -> go.Figure:
    """An estimate that shrinks with each correction: bars from zero, published values as diamonds.

    Args:
        steps: what is assumed, and kilograms with it, from the top; at least two.
        published: published kilograms for the first and for the last.
        title: the point that it makes; by default by how much the last is smaller.
        height: in pixels.

    Raises:
        ValueError: fewer than two steps, or other than two published values.

    >>> corrections([("as claimed", 284_000.0), ("as it was", 3_220.0)], (284_000, 3_200)).layout.meta["title"]
    'From 284 t to 3.22 t: 88 times less'
    """
    if len(steps) < 2 or len(published) != 2:
        raise ValueError("at least two steps and two published values are needed")
    first, *_, last = values = np.array([kilograms for _, kilograms in steps])
    end = 1.25 * float(max(*values, *published)) / KILOGRAMS
    text = title or f"From {mass(first)} to {mass(last)}: {first / last:.0f} times less"
    rows = axes.row_axis(name for name, _ in steps)
    y, names = rows["tickvals"], np.array([[name, mass(value)] for name, value in steps])
    layout = {"bargap": 0.3, "xaxis": axes.axis(0, end, "CO<sub>2</sub>e (t)", nticks=7), "yaxis": rows}
    told = ", ".join(f"{name} {mass(value)}" for name, value in steps)
    look = {"color": style.BLUE, "line": {"width": 0}}
    hover = "%{customdata[0]}<br>{name}  %{customdata[1]}"
    tonnes, theirs = values / KILOGRAMS, np.asarray(published, np.float64) / KILOGRAMS
    data = [
        traces.bars("modelled", tonnes, y, look, hover, orientation="h", customdata=names),
        traces.points("published", theirs, y[[0, -1]], traces.provenance("published", 14), "{name}"),
        traces.words("values", tonnes + 0.025 * end, y, names[:, 1], "middle right", showlegend=False),
    ]
    return style.apply_style(
        style.figure(data, layout),
        alt=f"CO2e with one assumption after the other put right: {told}. {text}.",
        title=text,
        subtitle=legend(*map(entry, data[:2])),
        height=height or 130 + 40 * len(values),
        l=210,
        t=66,
    )


def _masses(low: float, high: float) -> dict[str, Any]:
    low, high = np.log10(low), np.log10(high)
    return axes.axis(low, high, "CO<sub>2</sub>e (each line ten times the last)", **axes.decade_ticks(low, high, mass))


def _dots(kind: str, kilograms: np.ndarray, y: np.ndarray, hover: np.ndarray, size: int) -> dict[str, Any]:
    box = "%{customdata[0]}<br>modelled   %{customdata[1]}<br>published  %{customdata[2]}<br>"
    box += "%{customdata[3]}<br>inputs %{customdata[4]}"
    return traces.points(kind, kilograms, y, traces.provenance(kind, size), box, customdata=hover)
