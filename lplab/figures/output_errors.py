"""How far a layer's output is off under several ways of rounding, a row for each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.number_text import percent


def output_errors(
    errors: Mapping[str, float], chosen: str, *, what: str, title: str = "", height: int = 0
) -> go.Figure:
    """A point for each way on a logarithmic axis; a line leads to it from the left.

    Args:
        errors: as a share of the output's norm, by way; above 0.
        chosen: the way to mark.
        what: whose error it is, for the axis.
        title: the point that it makes; by default the error of the chosen way.
        height: in pixels; by default by the number of rows.

    Raises:
        ValueError: no way, an error that is not a finite number above 0, or a chosen way that is not there.

    >>> output_errors({"nearest": 0.2, "GPTQ": 0.1}, "GPTQ", what="the output").layout.meta["title"]
    'GPTQ: an error of 10.0 %'
    """
    rows = axes.row_axis(errors, chosen)
    values = np.array(list(errors.values()), np.float64)
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"errors must be finite and above 0, got {dict(errors)}")
    low, top = float(np.floor(np.log10(values.min()) - 0.1)), float(np.log10(values.max()))
    high = top + 0.6 * (top - low)  # room for a number beside its mark, on a phone, too
    y, texts = rows["tickvals"], np.array([f"   {percent(value)}" for value in values.tolist()], dtype=str)
    here = np.array(list(errors)) == chosen
    lines = traces.line(
        "from the left",
        traces.segments(np.full(len(y), 10.0**low), values),
        traces.segments(y, y),
        traces.stroke(style.GREY, 1, "dot"),
    )
    points = traces.points(
        "error",
        values,
        y,
        {
            "symbol": np.where(here, "diamond", "circle"),
            "size": np.where(here, 14, 10),
            "color": np.where(here, style.VERMILION, style.BLUE),
            "opacity": 1,
            "line": {"width": 0},
        },
        "%{text}",
        text=np.array([f"{name} {percent(value)}" for name, value in errors.items()], dtype=str),
    )
    decades = np.arange(low, np.floor(high) + 1)
    ticks = axes.ticks(10.0**decades, [f"{100 * 10.0**decade:g} %" for decade in decades.tolist()])
    layout = {"xaxis": axes.axis(low, high, f"error of {what}", type="log") | ticks, "yaxis": rows}
    told = "; ".join(f"{name} {percent(value)}" for name, value in errors.items())
    return style.apply_style(
        style.figure([lines, points, traces.words("errors", values, y, texts, "middle right")], layout),
        alt=f"Error of {what}. {told}.",
        title=title or f"{chosen}: an error of {percent(errors[chosen])}",
        height=height or 120 + 44 * len(errors),
        l=150,
    )
