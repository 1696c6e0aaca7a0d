"""A ring all-reduce as it goes: what every rank holds after each step, and time against the size of buckets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.compare_to_library import SAME, agreement, compare_to_library
from lplab.figures.device_timeline import milliseconds
from lplab.figures.legend import entry, legend

_SCALE = ((0.0, "#F2D7C6"), (0.5, "#B5CDDD"), (1.0, "#5BA3D0"))  # few ranks' numbers: pale; all: blue
_INK = "#111111"  # on all of them, in both themes: 7:1 or more
_COLUMNS = 42  # cells beside each other: more are too narrow for their numbers in a window of 820 pixels
_ROW = 22  # pixels of a rank


def ring_steps(held: Any, *, messages: int) -> go.Figure:
    """How many ranks' numbers are in each part of each rank, step by step: a panel of cells for each step.

    Args:
        held: int [steps + 1, ranks, parts], before the first and after every step.
        messages: how many were sent in all.

    Raises:
        ValueError: another number of dimensions, or nothing in one of them.

    >>> fig = ring_steps([[[1, 1], [1, 1]], [[1, 2], [2, 1]], [[2, 2], [2, 2]]], messages=4)
    >>> fig.layout.meta["title"]
    '2 steps, 4 messages: all 2 ranks have the whole sum'
    """
    held = np.asarray(held)
    if held.ndim != 3 or not held.size:
        raise ValueError(f"held must be [steps + 1, ranks, parts], got shape {held.shape}")
    count, ranks, parts = held.shape
    whole = (held[-1] == ranks).all(axis=1).sum()
    done = f"all {ranks} ranks have the whole sum" if whole == ranks else f"{whole} of {ranks} ranks have the whole sum"
    lines = -(-count // max(_COLUMNS // (parts + 1), 1))  # of panels, one below the other
    across = -(-count // lines)
    tops = np.arange(lines) * (ranks + 1)  # the row above each line's first rank holds the names of its panels
    places = (tops[:, None] + np.arange(1, ranks + 1)).ravel()
    layout = {
        "xaxis": {"range": [-0.5, across * (parts + 1) - 1.5], "visible": False},
        "yaxis": axes.axis(lines * (ranks + 1) - 0.5, -0.5, "rank", showgrid=False, showline=False, ticks="")
        | axes.ticks(places, map(str, [*range(ranks)] * lines)),
    }
    names = ["start", *(f"step {k}" for k in range(count - 1))]
    x = np.arange(count) % across * (parts + 1) + (parts - 1) / 2
    return style.apply_style(
        style.figure(
            [_cells(held, names, lines), traces.words("panels", x, tops.repeat(across)[:count], names)], layout
        ),
        alt=f"What {ranks} ranks hold after each of {count - 1} steps of an all-reduce: {done} at the end.",
        title=f"{count - 1} steps, {messages} messages: {done}",
        subtitle="columns: parts of the gradient; numbers: how many ranks' gradients are added up in it",
        height=90 + _ROW * lines * (ranks + 1),
        b=16,
    )


def _cells(held: np.ndarray, names: Sequence[str], lines: int) -> dict[str, Any]:
    """Panels of cells in lines, a row for each rank, with an empty column behind each panel and an empty row above."""
    count, ranks, parts = held.shape
    across = -(-count // lines)
    z: list[list[int | None]] = [[None] * (across * (parts + 1)) for _ in range(lines * (ranks + 1))]  # NaN is no JSON
    said = [[""] * len(row) for row in z]
    for k, rank, part in np.ndindex(held.shape):
        line, column = divmod(k, across)
        at = line * (ranks + 1) + 1 + rank, column * (parts + 1) + part
        z[at[0]][at[1]] = int(held[k, rank, part])
        said[at[0]][at[1]] = f"{names[k]}, rank {rank}, part {part}"
    return {
        "type": "heatmap",
        "z": z,
        "text": [["" if cell is None else f"{cell}" for cell in row] for row in z],
        "texttemplate": "%{text}",
        "textfont": {"size": style.NOTE, "color": _INK},
        "hovertext": said,
        "hoverongaps": False,
        "zmin": 1,
        "zmax": ranks,
        "xgap": 1,
        "ygap": 1,
        "colorscale": [list(step) for step in _SCALE],
        "showscale": False,
        "hovertemplate": "%{hovertext}<br>gradients added up  %{z}<extra></extra>",
    }


def bucket_times(sizes: Any, library: Any, yours: Any, *, backward_seconds: float, height: int = 320) -> go.Figure:
    """Time until all gradients are sent against the size of a bucket: the library's line, one's own points.

    Args:
        sizes: of a bucket, in MiB, increasing: [n].
        library, yours: seconds from the start of the backward pass: [n] each.
        backward_seconds: when the backward pass ends: nobody can be faster.

    Raises:
        ValueError: no sizes, or arrays that differ in length.

    >>> bucket_times([1, 2], [0.03, 0.02], [0.03, 0.02], backward_seconds=0.01).layout.meta["title"]
    'Best with 2 MiB: 20.0 ms; yours agrees at 2 of 2'
    """
    sizes, library, yours = (np.asarray(values, np.float64) for values in (sizes, library, yours))
    if not sizes.shape == library.shape == yours.shape or not sizes.size:
        raise ValueError("sizes, library and yours must be of one length, at least one size")
    agree = np.isclose(library, yours, rtol=1e-9)
    best = int(np.argmin(library))
    text = f"Best with {sizes[best]:.3g} MiB: {milliseconds(library[best])}"
    title = f"{text}; {agreement(agree)}"
    top = 1.15 * 1e3 * float(max([*library, *yours[np.isfinite(yours)]]))
    x, ends = np.log2(sizes), np.array([np.log2(sizes[0]), np.log2(sizes[-1])])
    ring = traces.marker("circle-open", 9, style.BLUE, line={"width": 2})
    cross = traces.marker("x", 9, style.VERMILION, line={"width": 2})
    alone = traces.reference("the backward pass alone", ends, np.full(2, 1e3 * backward_seconds), style.GREY, "dot")
    line = traces.reference("library", x, 1e3 * library, style.GREEN, "solid")
    same, another = compare_to_library(
        x, 1e3 * yours, agree, ring, cross, "{name}: %{y:.4g} ms", names=(SAME, "yours, another")
    )
    return style.apply_style(
        style.figure(
            [alone, line, same, another],
            {"xaxis": _sizes(ends), "yaxis": axes.axis(0, top, "milliseconds until all is sent")},
        ),
        alt=f"Time until all gradients are sent against the size of a bucket. {title}. The backward pass alone takes "
        f"{milliseconds(backward_seconds)}.",
        title=title,
        subtitle=legend(
            entry(line),
            entry(same, "yours"),
            entry(another, "yours, where it differs", "✕"),
            entry(alone, "end of the backward pass"),
        ),
        height=height,
    )


def _sizes(ends: np.ndarray) -> dict[str, Any]:
    """An axis of log2 of the sizes between these ends, a label at every second power of two."""
    sizes = 2.0 ** np.arange(np.ceil(ends[0]), ends[1] + 0.01, 2)
    ticks = axes.ticks(np.log2(sizes), map("{:g}".format, sizes))
    return axes.axis(ends[0] - 0.2, ends[1] + 0.2, "MiB of gradient in a bucket", **ticks)
