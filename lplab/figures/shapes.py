"""Shapes and annotations of a layout: lines across a panel, shaded ranges, notes."""

from __future__ import annotations

from typing import Any

from lplab.figures import style


def upright(x: float, width: float = 1.5, dash: str = "dot", **more: Any) -> dict[str, Any]:
    """A grey line at ``x`` over the height of the panel; ``more`` are other properties of plotly's shape.

    >>> upright(3.0, xref="x")["x1"], upright(3.0)["line"]["dash"]
    (3.0, 'dot')
    """
    look = {"color": style.GREY, "width": width, "dash": dash}
    return {"type": "line", "x0": x, "x1": x, "yref": "y domain", "y0": 0, "y1": 1, "line": look} | more


def note(text: str, *, x: float = 1, y: float = 1, **more: Any) -> dict[str, Any]:
    """An annotation in the plot's own coordinates (0 to 1), right-aligned at its edge by default."""
    place = {"xref": "paper", "yref": "paper", "x": x, "y": y, "xanchor": "right", "yanchor": "bottom"}
    return {"text": text} | place | more


def region(low: float, high: float, fill: str, *, axis: str = "") -> dict[str, Any]:
    """A shaded range of x below the data, over the height of the panel with y axis ``axis`` ("", "2" …)."""
    return {
        "type": "rect",
        "layer": "below",
        "line": {"width": 0},
        "fillcolor": fill,
        "xref": "x",
        "x0": low,
        "x1": high,
        "yref": f"y{axis} domain",
        "y0": 0,
        "y1": 1,
        "visible": bool(high > low),
    }
