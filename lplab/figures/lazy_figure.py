"""Figures as plain dictionaries, and a plotly Figure only on demand, which is faster for sliders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any

import plotly.graph_objects as go

_wanted: ContextVar[bool] = ContextVar("as_dicts", default=False)


@contextmanager
def as_dicts() -> Iterator[None]:
    """Within the block the functions of ``lplab.figures`` return a :class:`LazyFigure`, which is made much faster.

    >>> from lplab import figures
    >>> with as_dicts():
    ...     drawn = figures.number_line("e2m1")
    >>> type(drawn).__name__, drawn.layout.meta["title"]
    ('LazyFigure', "Half of e2m1's numbers lie within ±2")
    """
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


class LazyFigure:
    """Traces and layout; a plotly Figure as soon as something else is asked of it, which costs as much as the drawing.

    ``figures.update`` and ``figures.stacked`` take it as it is; everything else wants its ``figure``.
    """

    def __init__(self, data: list[dict[str, Any]], layout: dict[str, Any]) -> None:
        self._data, self._layout = data, layout

    @cached_property
    def figure(self) -> go.Figure:
        """The drawing as a plotly Figure."""
        return _unchecked_figure(self._data, self._layout)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.figure, name)


def _unchecked_figure(data: list[dict[str, Any]], layout: dict[str, Any]) -> go.Figure:
    fig = go.Figure(data=data, layout=layout, _validate=False)
    for part in (fig, fig.layout, *fig.data):
        part._validate = True
    return fig


def figure(data: list[dict[str, Any]], layout: dict[str, Any]) -> go.Figure:
    """A Figure of our own dicts, without plotly's check of every property; inside :func:`as_dicts` not even that.

    What is set later is checked as always; the tests of the figures check what we put in.

    >>> figure([{"type": "scatter", "y": [1, 2]}], {"height": 300}).update_layout(hieght=200)
    Traceback (most recent call last):
    ...
    ValueError: Invalid property specified for object of type plotly.graph_objs.Layout: 'hieght'...
    """
    return LazyFigure(data, layout) if _wanted.get() else _unchecked_figure(data, layout)


def as_plain_dicts(fig: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The traces and the layout of a figure as the dictionaries in which plotly keeps them: no copies, read only.

    ``to_plotly_json`` makes a deep copy, which takes longer than drawing the figure.

    >>> traces, layout = as_plain_dicts(go.Figure(go.Scatter(y=[1, 2]), layout={"height": 300}))
    >>> traces[0]["type"], layout["height"]
    ('scatter', 300)
    """
    return list(fig._data), fig._layout
