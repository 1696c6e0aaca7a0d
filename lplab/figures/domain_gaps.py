"""What methods lose against float32 in several domains: a small panel for each domain, two beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

_BESIDE = 2  # more panels would be too narrow for their titles on a small screen
_BETWEEN = 0.03  # of the width
_BELOW = 84  # pixels between the panels of two rows, for the ticks and the two lines of the title
_BOTTOM = 64
_HOVER = "%{text}<br>against float32  %{x:+.2f}"


def domain_gaps(
    gaps: Mapping[str, Mapping[str, Any]],
    bounds: Mapping[str, Mapping[str, float]] | None = None,
    *,
    units: Mapping[str, str] | None = None,
    baseline: str = "float32",
    title: str = "",
    height: int = 320,
) -> go.Figure:
    """Panels two by two, in each a row for each method: the difference to float32 of each seed, their mean, the limit.

    Args:
        gaps: by domain and method, how much worse than float32, one number a seed, [seeds]; the same methods in all.
        bounds: by domain and method, the limit of the method, from its paper; a pair may be left out.
        units: by domain, the unit in which the gaps are; by default "points".
        baseline: what zero is.
        title: the point that it makes; by default the largest mean gap.
        height: of each panel with its ticks and its title, in pixels.

    Raises:
        ValueError: no domain, no method, methods that differ, no seed, or a gap that is not a finite number.

    >>> made = domain_gaps({"pictures": {"FP8": [0.2, 0.4]}, "speech": {"FP8": [1.0, 1.2]}}, {"speech": {"FP8": 1.0}})
    >>> made.layout.meta["title"]
    'Furthest from float32: FP8 in speech, +1.10 points'
    """
    values = {d: {m: np.asarray(v, np.float64) for m, v in rows.items()} for d, rows in gaps.items()}
    methods = list(next(iter(values.values()), {}))
    if not methods or any(list(rows) != methods for rows in values.values()):
        told = "; ".join(f"{d}: {', '.join(rows) or 'nothing'}" for d, rows in values.items()) or "nothing"
        raise ValueError(f"each domain needs the same methods, at least one; got {told}")
    for domain, rows in values.items():
        for method, each in rows.items():
            if each.ndim != 1 or not each.size or not np.isfinite(each).all():
                raise ValueError(f"{method} in {domain} must be finite numbers [seeds], got {each.tolist()}")
    named = {domain: (units or {}).get(domain, "points") for domain in values}
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {}
    across = _axis_domains(min(len(values), _BESIDE), _BETWEEN)
    lines = -(-len(values) // _BESIDE)
    up = _axis_domains(lines, _BELOW / (lines * height - _BELOW))[::-1]
    for line, part in enumerate(up):
        layout[_name("yaxis", line)] = axes.row_axis(methods) | {"domain": part, "anchor": _name("x", line * _BESIDE)}
    for number, (domain, rows) in enumerate(values.items()):
        x, y = _name("x", number), _name("y", number // _BESIDE)
        data += _panel(rows, (bounds or {}).get(domain, {}), {"xaxis": x, "yaxis": y}, baseline)
        of_domain = np.array([*(bounds or {}).get(domain, {}).values()])
        low, high = axes.ends_with_zero([*rows.values(), of_domain], room=0.1)
        place = {"domain": across[number % _BESIDE], "anchor": y, "nticks": 5}
        told = f"{domain}<br>{named[domain]}"  # on one line, the titles of two panels would meet on a phone
        layout[_name("xaxis", number)] = axes.axis(low, high, told, **place)
    means = {(d, m): float(each.mean()) for d, rows in values.items() for m, each in rows.items()}
    worst = max(means, key=lambda cell: means[cell])
    limits = {(d, m): f" (limit {bound:g})" for d, each in (bounds or {}).items() for m, bound in each.items()}
    cells = {d: ", ".join(f"{m} {_signed(means[d, m])}{limits.get((d, m), '')}" for m in methods) for d in values}
    told = "; ".join(f"{d}, {named[d]}: {cells[d]}" for d in values)
    return style.apply_style(
        style.figure(data, layout),
        alt=f"Means of the seeds above {baseline}, where more is worse. {told}.",
        title=title or f"Furthest from {baseline}: {worst[1]} in {worst[0]}, {_signed(means[worst])} {named[worst[0]]}",
        subtitle=legend(*map(entry, data[:3]), entry(data[3], sign="┃")),
        height=lines * height,
        b=_BOTTOM,
    )


def _name(kind: str, number: int) -> str:
    """The name of an axis: x, x2, and so on."""
    return f"{kind}{number + 1}" if number else kind


def _axis_domains(count: int, between: float) -> list[list[float]]:
    """Equal parts of the way from 0 to 1, with this much room between them."""
    width = (1 + between) / count - between
    return [[k * (width + between), min(k * (width + between) + width, 1.0)] for k in range(count)]


def _panel(
    rows: Mapping[str, np.ndarray], bounds: Mapping[str, float], on: dict[str, str], baseline: str
) -> list[dict[str, Any]]:
    """The traces of one domain: zero, the means, each seed, the bounds."""
    y = -np.arange(len(rows), dtype=np.float64)
    zero = traces.reference(baseline, np.zeros(2), np.array([0.6, y[-1] - 0.6]), style.GREEN, "solid")
    x, names = np.concatenate(list(rows.values())), np.repeat(list(rows), [len(v) for v in rows.values()])
    look = traces.marker("circle", 6, style.BLUE)
    seeds = traces.points("each seed", x, np.repeat(y, [len(v) for v in rows.values()]), look, _HOVER, text=names, **on)
    means = np.array([v.mean() for v in rows.values()])
    look = traces.marker("diamond", 12, style.VERMILION)
    middle = traces.points("mean", means, y, look, _HOVER, text=np.array(list(rows)), **on)
    marked = [(bounds[name], place, name) for name, place in zip(rows, y, strict=True) if name in bounds]
    places = np.array([[bound, place] for bound, place, _ in marked], np.float64).reshape(-1, 2)
    across = traces.segments(places[:, 0], places[:, 0])
    along = traces.segments(places[:, 1] - 0.35, places[:, 1] + 0.35)
    bound = traces.line("limit", across, along, traces.stroke(style.PINK, 2.5), **on)
    return [zero | on, middle, seeds, bound]  # a seed lies above the mean, which would hide it


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
