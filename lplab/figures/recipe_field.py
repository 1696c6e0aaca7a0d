"""Recipes as points: how far each trains above float32, against the bits of its numbers and the seconds of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, shapes, style, traces
from lplab.figures.legend import entry, legend

MILLISECONDS = 1e3
LEAST_GAP = 1e-3  # bits: the lower end of the logarithmic axis; smaller gaps, also negative ones, are drawn there
BEYOND = 1.6  # times the largest gap of the field: an own gap above that is drawn at the upper edge
FAR = 1.15  # times the largest cost of the field or the budget: own costs above that are drawn at the right edge
_TICKS = np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
_ROWS = ([0.58, 1.0], [0.0, 0.40])  # heights of the two panels
_HOVER = (
    "{name}<br>%{customdata[0]}<br>gap      %{customdata[1]:+.4f} bits"
    "<br>bits     %{customdata[2]:.2f} a number<br>seconds  %{customdata[3]:.0f} ms a step"
)


@dataclass(frozen=True)
class RecipePoint:
    """A recipe: its name, the average bits of a number, the seconds of a step, its training loss above float32 in bits.

    The gap is NaN where it is not known yet.
    """

    name: str
    bits: float
    seconds: float
    gap: float = np.nan


def recipe_field(
    field: Sequence[RecipePoint],
    own: RecipePoint | None = None,
    *,
    budget: tuple[float, float] | None = None,
    title: str = "",
    height: int = 440,
) -> go.Figure:
    """The field of recipes in two panels, gap against bits and gap against seconds, with one's own as a star.

    Gaps have a logarithmic axis. One's own recipe is drawn at the edge where it lies beyond.

    Args:
        field: recipes to compare with, numbered in the figure in the order of their gaps; at least one.
        own: one's own; without a gap, its costs are drawn as a line.
        budget: bits and seconds that one's own may cost at most.
        title: the point that it makes; by default how many recipes of the field have a larger gap than one's own.
        height: in pixels, but for the lines of the legend.

    Raises:
        ValueError: an empty field, or one with a gap that is not finite.

    >>> field = [RecipePoint("MXFP8", 8.9, 0.69, 0.003), RecipePoint("MXFP4", 5.2, 0.55, 0.042)]
    >>> recipe_field(field, RecipePoint("mine", 6.4, 0.60, 0.020)).layout.meta["title"]
    'Yours: +0.020 bits, a smaller gap than 1 of 2 recipes'
    """
    if not field or not all(np.isfinite(point.gap) for point in field):
        raise ValueError("a field of at least one recipe is needed, each with a finite gap")
    rows = sorted(field, key=lambda point: point.gap)
    gaps = np.array([point.gap for point in rows])
    top = BEYOND * max(float(gaps.max()), 2 * LEAST_GAP)
    words = title or _default_title(own, gaps)
    data = [trace for axis in ("", "2") for trace in _panel(rows, own, top, axis, budget)]
    names = [f"{number} {point.name}" for number, point in enumerate(rows, 1)]
    pairs = ["  ".join(names[i : i + 2]) for i in range(0, len(names), 2)]  # a narrow screen has room for two
    lines = [legend(entry(data[0], "measured here: " + pairs[0])), *pairs[1:]]
    lines += [legend(entry(data[2]))] if own is not None else []
    told = "; ".join(f"{p.name} {p.gap:+.4f} bits, {p.bits:.2f} bits a number, {1e3 * p.seconds:.0f} ms" for p in rows)
    mine = f" One's own costs {own.bits:.2f} bits a number and {1e3 * own.seconds:.0f} ms a step." if own else ""
    return style.apply_style(
        style.figure(data, _layout(rows, own, top, budget)),
        alt=f"Training loss above float32 of {len(rows)} recipes: {told}.{mine} {words}.".replace("-", "−"),
        title=words,
        subtitle="<br>".join(lines),
        height=height + 14 * len(lines),
        t=56 + 14 * len(lines),
    )


def _panel(
    rows: Sequence[RecipePoint], own: RecipePoint | None, top: float, axis: str, budget: tuple[float, float] | None
) -> list[dict[str, Any]]:
    """The points, their numbers, one's own."""
    where = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
    x, y = _costs(rows, axis), np.maximum([point.gap for point in rows], LEAST_GAP)
    numbers = [f"  {number}" for number in range(1, len(rows) + 1)]
    mine = [own] if own is not None and np.isfinite(own.gap) else []
    look = traces.provenance("measured", 9)
    star = traces.marker("star", 15, style.VERMILION)
    return [
        traces.points("recipes", x, y, look, _HOVER.replace("{name}<br>", ""), customdata=_box(rows), **where),
        traces.words("numbers", x, y, numbers, "middle right", **where),
        traces.points(
            "yours",
            np.minimum(_costs(mine, axis), _right_edge(rows, budget, axis)),
            np.clip([point.gap for point in mine], LEAST_GAP, top),
            star,
            _HOVER,
            customdata=_box(mine),
            visible=bool(mine),
            **where,
        ),
    ]


def _layout(
    rows: Sequence[RecipePoint], own: RecipePoint | None, top: float, budget: tuple[float, float] | None
) -> dict[str, Any]:
    ticks = axes.ticks(_TICKS, map("{:g}".format, _TICKS))
    y = axes.axis(np.log10(LEAST_GAP) - 0.08, np.log10(top) + 0.08, "gap (bits)", type="log", **ticks)
    layout: dict[str, Any] = {"shapes": []}
    for axis, unit, domain in (("", "average bits of a number", _ROWS[0]), ("2", "modelled ms of a step", _ROWS[1])):
        edge = _right_edge(rows, budget, axis)
        mine = np.minimum(_costs([own] if own is not None else [], axis), edge)
        x = np.concatenate([_costs(rows, axis), mine, _limit(budget, axis)])
        room = 0.08 * (x.max() - x.min() or 1.0)
        layout[f"xaxis{axis}"] = axes.axis(x.min() - room, x.max() + room, unit, anchor=f"y{axis}")
        layout[f"yaxis{axis}"] = y | {"domain": domain, "anchor": f"x{axis}"}
        place: dict[str, Any] = {"xref": f"x{axis}", "yref": f"y{axis} domain"}
        layout["shapes"] += [shapes.upright(limit, dash="dash", **place) for limit in _limit(budget, axis)]
        if own is not None and not np.isfinite(own.gap):
            line = {"color": style.VERMILION, "width": 1.5, "dash": "dot"}
            layout["shapes"].append(shapes.upright(mine[0], line=line, **place))
    return layout


def _costs(points: Sequence[RecipePoint], axis: str) -> np.ndarray:
    return np.array([MILLISECONDS * point.seconds if axis else point.bits for point in points], np.float64)


def _limit(budget: tuple[float, float] | None, axis: str) -> np.ndarray:
    """The budget on an axis; empty if there is none."""
    return np.array([] if budget is None else [MILLISECONDS * budget[1] if axis else budget[0]], np.float64)


def _right_edge(rows: Sequence[RecipePoint], budget: tuple[float, float] | None, axis: str) -> float:
    return FAR * float(max(*_costs(rows, axis), *_limit(budget, axis), 0.0))


def _box(points: Sequence[RecipePoint]) -> np.ndarray:
    rows = [[point.name, point.gap, point.bits, MILLISECONDS * point.seconds] for point in points]
    return np.array(rows, dtype=object).reshape(len(rows), 4)


def _default_title(own: RecipePoint | None, gaps: np.ndarray) -> str:
    if own is None:
        return f"The field: gaps from {gaps.min():+.3f} to {gaps.max():+.3f} bits".replace("-", "−")
    if not np.isfinite(own.gap):
        return f"Yours: {own.bits:.2f} bits a number, {MILLISECONDS * own.seconds:.0f} ms a step; the gap is not known"
    better = int((gaps > own.gap).sum())
    text = f"Yours: {own.gap:+.3f} bits, a smaller gap than {better} of {len(gaps)} recipes"
    return text.replace("-", "−")
