"""A rounding as a staircase, and another rounding as points on top of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.compare_to_library import DIFFERENT, compare_to_library
from lplab.figures.legend import entry, legend
from lplab.figures.statistics import as_format, name_of, rounding_text


def staircase(
    fmt: Any,
    yours: tuple[Any, Any] | None = None,
    *,
    low: float = -1.0,
    high: float = 1.0,
    rounding: str = "nearest_even",
    rings: Any = (),
) -> go.Figure:
    """The results of a rounding over the numbers from ``low`` to ``high``, and those of another one as points.

    Args:
        fmt: a format or its name.
        yours: inputs and results of a rounding to compare, 1-d arrays of equal length; results that differ from the
            format's are crosses, the others dots.
        low, high: the range of inputs shown.
        rounding: of the format, one of ``lplab.formats.ROUNDINGS`` but stochastic.
        rings: inputs whose results get a ring, such as the ties.

    Raises:
        ValueError: ``low`` is not below ``high``, or inputs and results differ in length.

    >>> fig = staircase("e2m1", ([0.2, 0.6, 0.75], [0.0, 0.5, 0.5]))
    >>> [len(trace.x) for trace in fig.data[2:4]], fig.layout.meta["title"]
    ([2, 1], '1 of 3 results differ from e2m1')
    """
    if not low < high:
        raise ValueError(f"low must be below high, got {low} and {high}")
    fmt = as_format(fmt)
    x, results = (np.asarray(part, np.float64).ravel() for part in yours) if yours is not None else (np.empty(0),) * 2
    if len(x) != len(results):
        raise ValueError(f"{len(x)} inputs but {len(results)} results")
    differs = ~_equal_or_both_nan(results, np.asarray(fmt.quantize(x, rounding)))
    steps = np.linspace(low, high, 2001)
    unchanged = traces.reference("unchanged", np.array([low, high]), np.array([low, high]), style.GREEN, "dash")
    stairs = traces.reference(name_of(fmt), steps, np.asarray(fmt.quantize(steps, rounding)), style.GREY, "solid")
    dot, cross = traces.marker("circle", 4, style.BLUE), traces.marker("x", 7, style.VERMILION)
    hover = "x       %{x:.6g}<br>result  %{y:.6g}"
    same, different = compare_to_library(x, results, ~differs, dot, cross, hover, names=("as the format", "different"))
    at = np.isin(x, np.asarray(rings, np.float64))
    ring = traces.points("yours, a tie", x[at], results[at], traces.marker("circle-open", 10, style.BLUE, 1.6), hover)
    layout = {"xaxis": axes.axis(low, high, "x"), "yaxis": axes.axis(low, high, "result")}
    entries = [entry(stairs), entry(unchanged)]
    entries += [entry(same, "yours"), entry(different, DIFFERENT, "✕")] if len(x) else []
    entries += [entry(ring)] if at.any() else []
    title, alt = _title_and_alt(fmt, len(x), int(differs.sum()), low, high, rounding)
    return style.apply_style(
        style.figure([unchanged, stairs, same, different, ring], layout),
        alt=alt,
        title=title,
        subtitle=legend(*entries),
        height=340,
    )


def _equal_or_both_nan(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def _title_and_alt(fmt: Any, count: int, different: int, low: float, high: float, rounding: str) -> tuple[str, str]:
    """Title and alt text."""
    window = f"from {number_text.number(low, plain=True)} to {number_text.number(high, plain=True)}"
    steps = f"The staircase of {name_of(fmt)} {window}, rounding {rounding_text(rounding)}"
    if not count:
        return f"{name_of(fmt)}, rounding {rounding_text(rounding)}", f"{steps}."
    some, all_of = f"{different:,} of {count:,} results differ from", f"All {count:,} results are those of"
    title = f"{some if different else all_of} {name_of(fmt)}"
    return title, f"{steps}, with {count:,} results of another rounding, of which {different:,} differ."
