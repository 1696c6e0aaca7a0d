"""One panel of a figure that has several, as a figure of its own."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from lplab.figures import style
from lplab.figures.stacked import axis_name


def panel(fig: go.Figure, y: str, *, height: int, title: str = "", subtitle: str = "") -> go.Figure:
    """The panel with this y axis as a figure; alt text and margins are those of the whole.

    Args:
        fig: a figure of this package.
        y: the panel's y axis, such as "y2".
        height: in pixels.
        title: the point that it makes; by default that of the whole.
        subtitle: in place of the whole's.

    Raises:
        ValueError: no trace has that y axis.

    >>> from lplab import figures
    >>> both = figures.stacked([figures.error_curve("e4m3fn", octaves=(-12, 10))])
    >>> len(panel(both, "y", height=300).data) < len(both.data)
    True
    """
    data, layout = style.as_plain_dicts(fig)
    inside = [trace for trace in data if trace.get("yaxis", "y") == y]
    if not inside:
        raise ValueError(f"no trace has the y axis {y!r}")
    x = inside[0].get("xaxis", "x")
    own = {"x": x, "y": y}
    marks: dict[str, Any] = {
        kind: [
            mark | {"xref": _axis_in_panel(mark, "xref", own), "yref": _axis_in_panel(mark, "yref", own)}
            for mark in layout.get(kind, ())
            if mark.get("yref", "y").split(" ")[0] == y
        ]
        for kind in ("shapes", "annotations")
    }
    axes = {f"{letter}axis": _full_size_axis(layout[axis_name(name)]) for letter, name in own.items()}
    others = {name: value for name, value in layout.items() if name[:5] not in ("xaxis", "yaxis")}
    made = style.figure([trace | {"xaxis": "x", "yaxis": "y"} for trace in inside], others | axes | marks)
    meta = layout["meta"]
    return style.apply_style(
        made,
        alt=meta["alt"],
        title=title or meta["title"],
        subtitle=subtitle or meta.get("subtitle", ""),
        height=height,
        t=layout["margin"]["t"],
        l=layout["margin"]["l"],
        r=layout["margin"]["r"],
    )


def _axis_in_panel(mark: dict[str, Any], ref: str, own: dict[str, str]) -> str:
    """The axis of a shape or an annotation in the figure of its panel.

    >>> _axis_in_panel({"xref": "x3 domain"}, "xref", {"x": "x3"})
    'x domain'
    """
    name, *more = str(mark.get(ref, ref[0])).split(" ")
    return " ".join([ref[0] if name == own[ref[0]] else name, *more])


def _full_size_axis(axis: dict[str, Any]) -> dict[str, Any]:
    """An axis over the whole of its figure."""
    return {name: value for name, value in axis.items() if name not in ("domain", "anchor")}
