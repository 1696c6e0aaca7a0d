"""Sums in a narrow register: beside the true sum as they grow, and their error against the length of the chunks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.compare_to_library import agreement, compare_to_library
from lplab.figures.legend import SIGNS, entry, legend

GOOD_ERROR = 0.01  # relative error below which chunks count as good


def running_sum(
    lengths: Any,
    register: Any,
    true: Any,
    *,
    name: str,
    last: tuple[float, float] | None = None,
    title: str = "",
    height: int = 360,
) -> go.Figure:
    """The running sum in a register beside the true one.

    Args:
        lengths: how many numbers have been added, [n].
        register: the sum in the register after so many, [n]; where it is infinite the line ends with a mark.
        true: the exact sums, [n].
        name: of the register, for the legend, such as "1-6-9, no chunks".
        last: where the sum overflows between two of the lengths, the last finite one: how many numbers, and their sum
            in the register. Without it the mark stands at the last finite sum of those given.
        title: the point that it makes; by default where the sum ends.
        height: in pixels.

    Raises:
        ValueError: lengths, register and true differ in length.

    >>> running_sum([1024, 2048], [1024, 1024], [1024, 2048], name="1-6-9").layout.meta["title"]
    '1-6-9: 1,024 instead of 2,048 (50.0 % off)'
    """
    x, y, exact = (np.asarray(values, np.float64) for values in (lengths, register, true))
    if not x.shape == y.shape == exact.shape or x.ndim != 1:
        raise ValueError(f"lengths, register and true must be of one length, got {x.shape}, {y.shape}, {exact.shape}")
    start = np.zeros(1)
    x, y, exact = (np.concatenate([start, values]) for values in (x, y, exact))
    text = title or f"{name}: {grouped(y[-1])} instead of {grouped(exact[-1])} ({off(y[-1], exact[-1])})"
    low, high = _ends(exact)
    added, held = x, np.where(np.isfinite(y), y, np.nan)
    if last is not None:
        place = int(np.searchsorted(x, last[0], side="right"))
        added, held = np.insert(x, place, last[0]), np.insert(held, place, last[1])
    lines = [
        _line("true sum", x, exact, style.GREEN, "solid", 4.0),
        _line("register", added, held, style.BLUE, "dash", 2.2),
    ]
    end = np.zeros(added.shape, bool)
    end[np.flatnonzero(np.isfinite(held))[-1]] = not np.isfinite(y).all()  # the last sum before an overflow
    lines[1] |= {
        "mode": "lines+markers+text",
        "marker": traces.marker("x", 0, style.BLUE) | {"size": np.where(end, 11.0, 0.0)},
        "text": np.where(end, "then −∞ " if np.isneginf(y).any() else "then ∞ ", ""),
        "textposition": "top left",
        "textfont": {"size": style.NOTE},
    }
    layout = {
        "xaxis": axes.axis(0, 1.02 * float(x[-1]), "numbers added", tickformat=",d"),  # room for a mark at the end
        "yaxis": axes.axis(low, high, "sum", tickformat=",d"),
    }
    half = len(y) // 2
    at_half = f"Halfway: {grouped(y[half])} instead of {grouped(exact[half])}."
    return style.apply_style(
        style.figure(lines, layout),
        alt=f"Running sum of {grouped(x[-1])} numbers in {name}. {text}. {at_half}",
        title=text,
        subtitle=legend(entry(lines[0]), entry(lines[1], name, SIGNS["dash"])),
        height=height,
        r=28,
    )


def chunk_error(
    chunks: Any,
    errors: Any,
    yours: Any = None,
    *,
    name: str,
    names: tuple[str, str] = ("library", "yours"),
    height: int = 320,
) -> go.Figure:
    """Relative error of a sum against the length of its chunks, both on logarithmic axes.

    Args:
        chunks: lengths, powers of two, [n].
        errors: relative errors of the library's sums, [n]; those below 0.01 % are drawn there.
        yours: those of another function, [n], as open circles; those that differ from the library's as crosses.
        name: of what is summed, for the title.
        names: of the errors and of those of the other function, for the legend.
        height: in pixels.

    Raises:
        ValueError: arguments of different length.

    >>> chunk_error([1, 64], [0.94, 0.001], [0.94, 0.5], name="Sums").layout.meta["title"]
    'Sums: under 1 % off with chunks of 64; yours agrees at 1 of 2'
    """
    x, y = np.log2(np.asarray(chunks, np.float64)), np.asarray(errors, np.float64)
    own = np.full(y.shape, np.nan) if yours is None else np.asarray(yours, np.float64)
    if not x.shape == y.shape == own.shape or x.ndim != 1:
        raise ValueError(f"chunks, errors and yours must be of one length, got {x.shape}, {y.shape}, {own.shape}")
    agree = own == y
    text = f"{name}: {_good_chunks(x, y)}" + (f"; {agreement(agree, who=names[1])}" if yours is not None else "")
    is_number = ~np.isnan(own)
    ring, cross = (traces.marker(symbol, 13, style.VERMILION, 2) for symbol in ("circle-open", "x"))
    hover = "{name}<br>chunk  %{customdata[0]:,d}<br>error  %{customdata[1]:.3g} %"
    look = traces.stroke(style.BLUE, 1.6), {"size": 7, "color": style.BLUE}
    library = traces.curve(names[0], x, _errors_on_axis(y), *look, hover, customdata=_numbers(x, y))
    dots = compare_to_library(
        x[is_number],
        _errors_on_axis(own[is_number]),
        agree[is_number],
        ring,
        cross,
        hover,
        names=(f"{names[1]}, the same", f"{names[1]}, different"),
        customdata=_numbers(x[is_number], own[is_number]),
    )
    places, decades = np.arange(x.min(), x.max() + 1, 2), np.array([0.0001, 0.001, 0.01, 0.1, 1.0])
    lengths = axes.ticks(places, [f"{2**place:,.0f}" for place in places])
    shares = axes.ticks(decades, [f"{100 * decade:g}" for decade in decades])
    layout = {
        "xaxis": axes.axis(float(x.min()) - 0.4, float(x.max()) + 0.4, "length of a chunk", **lengths),
        "yaxis": axes.axis(-4.2, 0.3, "relative error (%)", type="log", **shares),
    }
    told = ", ".join(f"{number_text.percent(e)} at {2**c:,.0f}" for c, e in zip(x, y, strict=True))
    return style.apply_style(
        style.figure([library, *dots], layout),
        alt=f"Relative error against the length of the chunks: {told}. {text}.",
        title=text,
        subtitle=legend(entry(library), *(map(entry, dots) if yours is not None else ())),
        height=height,
    )


def _good_chunks(x: np.ndarray, errors: np.ndarray) -> str:
    """The lengths with an error under 1 %, or the best one: over a flat floor it is chance which of them is best."""
    lengths = np.round(2**x)
    good = lengths[errors < GOOD_ERROR]
    if not len(good):
        return f"best with chunks of {lengths[np.argmin(errors)]:,.0f}"
    ends = f"{good.min():,.0f}" + (f" to {good.max():,.0f}" if len(good) > 1 else "")
    return f"under {100 * GOOD_ERROR:.0f} % off with chunks of {ends}"


def grouped(value: float) -> str:
    """A sum as text, with its thousands apart.

    >>> grouped(65565.117), grouped(-4096.0), grouped(float("inf")), grouped(0.25)
    ('65,565', '−4,096', '∞', '0.25')
    """
    if not math.isfinite(value):
        return number_text.number(value)
    return (f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}").replace(
        "-", number_text.MINUS
    )


def off(value: float, true: float) -> str:
    """How far a sum is from the true one, in words.

    >>> off(4096, 65565), off(1.0, 1.0), off(float("inf"), 2.0)
    ('93.8 % off', 'exact', 'overflow')
    """
    if not math.isfinite(value):
        return "overflow"
    if value == true:
        return "exact"
    return (
        f"{number_text.percent(abs(value - true) / abs(true))} off"
        if true and abs(value - true) < 10 * abs(true)
        else "far off"
    )


def _ends(exact: np.ndarray) -> tuple[float, float]:
    """The ends of the axis: from the true sums alone, so that no position of a control moves it without need.

    They are rounded outwards, so that true sums that differ by little have the same axis.
    """
    low, high = float(min(exact.min(), 0)), float(max(exact.max(), 0))
    span = max(high - low, 1.0)
    unit = 10.0 ** math.floor(math.log10(span)) / 4  # 2,500 for 65,536
    up, down = (unit * math.ceil((end + 0.08 * span) / unit) if end > 0 else 0.0 for end in (high, -low))
    least = 0.02 * (up + down or span)
    return -max(down, least), max(up, least)


def _line(name: str, x: np.ndarray, y: np.ndarray, colour: str, dash: str, width: float) -> dict[str, Any]:
    hover = "{name}<br>numbers  %{x:,d}<br>sum      %{y:,.6g}"
    return traces.line(name, x, y, traces.stroke(colour, width, dash), hover)


def _errors_on_axis(errors: np.ndarray) -> np.ndarray:
    """Errors as far as the axis shows them."""
    return np.maximum(errors, 1e-4)


def _numbers(x: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """What the box under the pointer names: the length of the chunks, and the error in percent."""
    return np.stack([np.round(2**x), 100 * errors], axis=1)
