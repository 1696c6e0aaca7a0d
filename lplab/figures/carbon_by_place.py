"""The carbon of a job by place, and by precision: what a grid does beside what bits do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend
from lplab.hardware.footprint import Region, carbon
from lplab.hardware.units import mass

_MARKS = (("circle", style.GREEN), ("triangle-up", style.PINK), ("square", style.BLUE))  # of each precision, always


def carbon_by_place(
    kwh: Mapping[str, float],
    places: Sequence[Region],
    chosen: str = "",
    here: str = "",
    *,
    published: tuple[str, float, str] | None = None,
    limits: tuple[float, float] | None = None,
    title: str = "",
    height: int = 0,
) -> go.Figure:
    """CO2e of a job in some places: a large mark at the chosen precision, a small one at each of the others.

    Marks and no bars: on an axis of powers a bar would begin anywhere, and its length would say nothing. The small ones
    lie a little above and below, so that all are seen where precisions change next to nothing.

    Args:
        kwh: from the grid, by precision.
        places: regions, from the top.
        chosen: the precision of the large marks; by default the first.
        here: name of the region to mark.
        published: name of a place, published kilograms, and where from: a diamond there.
        limits: ends of the axis in kilograms; by default from the values.
        title: the point that it makes; by default how far apart places and precisions are.
        height: in pixels; by default by the number of places.

    Raises:
        ValueError: no precision, no place, energy that is not positive, or a choice that is not there.

    >>> from lplab.hardware.footprint import region
    >>> fig = carbon_by_place({"16 bits": 1000.0, "8 bits": 600.0}, [region("france"), region("poland")])
    >>> fig.layout.meta["title"]
    'The place: up to 11.8 times; the precision: up to 1.7 times'
    """
    chosen = _checked_precision(kwh, places, chosen, here)
    kilograms = {name: np.array([carbon(energy, place) for place in places]) for name, energy in kwh.items()}
    every = np.concatenate([*kilograms.values(), np.array([published[1]] if published else [])])
    low, high = limits or (0.7 * float(every.min()), 1.5 * float(every.max()))
    text = title or _text(kwh, places)
    told = ", ".join(f"{p.label} {mass(k)}" for p, k in zip(places, kilograms[chosen], strict=True))
    more = f" Published: {mass(published[1])} ({published[2]})." if published else ""
    marks = _traces(kilograms, chosen, places, published)
    return style.apply_style(
        style.figure(marks, _axes(places, here, low, high)),
        alt=f"Modelled CO2e at {chosen}: {told}.{more} {text}.",
        title=text,
        subtitle=legend(
            entry(marks[0], f"modelled, {chosen}"),
            *(entry(mark) for mark in marks[1:-1]),
            *([entry(marks[-1], f"published ({published[2]})")] if published else []),
        ),
        height=height or 120 + 27 * len(places),
        l=190,
        t=66,
    )


def _checked_precision(kwh: Mapping[str, float], places: Sequence[Region], chosen: str, here: str) -> str:
    """The chosen precision."""
    chosen = chosen or next(iter(kwh), "")
    if not kwh or not places or not min(kwh.values()) > 0:
        raise ValueError("at least one precision with positive energy and one place are needed")
    if chosen not in kwh or (here and here not in [place.name for place in places]):
        raise ValueError(f"there is no {chosen if chosen not in kwh else here!r} among the precisions or places")
    return chosen


def _text(kwh: Mapping[str, float], places: Sequence[Region]) -> str:
    grams = [place.grams_per_kwh for place in places]
    by_place, by_bits = max(grams) / max(min(grams), 1e-9), max(kwh.values()) / min(kwh.values())
    return f"The place: up to {by_place:.3g} times; the precision: {_ratio_text(by_bits)}"


def _axes(places: Sequence[Region], here: str, low: float, high: float) -> dict[str, Any]:
    labels = {p.name: f"{p.label}, {p.grams_per_kwh:.0f} g" for p in places}
    title = "CO<sub>2</sub>e of the whole job (each line ten times the last)"
    low, high = np.log10(low), np.log10(high)
    return {
        "xaxis": axes.axis(low, high, title, **axes.decade_ticks(low, high, mass)),
        "yaxis": axes.row_axis(labels.values(), labels.get(here, "")),
    }


def _traces(
    kilograms: Mapping[str, np.ndarray],
    chosen: str,
    places: Sequence[Region],
    published: tuple[str, float, str] | None,
) -> list[dict[str, Any]]:
    """The chosen precision on its rows, the others a little above and below, and what was published."""
    y = -np.arange(len(places), dtype=np.float64)
    others = [name for name in kilograms if name != chosen]
    styles = {name: _MARKS[i % len(_MARKS)] for i, name in enumerate(kilograms)}
    marks = [_marks(chosen, kilograms[chosen], y, places, traces.marker(styles[chosen][0], 13, styles[chosen][1]))]
    for name, shift in zip(others, np.linspace(0.22, -0.22, max(len(others), 2)), strict=False):
        symbol, colour = styles[name]
        look = traces.marker(symbol, 8, colour, line={"width": 1, "color": style.PAPER})
        marks.append(_marks(name, kilograms[name], y + shift, places, look))
    return [*marks, _published(published, places, y)]


def _ratio_text(ratio: float) -> str:
    return f"up to {ratio:.2g} times" if ratio > 1.05 else "next to nothing"


def _marks(
    name: str, kilograms: np.ndarray, y: np.ndarray, places: Sequence[Region], look: dict[str, Any]
) -> dict[str, Any]:
    lines = [[mass(float(k)), f"{p.year}, {p.source}"] for k, p in zip(kilograms, places, strict=True)]
    hover = "modelled, {name}<br>CO<sub>2</sub>e  %{customdata[0]}<br>grid  %{customdata[1]}"
    return traces.points(name, np.log10(kilograms), y, look, hover, customdata=np.array(lines, dtype=object))


def _published(published: tuple[str, float, str] | None, places: Sequence[Region], y: np.ndarray) -> dict[str, Any]:
    names = [place.name for place in places]
    is_shown = published is not None and published[0] in names
    kilograms = published[1] if published and is_shown else 1.0
    at = y[[names.index(published[0])]] if published and is_shown else y[:1]
    look, hover = traces.provenance("published", 13), f"published  {mass(kilograms)}"
    return traces.points("published", np.log10([kilograms]), at, look, hover, visible=bool(is_shown))
