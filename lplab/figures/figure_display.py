"""Update a figure on the screen in place, and show a static one."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures.style import CONFIG, as_plain_dicts, themed

_KEPT = ("template", "width", "autosize", "uirevision")  # what belongs to the live figure's place, not to the data


def update(live: Any, new: go.Figure) -> Any:
    """Make a live figure equal to a new one, in one ``batch_update`` that sends only what differs; returns ``live``.

    Args:
        live: a ``go.Figure``, a ``go.FigureWidget`` or a subclass, made by the same function of this package.
        new: the figure as it should be now.

    Raises:
        ValueError: the traces differ in number or type, so that these are not two states of one figure.

    >>> shown = go.Figure(go.Scatter(x=np.arange(3), y=np.arange(3)))
    >>> update(shown, go.Figure(go.Scatter(x=np.arange(3), y=np.arange(3) ** 2))).data[0].y
    array([0, 1, 4])
    """
    (traces, layout), (new_traces, new_layout) = as_plain_dicts(live), as_plain_dicts(new)
    kinds, new_kinds = [t["type"] for t in traces], [t["type"] for t in new_traces]
    if kinds != new_kinds:
        raise ValueError(f"not two states of one figure: its traces are {kinds}, the new ones {new_kinds}")
    with live.batch_update():
        for k, (trace, old, fresh) in enumerate(zip(live.data, traces, new_traces, strict=True)):
            arrays = _assign(trace, old, fresh, ("type", "uid"))
            if arrays:  # as plotly itself does for a trace in a batch, but without a check and a copy of every array
                live._batch_trace_edits.setdefault(k, {}).update(arrays)
        _assign(live.layout, layout, new_layout, _KEPT)
    return live


def _assign(target: Any, old: dict[str, Any], new: dict[str, Any], kept: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Set each property of a trace or a layout that differs; None where the new figure has none.

    Returns:
        The arrays that differ, which are not set: plotly takes longer to check them than a figure takes to be made, and
        what this package makes is checked by its tests.
    """
    arrays = {}
    for name in old.keys() | new.keys():
        if name in kept or same(old.get(name), new.get(name)):
            continue
        if isinstance(new.get(name), np.ndarray):
            arrays[name] = new[name]
        else:
            target[name] = new.get(name)
    return arrays


def same(a: Any, b: Any) -> bool:
    """Whether two property values are equal, arrays and NaN included.

    >>> same({"y": np.array([1.0, np.nan])}, {"y": np.array([1.0, np.nan])}), same([1], [2])
    (True, False)
    """
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape and a.dtype == b.dtype):
            return False
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


class StaticFigure:
    """A figure for the end of a notebook cell, without a widget: image and alt text.

    The alt text is the plain-text form of the output (terminals, text browsers) and part of its metadata.
    """

    def __init__(self, fig: go.Figure) -> None:
        self.figure = fig
        self.alt = str((fig.layout.meta or {}).get("alt", ""))

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        mime = "application/vnd.plotly.v1+json"
        # A responsive figure takes the height of its box, and the box of a static output has none.
        bundle = self.figure.to_plotly_json() | {"config": {**CONFIG, "responsive": False}}
        return {mime: bundle, "text/plain": self.alt}, {mime: {"alt": self.alt}}


def show(fig: go.Figure, theme: str = "light") -> StaticFigure:
    """Show a figure that stays as it is in a notebook, in the ink of one theme: the last line of a cell.

    >>> from lplab.figures.style import apply_style
    >>> show(apply_style(go.Figure(), alt="An empty figure.", title="Nothing yet"))
    An empty figure.
    """
    return StaticFigure(themed(fig, theme))
