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
BEYOND = 1.6  # times the largest gap of the field: an own gap above that is drawn at the upper edge
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
    height: int = 470,
) -> go.Figure:
    """The field of recipes in two panels, gap against bits and gap against seconds, with one's own as a star.

    Args:
        field: recipes to compare with, numbered in the figure in the order of their gaps; at least one.
        own: one's own; without a gap, its costs are drawn as a line.
        budget: bits and seconds that one's own may cost at most.
        title: the point that it makes; by default how many recipes of the field have a larger gap than one's own.
        height: in pixels.

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
    top = BEYOND * max(float(gaps.max()), 1e-3)
    words = title or _words(own, gaps)
    data = [trace for axis in ("", "2") for trace in _panel(rows, own, top, axis)]
    names = "  ".join(f"{number} {point.name}" for number, point in enumerate(rows, 1))
    entries = [entry(data[0], "measured here: " + names)] + ([entry(data[2])] if own is not None else [])
    each = "; ".join(f"{p.name} {p.gap:+.4f} bits, {p.bits:.2f} bits a number, {1e3 * p.seconds:.0f} ms" for p in rows)
    mine = f" One's own costs {own.bits:.2f} bits a number and {1e3 * own.seconds:.0f} ms a step." if own else ""
    return style.apply_style(
        style.figure(data, _layout(rows, own, top, budget)),
        alt=f"Training loss above float32 of {len(rows)} recipes: {each}.{mine} {words}.".replace("-", "−"),
        title=words,
        subtitle=legend(*entries, per_line=1),
        height=height,
        t=84,
    )


def _panel(rows: Sequence[RecipePoint], own: RecipePoint | None, top: float, axis: str) -> list[dict[str, Any]]:
    """The points, their numbers, one's own."""
    where = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
    x, y = _costs(rows, axis), np.array([point.gap for point in rows])
    numbers = [str(number) for number in range(1, len(rows) + 1)]
    mine = [own] if own is not None and np.isfinite(own.gap) else []
    known = traces.provenance("measured", 9)
    star = traces.marker("star", 15, style.VERMILION)
    return [
        traces.points("recipes", x, y, known, _HOVER.replace("{name}<br>", ""), customdata=_box(rows), **where),
        traces.words("numbers", x, y, numbers, "middle right", **where),
        traces.points(
            "yours",
            _costs(mine, axis),
            np.minimum([point.gap for point in mine], top),
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
    points = [*rows, *([own] if own is not None else [])]
    lowest = min(0.0, *(point.gap for point in points if np.isfinite(point.gap)))
    y = axes.axis(max(lowest, -top) - 0.06 * top, 1.06 * top, "gap (bits)", nticks=5)
    layout: dict[str, Any] = {"shapes": []}
    for axis, unit, domain in (("", "average bits of a number", _ROWS[0]), ("2", "modelled ms of a step", _ROWS[1])):
        x = _costs(points, axis)
        room = 0.08 * (x.max() - x.min() or 1.0)
        limit = budget[axis == "2"] * (MILLISECONDS if axis else 1) if budget else x.max()
        layout[f"xaxis{axis}"] = axes.axis(
            min(x.min(), limit) - room, max(x.max(), limit) + room, unit, anchor=f"y{axis}"
        )
        layout[f"yaxis{axis}"] = y | {"domain": domain, "anchor": f"x{axis}"}
        place: dict[str, Any] = {"xref": f"x{axis}", "yref": f"y{axis} domain"}
        if budget:
            layout["shapes"].append(shapes.upright(limit, dash="dash", **place))
        if own is not None and not np.isfinite(own.gap):
            line = {"color": style.VERMILION, "width": 1.5, "dash": "dot"}
            layout["shapes"].append(shapes.upright(_costs([own], axis)[0], line=line, **place))
    return layout


def _costs(points: Sequence[RecipePoint], axis: str) -> np.ndarray:
    return np.array([MILLISECONDS * point.seconds if axis else point.bits for point in points], np.float64)


def _box(points: Sequence[RecipePoint]) -> np.ndarray:
    rows = [[point.name, point.gap, point.bits, MILLISECONDS * point.seconds] for point in points]
    return np.array(rows, dtype=object).reshape(len(rows), 4)


def _words(own: RecipePoint | None, gaps: np.ndarray) -> str:
    if own is None:
        return f"The field: gaps from {gaps.min():+.3f} to {gaps.max():+.3f} bits".replace("-", "−")
    if not np.isfinite(own.gap):
        return f"Yours: {own.bits:.2f} bits a number, {MILLISECONDS * own.seconds:.0f} ms a step; the gap is not known"
    better = int((gaps > own.gap).sum())
    text = f"Yours: {own.gap:+.3f} bits, a smaller gap than {better} of {len(gaps)} recipes"
    return text.replace("-", "−")
