"""Where the time of a step goes, as bars: for recipes beside each other, or along the layers of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.legend import legend
from lplab.hardware.layer_times import PARTS, LayerTimes
from lplab.hardware.units import LONG_TIMES, duration

# thin and pale, as text stands on it
_STRIPES = {"fgcolor": style.PAPER, "fgopacity": 0.4, "fillmode": "overlay", "size": 9, "solidity": 0.1}
_STYLES: dict[str, tuple[str, str, str, dict[str, Any]]] = {  # word, colour, sign in the legend, pattern of the bar
    "compute": ("multiplying", style.BLUE, "■", {}),
    "memory": ("waiting for memory", style.VERMILION, "▨", {"shape": "/", **_STRIPES}),
    "between": ("norms, activations", style.GREEN, "▦", {"shape": ".", **_STRIPES}),
    "conversion": ("rounding", style.PINK, "▥", {"shape": "|", **_STRIPES}),
    "update": ("update", style.GREY, "▒", {"shape": "x", **_STRIPES}),
}


def time_parts(
    rows: Mapping[str, Mapping[str, float]],
    chosen: str = "",
    *,
    what: str = "time of a step",
    most: float = 0.0,
    title: str = "",
    height: int = 0,
) -> go.Figure:
    """Stacked bars of seconds by part, one for each row, all modelled.

    Args:
        rows: seconds by part (`lplab.hardware.layer_times.PARTS`), by the row's name, from the top.
        chosen: the row to mark.
        what: of what the seconds are, for the axis.
        most: end of the axis in seconds; by default from the longest row.
        title: the point that it makes; by default how many times faster the last row is than the first.
        height: in pixels; by default by the number of rows.

    Raises:
        ValueError: no rows, a part that there is not, or a chosen row that is not there.

    >>> rows = {"16 bits": {"compute": 0.6, "between": 0.4}, "4 bits": {"compute": 0.15, "between": 0.4}}
    >>> time_parts(rows).layout.meta["title"]
    '4 bits is 1.8 times as fast as 16 bits'
    """
    row_axis, names = axes.row_axis(rows, chosen), list(rows)
    if unknown := [part for row in rows.values() for part in row if part not in PARTS]:
        raise ValueError(f"unknown part {unknown[0]!r}; allowed: {', '.join(PARTS)}")
    totals = np.array([sum(row.values()) for row in rows.values()])
    end = 1.22 * (most or float(totals.max()) or 1.0)
    factor, unit = _unit(end)
    y = row_axis["tickvals"]
    data = [_bar(part, [row.get(part, 0.0) for row in rows.values()], names, totals, y, factor, unit) for part in PARTS]
    data.append(_texts(rows, totals, y, end, factor))
    text = title or f"{names[-1]} takes no time"
    if totals[-1] and not title:
        text = f"{names[-1]} is {totals[0] / totals[-1]:.1f} times as fast as {names[0]}"
    layout = {
        "barmode": "stack",
        "bargap": 0.3,
        "xaxis": axes.axis(0, end * factor, f"{what} ({unit}), modelled", nticks=6),
        "yaxis": row_axis,
    }
    told = "; ".join(_shares(*row) for row in rows.items() if sum(row[1].values()) > 0)
    return style.apply_style(
        style.figure(data, layout),
        alt=f"Modelled {what} by part. {told}. {text}.",
        title=text,
        subtitle=legend(*((colour, sign, word) for word, colour, sign, _ in _STYLES.values())),
        height=height or 130 + 40 * len(rows),
        l=128,
        t=66,
    )


def _shares(name: str, row: Mapping[str, float]) -> str:
    """A row as text."""
    total = sum(row.values())
    told = ", ".join(f"{_STYLES[part][0]} {100 * seconds / total:.0f} %" for part, seconds in row.items())
    return f"{name} {duration(float(total))}: {told}"


def by_layer(times: LayerTimes, most: int = 10, per: float = 1.0) -> dict[str, dict[str, float]]:
    """Seconds by part for groups of neighbouring layers, at most ``most``, named after the first and the last.

    Args:
        times: of one batch.
        most: rows.
        per: what the seconds are divided by, such as the batch.

    >>> from lplab.hardware import compute
    >>> list(by_layer(compute.layer_times("resnet18", "h100", "bf16")))
    ['conv1', 'pool1', 'layer1', 'layer2', 'layer3', 'layer4', 'pool', 'fc']
    """
    words = [_group(layer.name) for layer in times.workload.layers]
    order = list(dict.fromkeys(words))
    size = -(-len(order) // most)
    chunks = [order[i : i + size] for i in range(0, len(order), size)]
    names = [_name_of_neighbours(chunk[0], chunk[-1]) for chunk in chunks]
    place = {word: i for i, chunk in enumerate(chunks) for word in chunk}
    index = np.array([place[word] for word in words])
    sums = {part: np.bincount(index, values, len(chunks)) / per for part, values in times.parts_by_layer().items()}
    return {name: {part: float(values[i]) for part, values in sums.items()} for i, name in enumerate(names)}


def _group(name: str) -> str:
    """The block that a layer belongs to: its name up to the first dot or underscore; of nested blocks, two words."""
    parts = name.split(".")
    if len(parts) > 1 and parts[1].isdigit():
        return ".".join(parts[:2])
    return parts[0].split("_")[0] or "model"


def _name_of_neighbours(first: str, last: str) -> str:
    """A name for neighbours: block9–18, or the first and the last."""
    if first == last:
        return first
    stem = first.rstrip("0123456789")
    number = last.removeprefix(stem)
    return f"{first}–{number}" if stem and number.isdigit() else f"{first} … {last}"


def _unit(seconds: float) -> tuple[float, str]:
    """How many of a unit a second is, and its name: the units of :func:`duration`."""
    for length, word in LONG_TIMES:
        if seconds >= 2 * length:
            return 1 / length, word
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return factor, unit
    return 1e9, "ns"


def _bar(
    part: str, seconds: list[float], names: list[str], totals: np.ndarray, y: np.ndarray, factor: float, unit: str
) -> dict[str, Any]:
    word, colour, _, pattern = _STYLES[part]
    values = np.array(seconds)
    shares = np.divide(values, totals, out=np.zeros_like(values), where=totals > 0)
    marker = {"color": colour, "line": {"width": 0}} | ({"pattern": pattern} if pattern else {})
    numbers = np.stack([np.array(names, dtype=object), shares * 100], axis=1)
    hover = f"%{{customdata[0]}}, modelled<br>{{name}}  %{{x:.4g}} {unit}<br>share  %{{customdata[1]:.3g}} %"
    return traces.bars(word, values * factor, y, marker, hover, orientation="h", customdata=numbers)


def _texts(
    rows: Mapping[str, Mapping[str, float]], totals: np.ndarray, y: np.ndarray, end: float, factor: float
) -> dict[str, Any]:
    """Shares in the bars that have room for them, totals behind: one trace, as text in each bar is slow to draw."""
    result: list[tuple[float, float, str, str, str]] = []
    for row, total, height in zip(rows.values(), totals.tolist(), y.tolist(), strict=True):
        start = 0.0
        for part in PARTS:
            seconds = row.get(part, 0.0)
            if seconds > 0.07 * end:
                colour = "#FFFFFF" if part == "compute" else "#111111"
                result.append(
                    (start + seconds / 2, height, f"<b>{100 * seconds / total:.0f} %</b>", "middle center", colour)
                )
            start += seconds
        result.append((total, height, " " + duration(total), "middle right", style.INK))
    x, heights, words, places, colours = zip(*result, strict=True)
    inside = style.BODY if len(rows) <= 4 else 9  # more bars are lower
    sizes = [style.NOTE if colour == style.INK else inside for colour in colours]
    return traces.words(
        "shares and totals",
        np.array(x) * factor,
        np.array(heights),
        words,
        np.array(places, dtype=str),
        textfont={"size": np.array(sizes), "color": np.array(colours, dtype=str)},
        showlegend=False,
        cliponaxis=False,  # a total may need the margin
    )
