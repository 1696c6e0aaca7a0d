"""Marks on a roofline that were published or measured, by shape and by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.figures import provenance, style

SPAN = (1.0, 20_000.0)  # operations per byte of the whole figure


@dataclass(frozen=True)
class RooflineMark:
    """A point that was measured or published: a name, operations per byte, operations a second, and their range.

    Where the operations per byte are unknown, ``intensity`` is NaN and the mark is drawn at the edge.
    """

    name: str
    intensity: float
    ops_per_second: float
    low: float | None = None
    high: float | None = None


def _words(marks: Sequence[RooflineMark]) -> list[str]:
    """What stands beside the marks: of those whose names begin alike ("fp32, …") only beside the last."""
    heads = [_head(mark) for mark in marks]
    return [f" {head} " if head not in heads[i + 1 :] else "" for i, head in enumerate(heads)]


def _head(mark: RooflineMark) -> str:
    return mark.name.split(",")[0]


def _chains(marks: Sequence[RooflineMark]) -> list[RooflineMark]:
    """The marks with a gap wherever a name begins otherwise, so that a line joins those that belong together."""
    result: list[RooflineMark] = []
    for mark in marks:
        if result and _head(result[-1]) != _head(mark):
            result.append(RooflineMark("", np.nan, np.nan))
        result.append(mark)
    return result


def _places(kind: str, marks: Sequence[RooflineMark]) -> np.ndarray:
    """Where words stand: measured ones at the right, from the third name on above, as int8 may be as fast as bf16."""
    heads = list(dict.fromkeys(_head(mark) for mark in marks if mark.name))
    right = ["top right" if _head(m) in heads[2:] else "bottom right" for m in marks] or ["bottom right"]
    return np.array(["middle left"] * len(right) if kind == "published" else right, dtype=str)


def marks_trace(kind: str, marks: Sequence[RooflineMark], hidden_at: float) -> dict[str, Any]:
    """A trace of marks of one kind ("published" or "measured"); without any, one that is hidden at some rate.

    >>> marks_trace("measured", [RooflineMark("fp32, 64", 10.0, 1e12)], 1e12)["text"].tolist()
    [' fp32 ']
    """
    marks = _chains(marks)
    x = np.array([SPAN[1] / 3 if np.isnan(m.intensity) and m.name else m.intensity for m in marks])
    y = np.array([m.ops_per_second for m in marks])
    up = np.array([(m.high or m.ops_per_second) - m.ops_per_second for m in marks])
    down = np.array([m.ops_per_second - (m.low or m.ops_per_second) for m in marks])
    bars = {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 2, "width": 5}
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "name": kind,
        "line": {"color": provenance.STYLES[kind][2], "width": 1},
        "x": x if len(x) else np.array([SPAN[0]]),
        "y": y if len(y) else np.array([hidden_at]),
        "error_y": bars | {"visible": bool(len(marks)), "color": provenance.STYLES[kind][2]},
        "marker": provenance.marker(kind, 11),
        "text": np.array(_words(marks) or [""], dtype=str),
        "customdata": np.array([m.name for m in marks] or [""], dtype=str),
        "textposition": _places(kind, marks),
        "textfont": {"size": style.NOTE},
        "visible": bool(len(marks)),
        "hovertemplate": f"%{{customdata}}, {kind}<br>%{{y:.3g}} operations a second<extra></extra>",
    }
