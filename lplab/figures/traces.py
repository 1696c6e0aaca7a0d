"""The traces of which every figure is made: lines, points, curves, bars and words, as plain dictionaries.

A figure is a list of traces and a layout of axes and shapes. Its legend is made from the same traces, so that its
signs cannot differ from what is drawn:

>>> import numpy as np
>>> from lplab.figures import axes, shapes, style, traces
>>> from lplab.figures.legend import entry, legend
>>> steps, losses = np.arange(3.0), np.array([2.0, 1.5, 1.2])
>>> loss = traces.line("loss", steps, losses, traces.stroke(style.BLUE, 2, "dash"), "{name} %{y:.2f} in step %{x}")
>>> mark = traces.points("worst", steps[:1], losses[:1], traces.marker("x", 9, style.VERMILION))
>>> layout = {"xaxis": axes.axis(0, 2, "step"), "yaxis": axes.axis(0, 3, "loss"), "shapes": [shapes.upright(1)]}
>>> fig = style.apply_style(
...     style.figure([loss, mark], layout),
...     alt="The loss falls from 2 to 1.2.",
...     title="The loss falls",
...     subtitle=legend(entry(loss), entry(mark, "the worst step")),
... )
>>> fig.layout.meta["subtitle"]
"<span style='color:#0072B2'>╍</span> loss    <span style='color:#D55E00'>×</span> the worst step"
>>> fig.data[0].hovertemplate, fig.data[1].hoverinfo
('loss %{y:.2f} in step %{x}<extra></extra>', 'skip')

All functions share their arguments:

- ``name`` of the trace; tests, exported tables and the legend use it.
- ``x`` and ``y``, arrays of one length, one number for each point; NaN in ``y`` leaves a gap.
- ``hover``, what the box under the pointer says, in plotly's words; ``{name}`` is the trace's name. Without it the
  trace has no box.
- ``more``, any other property of plotly's trace. In ``meta={"phone": {…}}`` stands what it is instead on a phone, where
  names stand above their rows (``phoneForm`` in lplab/widgets/static/figure_parts.js).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab.figures import style


def stroke(colour: str, width: float, dash: str = "", **more: Any) -> dict[str, Any]:
    """How a line is drawn: its colour, its width in pixels and, unless it is solid, its dash.

    >>> stroke("#000000", 2, "dot")
    {'color': '#000000', 'width': 2, 'dash': 'dot'}
    """
    return {"color": colour, "width": width} | ({"dash": dash} if dash else {}) | more


def marker(symbol: Any, size: Any, colour: str, edge: float = 0, **more: Any) -> dict[str, Any]:
    """How points are drawn: symbol and size in pixels (one, or one for each), colour, width of an open symbol's edge.

    >>> marker("circle-open", 9, "#000000", edge=2)
    {'symbol': 'circle-open', 'size': 9, 'color': '#000000', 'line': {'width': 2, 'color': '#000000'}}
    """
    edged = {"line": {"width": edge, "color": colour}} if edge else {}
    return {"symbol": symbol, "size": size, "color": colour} | edged | more


def provenance(kind: str, size: float) -> dict[str, Any]:
    """The marker of a number that is "modelled", "published" or "measured" (``style.PROVENANCE``).

    >>> provenance("published", 9)["symbol"]
    'diamond-open'
    """
    symbol, colour = style.PROVENANCE[kind]
    return marker(symbol, size, colour, edge=2)


def line(name: str, x: np.ndarray, y: np.ndarray, look: dict[str, Any], hover: str = "", **more: Any) -> dict[str, Any]:
    """A line through the points, drawn as :func:`stroke` says."""
    return _scatter(name, x, y, hover, {"mode": "lines", "line": look} | more)


def points(
    name: str, x: np.ndarray, y: np.ndarray, look: dict[str, Any], hover: str = "", **more: Any
) -> dict[str, Any]:
    """The points alone, drawn as :func:`marker` says."""
    return _scatter(name, x, y, hover, {"mode": "markers", "marker": look} | more)


def curve(
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    line_look: dict[str, Any],
    point_look: dict[str, Any],
    hover: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Points and a line through them, drawn as :func:`stroke` and :func:`marker` say."""
    return _scatter(name, x, y, hover, {"mode": "lines+markers", "line": line_look, "marker": point_look} | more)


def bars(name: str, x: np.ndarray, y: np.ndarray, look: dict[str, Any], hover: str = "", **more: Any) -> dict[str, Any]:
    """A bar for each point; ``look`` is plotly's marker of bars, such as those of ``style.OUTCOME_STYLES``."""
    return {"type": "bar", "name": name, "x": x, "y": y, "marker": look} | _box(name, hover) | more


def words(
    name: str, x: np.ndarray, y: np.ndarray, text: Sequence[str] | np.ndarray, place: Any = None, **more: Any
) -> dict[str, Any]:
    """Text at the points, in the small size: one trace, as a browser takes a millisecond for each annotation.

    Args:
        name, x, y, more: as for every trace.
        text: one for each point.
        place: where it stands beside its point, such as "middle right"; one for all, or an array.

    >>> words("names", np.zeros(1), np.ones(1), ["fp16"], "top center")["textfont"]
    {'size': 11}
    """
    where = {} if place is None else {"textposition": place}
    written = {"text": np.array(text, dtype=str), "textfont": {"size": style.NOTE}}
    return _scatter(name, x, y, "", {"mode": "text"} | written | where | more)


def reference(name: str, x: np.ndarray, y: np.ndarray, colour: str, dash: str) -> dict[str, Any]:
    """A line to compare with, without a box: a staircase, a diagonal, a formula. Without points it is hidden.

    >>> reference("unchanged", np.empty(0), np.empty(0), style.GREEN, "dash")["visible"]
    False
    """
    return line(name, x, y, stroke(colour, 1.5, dash), visible=bool(len(x)))


ONE_LINE = 0.16  # of the axis: a range that has room for its name in one line


def region_names(
    regions: list[tuple[str, float, float]], span: float, top: float, *, axis: str = "", visible: bool = True
) -> dict[str, Any]:
    """The names of shaded ranges (:func:`lplab.figures.shapes.region`), at their top.

    Args:
        regions: name, start and end of each; one narrower than a tenth of ``span`` stays without a name.
        span: length of the x axis.
        top: upper end of the y axis.
        axis: of the y axis: "", "2" ...
        visible: False for a figure that has the ranges only in another state.

    >>> region_names([("to zero", 0, 4), ("subnormal", 4, 4.5)], 10, 1.0)["text"].tolist()
    ['to zero', '']
    """
    names = []
    for text, low, high in regions:
        short = text.replace("subnormal", "sub-<br>normal") if high - low < ONE_LINE * span else text
        names.append(short if high - low >= 0.1 * span else "")
    middles = np.array([(low + high) / 2 for _, low, high in regions])
    y = np.full(len(regions), 0.97 * top)
    more = {"yaxis": f"y{axis}", "showlegend": False, "visible": visible}
    return words("names of the ranges", middles, y, names, "bottom center", **more)


def segments(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """One coordinate of separate strokes as one line with gaps: a trace or a shape for each would be slow to draw.

    >>> segments(np.array([1.0, 2.0]), np.array([1.5, 2.5])).tolist()
    [1.0, 1.5, nan, 2.0, 2.5, nan]
    """
    return np.column_stack([starts, ends, np.full(len(starts), np.nan)]).ravel()


def joined(lines: Sequence[np.ndarray]) -> np.ndarray:
    """One coordinate of several lines as one line with a gap behind each.

    >>> joined([np.array([1.0, 2.0]), np.array([3.0])]).tolist()
    [1.0, 2.0, nan, 3.0, nan]
    """
    gap = np.array([np.nan])
    return np.concatenate([part for each in lines for part in (each, gap)] or [np.empty(0)])


def _scatter(name: str, x: np.ndarray, y: np.ndarray, hover: str, more: dict[str, Any]) -> dict[str, Any]:
    return {"type": "scatter", "name": name, "x": x, "y": y} | _box(name, hover) | more


def _box(name: str, hover: str) -> dict[str, Any]:
    """The box under the pointer, or that there is none."""
    text = hover.replace("{name}", name)
    return {"hovertemplate": f"{text}<extra></extra>"} if hover else {"hoverinfo": "skip"}
