"""Error against bits, a curve for each rule that chooses a clip; and the styles of such rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, shapes, style, traces
from lplab.figures.legend import entry, legend

STYLES = (  # of the rules, in their order: colour, dash, symbol
    (style.VERMILION, "solid", "square"),
    (style.PINK, "dot", "diamond"),
    (style.GREEN, "solid", "triangle-up"),
    (style.BLUE, "dash", "circle"),
    (style.GREY, "dashdot", "cross"),
)
MARK_SIZES = {"triangle-up": 15}  # the least error: its corners are seen where the mark of another rule lies on it


@dataclass(frozen=True)
class ClipRule:
    """What a rule for the clip makes of a tensor.

    Args:
        name: as the legend calls it.
        clip: its clip α at the bits at hand.
        errors: of the tensor at all bits, as shares of its power: [bits]; NaN where the rule knows no clip.
    """

    name: str
    clip: float
    errors: Any


def bits_error(
    bits: Sequence[int],
    rules: Sequence[ClipRule],
    *,
    at: tuple[int, float],
    limits: tuple[float, float],
    title: str = "",
    height: int = 300,
) -> go.Figure:
    """Squared error against bits, a curve for each rule.

    Args:
        bits: of the axis.
        rules: at most five.
        at: bits and error of the position to mark.
        limits: ends of the axis of errors (:func:`~lplab.figures.clips.error_range`).
        title: the point that it makes; by default the errors of the rules at the marked bits.
        height: in pixels.

    Raises:
        ValueError: more than five rules, or another number of errors than of bits.

    >>> rule = ClipRule("max |x|", 3.0, [0.3, 0.01])
    >>> bits_error([2, 4], [rule], at=(2, 0.3), limits=(0.001, 1)).layout.meta["title"]
    '2 bits: max |x| 30.0 %'
    """
    if len(rules) > len(STYLES) or any(len(rule.errors) != len(bits) for rule in rules):
        raise ValueError(f"at most {len(STYLES)} rules, each with {len(bits)} errors, can share a figure")
    x, low = np.array(bits, np.float64), limits[0]
    data = [_rule_curve(trace_style, rule, x, low) for trace_style, rule in zip(STYLES, rules, strict=False)]
    data += [
        _rule_curve(trace_style, ClipRule("", 0.0, np.full(len(x), np.nan)), x, low)
        for trace_style in STYLES[len(rules) :]
    ]
    data.append(_mark_of_controls(*at, low))
    here = list(bits).index(at[0])
    now = {rule.name: float(rule.errors[here]) for rule in rules}
    measured = {name: e for name, e in now.items() if not math.isnan(e)}
    text = title or f"{at[0]} bits: {_first_and_least(measured)}"
    layout = {
        "xaxis": axes.axis(x[0] - 0.3, x[-1] + 0.3, "bits", dtick=1, tick0=int(x[0])),
        "yaxis": error_axis(*limits),
        "shapes": [shapes.upright(at[0], xref="x")],
    }
    # By the symbols, which mark the rules on other panels, too.
    entries = [entry(trace) for trace in data[: len(rules)]]
    told = "; ".join(f"{r.name} " + ", ".join(share(float(e)) for e in r.errors) for r in rules)
    return style.apply_style(
        style.figure(data, layout),
        alt=f"Squared error at {', '.join(map(str, bits))} bits: {told}.",
        title=text,
        subtitle=legend(*entries, per_line=3),
        height=height,
        t=80,
    )


def _first_and_least(errors: Mapping[str, float]) -> str:
    """The first rule's error, and that of the best one."""
    first, best = next(iter(errors)), min(errors, key=lambda name: errors[name])
    text = [f"{name} {share(errors[name])}" for name in dict.fromkeys((first, best))]
    return ", ".join(text)


def share(value: float) -> str:
    """A share of the power in percent, with two significant digits where it is small.

    >>> share(0.29554), share(0.00064), share(4.4e-05), share(float("nan")), share(1.2)
    ('29.6 %', '0.064 %', '0.0044 %', 'none', '120.0 %')
    """
    if math.isnan(value):
        return "none"
    return (
        f"{100 * value:.1f} %"
        if value >= 0.0095 or value == 0
        else f"{float(f'{100 * value:.2g}'):.10f}".rstrip("0") + " %"
    )


def error_axis(low: float, high: float) -> dict[str, Any]:
    """A logarithmic axis of shares of the power, with labels in percent."""
    decades = 10.0 ** np.arange(round(math.log10(low)), 1)
    labels = axes.ticks(decades, [f"{100 * decade:g}" for decade in decades.tolist()])
    return axes.axis(math.log10(low), math.log10(high), "error (% of power)", type="log", **labels)


def _rule_curve(trace_style: tuple[str, str, str], rule: ClipRule, x: np.ndarray, low: float) -> dict[str, Any]:
    colour, dash, symbol = trace_style
    return traces.curve(
        rule.name,
        x,
        np.maximum(np.asarray(rule.errors, np.float64), low),
        traces.stroke(colour, 2, dash),
        traces.marker(symbol, 8, colour),
        "{name}<br>bits   %{x}<br>error  %{y:.3%}",
        connectgaps=False,
        visible=bool(rule.name),
    )


def _mark_of_controls(bits: int, error: float, low: float) -> dict[str, Any]:
    look = traces.marker("circle-open", 17, style.GREY, line={"width": 2.5})
    hover = "the controls<br>bits   %{x}<br>error  %{y:.3%}"
    return traces.points("here", np.array([float(bits)]), np.array([max(error, low)]), look, hover)
