"""Somebody's results beside the library's: rings where both are the same, crosses where they differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.figures import traces

SAME, DIFFERENT = "yours, the same", "yours, different"


def compare_to_library(
    x: np.ndarray,
    y: np.ndarray,
    same: np.ndarray,
    ring: dict[str, Any],
    cross: dict[str, Any],
    hover: str,
    *,
    names: tuple[str, str] = (SAME, DIFFERENT),
    **columns: np.ndarray,
) -> list[dict[str, Any]]:
    """Two traces of points: first those that are the library's, then those that differ.

    Args:
        x, y: somebody's results, [n].
        same: which of them are the library's, bool [n].
        ring, cross: how the points of both traces are drawn (:func:`lplab.figures.traces.marker`).
        hover: what the box under the pointer says; ``{name}`` is the trace's name.
        names: of the two traces.
        columns: further arrays of the points, [n, ...], such as ``customdata`` or ``text``.

    >>> from lplab.figures import style
    >>> ring, cross = (traces.marker(symbol, 9, style.PINK, edge=2) for symbol in ("circle-open", "x"))
    >>> steps, results = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.7, 0.8])
    >>> both = compare_to_library(steps, results, np.array([True, False, True]), ring, cross, "{name}<br>%{y}")
    >>> [(trace["name"], trace["x"].tolist()) for trace in both]
    [('yours, the same', [1.0, 3.0]), ('yours, different', [2.0])]
    """
    return [
        traces.points(name, x[shown], y[shown], look, hover, **{key: values[shown] for key, values in columns.items()})
        for name, shown, look in zip(names, (same, ~same), (ring, cross), strict=True)
    ]


def agreement(same: np.ndarray, what: str = "", who: str = "yours") -> str:
    """How many of somebody's results are the library's, in words.

    >>> agreement(np.array([True, False, True])), agreement(np.array([True]), "points")
    ('yours agrees at 2 of 3', 'yours agrees at 1 of 1 points')
    """
    return f"{who} agrees at {same.sum()} of {len(same)}" + (f" {what}" if what else "")


def where_different(own: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A line of somebody's results where they differ, and one point before and behind; NaN elsewhere.

    A line that equals the library's would hide what lies below it.

    >>> where_different(np.array([1.0, 2.0, 3.0, 4.0]), np.array([9.0, 2.0, 3.0, 4.0]))
    array([ 1.,  2., nan, nan])
    """
    differs = np.concatenate([[False], own != right, [False]])
    return np.where(differs[:-2] | differs[1:-1] | differs[2:], own, np.nan)
