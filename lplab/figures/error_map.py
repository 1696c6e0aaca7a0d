"""An error map: what rounding does to each number of a matrix, with the edges of the blocks that share a scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.legend import legend

MAX_CELLS = 65_536  # of a map: more would be slow to draw
MAX_EDGES = 64  # lines between blocks in one direction; more would hide the map
ZERO, OFF = 100, 99  # percent that a number is off by: it became zero; the most that any other number is shown with
_EDGE = "rgba(0,0,0,.8)"  # seen on cells of all colours, where grey is not
_HALO = "rgba(255,255,255,.55)"  # around the edges: seen on the dark theme, where black is not
_COLOURS = [  # below 0 what was clipped, at 100 what became zero
    [0.0, "rgb(204,121,167)"],
    [0.4975, "rgb(204,121,167)"],
    [0.4975, "rgba(0,114,178,0)"],
    [0.525, "rgba(0,114,178,.25)"],  # an error of 5 % is seen on the dark theme, too
    [0.6, "rgba(0,114,178,.55)"],
    [0.9975, "rgb(0,114,178)"],
    [0.9975, "rgb(213,94,0)"],
    [1.0, "rgb(213,94,0)"],
]


def error_map(
    x: Any,
    q: Any,
    tile: tuple[int, int],
    clipped: Any = None,
    *,
    rows: str = "row",
    columns: str = "column",
    name: str = "",
    title: str = "",
    height: int = 340,
) -> go.Figure:
    """A heat map of the relative error of each number, above the edges of the blocks that share a scale.

    Blue is as strong as the error is large. Vermilion numbers became zero, pink ones were clipped.

    Args:
        x: the numbers, finite, [rows, columns], at most 65,536.
        q: what they became, of the same shape.
        tile: rows and columns of the matrix that share a scale.
        clipped: which of them lay beyond the largest number of their block; by default none.
        rows, columns: what a row and a column of the matrix stand for.
        name: of the format, for the text.
        title: the point that it makes; by default the signal to noise and the share that becomes zero.
        height: in pixels.

    Raises:
        ValueError: arrays that are no matrices of one shape, too many numbers, or a tile of no numbers.

    >>> fig = error_map([[8.0, 0.1], [1.0, -2.0]], [[8.0, 0.0], [1.25, -2.0]], (1, 2), name="E2M1")
    >>> fig.layout.meta["title"], np.asarray(fig.data[0].z).tolist()
    ('E2M1: 29.8 dB, 25.0 % become zero', [[0, 100], [25, 0]])
    """
    values, rounded = np.asarray(x, np.float64), np.asarray(q, np.float64)
    if values.ndim != 2 or values.shape != rounded.shape or not 1 <= values.size <= MAX_CELLS:
        shapes = f"{values.shape} and {rounded.shape}"
        raise ValueError(f"two matrices of one shape and at most {MAX_CELLS:,} numbers are needed, got {shapes}")
    if min(tile) < 1:
        raise ValueError(f"a tile has at least one row and one column, got {tile}")
    beyond = np.zeros(values.shape, bool) if clipped is None else np.asarray(clipped, bool)
    zeroed = float(np.mean((rounded == 0) & (values != 0)))
    shares = f"{number_text.percent(zeroed)} become zero"
    decibels = number_text.decibels(signal_to_noise(values, rounded))
    text = title or (f"{name}: " if name else "") + f"{decibels}, {shares}"
    more = f", {number_text.percent(float(beyond.mean()))} are clipped" if beyond.any() else ""
    off = [(style.BLUE, "■", "off"), (style.VERMILION, "■", "became zero"), (style.PINK, "■", "clipped")]
    return style.apply_style(
        style.figure(
            [_cells(values, rounded, beyond, rows, columns), *_edges(values.shape, tile)],
            _layout(values.shape, rows, columns),
        ),
        alt=f"Map of the rounding errors of {values.shape[0]} × {values.shape[1]} numbers{f' in {name}' * bool(name)}. "
        f"{min(tile[0], values.shape[0])} × {min(tile[1], values.shape[1])} of them share a scale. "
        f"Signal to noise {decibels}; {shares}{more}.",
        title=text,
        subtitle=legend(*off),
        height=height,
        t=60,
    )


def signal_to_noise(x: np.ndarray, q: np.ndarray) -> float:
    """10·log10(Σx² / Σ(q − x)²) in dB; infinite without error, NaN without signal.

    >>> signal_to_noise(np.array([3.0, 4.0]), np.array([3.0, 3.5])), signal_to_noise(np.ones(2), np.ones(2))
    (20.0, inf)
    """
    signal, noise = float(np.square(x, dtype=np.float64).sum()), float(np.square(q - x, dtype=np.float64).sum())
    if not signal:
        return float("nan")
    return 10 * float(np.log10(signal / noise)) if noise else float("inf")


def percent_off(x: np.ndarray, q: np.ndarray, clipped: np.ndarray) -> np.ndarray:
    """Whole percents that each number is off by: 100 if it became zero, at most 99 otherwise, below 0 if clipped.

    >>> percent_off(np.array([1.0, 1.0, 8.0, 0.0]), np.array([0.75, 0.0, 6.0, 0.0]), np.array([0, 0, 1, 0], bool))
    array([ 25, 100, -25,   0], dtype=int16)
    """
    ratio = np.divide(np.abs(q - x), np.abs(x), out=np.zeros(x.shape), where=x != 0)
    off = np.minimum(np.rint(100 * ratio), OFF)
    off = np.where(clipped, -np.maximum(off, 1), off)
    return np.where((q == 0) & (x != 0), ZERO, off).astype(np.int16)


def _cells(x: np.ndarray, q: np.ndarray, clipped: np.ndarray, rows: str, columns: str) -> dict[str, Any]:
    look = {"colorscale": _COLOURS, "zmin": -100, "zmax": 100, "showscale": False, "zsmooth": False}
    hover = f"{rows} %{{y}}, {columns} %{{x}}<br>off by %{{z}} %<br>(100: became zero; below 0: clipped)"
    return {
        "type": "heatmap",
        "name": "off by (%)",
        "x": np.arange(x.shape[1]),
        "y": np.arange(x.shape[0]),
        "z": percent_off(x, q, clipped),
        "hovertemplate": f"{hover}<extra></extra>",
    } | look


def _edges(shape: tuple[int, ...], tile: tuple[int, int]) -> list[dict[str, Any]]:
    """Dark lines with a bright halo between the blocks; none in a direction in which a block is one number wide.

    Where that leaves no line, one block in the middle has a frame.
    """
    down, right = (
        np.arange(size, length, size) - 0.5 if size > 1 and length / size <= MAX_EDGES else np.empty(0)
        for size, length in zip(tile, shape, strict=True)
    )
    across, along = np.full(len(down), -0.5), np.full(len(right), -0.5)
    x = np.concatenate([traces.segments(across, across + shape[1]), traces.segments(right, right), [np.nan]])
    y = np.concatenate([traces.segments(down, down), traces.segments(along, along + shape[0]), [np.nan]])
    if not len(down) + len(right) and (tile[0] < shape[0] or tile[1] < shape[1]):
        (top, bottom), (left, end) = (
            (first - 0.5, min(first + size, length) - 0.5)
            for size, length in zip(tile, shape, strict=True)
            for first in (length // size // 2 * size,)
        )
        x, y = np.array([left, end, end, left, left]), np.array([top, top, bottom, bottom, top])
    looks = {"halo of the edges": traces.stroke(_HALO, 4), "edges of the blocks": traces.stroke(_EDGE, 2)}
    return [traces.line(name, x, y, look) for name, look in looks.items()]


def _layout(shape: tuple[int, ...], rows: str, columns: str) -> dict[str, Any]:
    plain = {"showgrid": False, "tickformat": "d", "nticks": 8}
    return {
        "xaxis": axes.axis(-0.5, shape[1] - 0.5, columns, **plain),
        "yaxis": axes.axis(shape[0] - 0.5, -0.5, rows, **plain),
    }
