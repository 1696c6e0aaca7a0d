"""The rows of the number line: their data and their traces."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab import number_text
from lplab.figures import style, traces
from lplab.figures.grid import element_of, neighbours
from lplab.figures.statistics import name_of

AxisTransform = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Row:
    """What one row of the number line shows.

    Attributes:
        format: the format.
        values: float64: the values in view, or empty if they are too many.
        edges: float64 [n + 1]: the bins of the ribbon, in units of the axis; empty if values are listed.
        counts: float64 [n]: values in each bin.
        normal: the smallest magnitude with full precision.
        goes_on: (to the left, to the right): whether the format has values beyond the view.
        nearest: the value that ``around`` is rounded to, or NaN.
    """

    format: Any
    values: np.ndarray
    edges: np.ndarray
    counts: np.ndarray
    normal: float
    goes_on: tuple[bool, bool]
    nearest: float


def row_traces(
    rows: list[Row], scale: str, view: tuple[float, float], around: float | None, tick: float, half: float
) -> list[dict[str, Any]]:
    """Always the same eight: normal and subnormal ticks, zeros, two ribbons, arrows, the number, what it becomes.

    Args:
        rows: from the top; row i lies at y = −i.
        scale: "linear" or "log".
        view: the ends of the axis, as values.
        around: the number to mark, or None.
        tick: height of a tick in pixels.
        half: half of this height in units of y.
    """

    def position(values: np.ndarray) -> np.ndarray:
        return np.log2(values) if scale == "log" else values

    result: dict[str, list[np.ndarray]] = {kind: [] for kind in _TICKS}
    for row in rows:
        values = row.values[row.values > 0] if scale == "log" else row.values
        size = np.abs(values)
        result["normal"].append(values[size >= row.normal])
        result["subnormal"].append(values[(size < row.normal) & (size > 0)])
        result["zero"].append(values[size == 0])
    most = max((float(row.counts.max(initial=0)) for row in rows), default=0.0)
    return [
        *(_ticks(rows, kind, values, position, half) for kind, values in result.items()),
        _ribbon(rows, "normal", scale, most, half),
        _ribbon(rows, "subnormal", scale, most, half),
        _arrows(rows, position(np.array(view))),
        *_number_marks(rows, around, position, half, tick),
    ]


_TICKS = {  # colour and share of the row's height; 0 is a ring
    "normal": (style.BLUE, 1.0),
    "subnormal": (style.VERMILION, 0.6),
    "zero": (style.GREY, 0.0),
}


def _ticks(
    rows: list[Row], kind: str, numbers: list[np.ndarray], position: AxisTransform, half: float
) -> dict[str, Any]:
    colour, share = _TICKS[kind]
    texts = [text for row, values in zip(rows, numbers, strict=True) for text in hover(row.format, values, kind)]
    x = position(np.concatenate(numbers))
    y = np.concatenate([np.full(len(values), -float(i)) for i, values in enumerate(numbers)])
    is_visible = bool(texts)
    if not share:
        ring = traces.marker("circle-open", 7, colour, 1.6)
        said = np.array(texts, dtype=str)
        return traces.points(kind, x, y, ring, "%{hovertext}", hovertext=said, visible=is_visible)
    # One line with gaps is a single element of the page; as many markers would be drawn one by one.
    ends = half * share * np.array([-1.0, 1.0, np.nan])
    heights, said = (y[:, None] + ends).reshape(-1), np.repeat(np.array(texts, dtype=str), 3)
    look = traces.stroke(colour, 1.6, simplify=False)
    return traces.line(kind, np.repeat(x, 3), heights, look, "%{hovertext}", hovertext=said, visible=is_visible)


def hover(fmt: Any, values: np.ndarray, kind: str) -> list[str]:
    """Value, code and step of each value, for the box that follows the mouse.

    >>> from lplab import formats
    >>> hover(formats.get("e2m1"), np.array([1.5]), "normal")
    ['e2m1  normal<br>value  1.5<br>code   0x3<br>step   0.5']
    """
    if not len(values):
        return []
    element = element_of(fmt)
    below, above = neighbours(element, values)
    digits = -(-element.bits // 4)
    codes = element.encode(values)
    return [
        f"{name_of(fmt)}  {kind}<br>value  {value:.6g}<br>code   0x{int(code):0{digits}X}<br>step   {step:.3g}".replace(
            "-", number_text.MINUS
        )
        for value, code, step in zip(values.tolist(), codes.tolist(), (above - below).tolist(), strict=True)
    ]


def _ribbon(rows: list[Row], kind: str, scale: str, most: float, half: float) -> dict[str, Any]:
    """One outline for all ribbons of a kind: the thicker, the denser the values (logarithmic)."""
    xs, ys = [], []
    for i, row in enumerate(rows):
        if not len(row.counts):
            continue
        centre = (row.edges[1:] + row.edges[:-1]) / 2
        normal = (centre if scale == "log" else np.abs(centre)) >= (
            math.log2(row.normal) if scale == "log" else row.normal
        )
        shown = (row.counts > 0) & (normal if kind == "normal" else ~normal)
        thick = np.where(shown, half * np.maximum(np.log2(1 + row.counts) / math.log2(1 + most), 0.08), 0.0)
        for start, end in _runs(shown):
            x, y = np.repeat(row.edges[start : end + 1], 2)[1:-1], np.repeat(thick[start:end], 2)
            xs += [np.concatenate([x, x[::-1], [x[0], np.nan]])]
            ys += [np.concatenate([y - i, -y[::-1] - i, [y[0] - i, np.nan]])]
    colour = _TICKS[kind][0]
    shape = "" if kind == "normal" else "/"
    pattern = {"shape": shape, "fgcolor": colour, "bgcolor": "rgba(0,0,0,0)", "size": 6, "solidity": 0.6}
    return traces.line(
        f"{kind}, thick where dense",
        np.concatenate(xs) if xs else np.empty(0),
        np.concatenate(ys) if ys else np.empty(0),
        traces.stroke(colour, 0.8),
        fill="toself",
        fillcolor=colour,
        fillpattern=pattern,
        visible=bool(xs),
    )


def _runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """Start and end of each stretch of True.

    >>> _runs(np.array([False, True, True, False, True]))
    [(1, 3), (4, 5)]
    """
    change = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(change[::2], change[1::2], strict=True)]


def _arrows(rows: list[Row], view: np.ndarray) -> dict[str, Any]:
    """Small arrows at the edges beyond which a format goes on."""
    right = np.array([-float(i) for i, row in enumerate(rows) if row.goes_on[1]])
    left = np.array([-float(i) for i, row in enumerate(rows) if row.goes_on[0]])
    symbols = np.array(["triangle-right"] * len(right) + ["triangle-left"] * len(left), dtype=str)
    x, y = np.repeat(view[::-1], (len(right), len(left))), np.concatenate([right, left])
    look = {"symbol": symbols, "size": 9, "color": style.GREY}
    return traces.points("goes on", x, y, look, cliponaxis=False, visible=bool(len(symbols)))


def _number_marks(
    rows: list[Row], around: float | None, position: AxisTransform, half: float, tick: float
) -> list[dict[str, Any]]:
    """The number itself as a dashed line in each row, and a diamond where the format rounds it."""
    is_visible = around is not None and math.isfinite(around)
    x = position(np.array([around if is_visible else 1.0], dtype=np.float64)).repeat(3 * len(rows))
    ends = np.array([half * 1.1, -half * 1.1, np.nan])
    rings = [(-float(i), row.nearest) for i, row in enumerate(rows) if math.isfinite(row.nearest)] if is_visible else []
    y = np.concatenate([ends - i for i in range(len(rows))])
    ring_x = position(np.array([value for _, value in rings], dtype=np.float64))
    ring_y = np.array([y for y, _ in rings], dtype=np.float64)
    look = traces.marker("diamond-open", min(0.6 * tick, 20), style.PINK, 2.5)
    return [
        traces.line("the number itself", x, y, traces.stroke(style.GREEN, 2.5, "5px,3px"), visible=is_visible),
        traces.points("what it becomes", ring_x, ring_y, look, visible=bool(rings)),
    ]
