"""Error against bits, a curve for each rule that chooses a clip; and the styles of such rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import style

STYLES = (  # of the rules, in their order: colour, dash, symbol, sign in the legend
    (style.VERMILION, "solid", "square", style.DASH_SIGNS[0]),
    (style.PINK, "dot", "diamond", style.DASH_SIGNS[2]),
    (style.GREEN, "solid", "triangle-up", style.DASH_SIGNS[0]),
    (style.BLUE, "dash", "circle", style.DASH_SIGNS[1]),
    (style.GREY, "dashdot", "cross", style.DASH_SIGNS[3]),
)


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
        limits: ends of the axis of errors (:func:`error_range`).
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
    data.append(_here(*at, low))
    here = list(bits).index(at[0])
    now = {rule.name: float(rule.errors[here]) for rule in rules}
    known = {name: e for name, e in now.items() if not math.isnan(e)}
    text = title or f"{at[0]} bits: {_first_and_least(known)}"
    layout = {
        "xaxis": {"range": [x[0] - 0.3, x[-1] + 0.3], "dtick": 1, "tick0": int(x[0]), "title": {"text": "bits"}},
        "yaxis": error_axis(*limits),
        "shapes": [mark(at[0])],
    }
    entries = [(trace_style[0], trace_style[3], rule.name) for trace_style, rule in zip(STYLES, rules, strict=False)]
    key = "<br>".join(style.legend(*entries[i : i + 3]) for i in range(0, len(entries), 3))
    each = "; ".join(f"{r.name} " + ", ".join(share(float(e)) for e in r.errors) for r in rules)
    return style.apply_style(
        style.figure(data, layout),
        alt=f"Squared error at {', '.join(map(str, bits))} bits: {each}.",
        title=text,
        subtitle=key,
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
    text: Mapping[float, str] = {d: f"{100 * d:g}" for d in decades.tolist()}
    return {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": decades,
        "ticktext": np.array(list(text.values()), dtype=str),
        "title": {"text": "error (% of power)"},
    }


def mark(at: float) -> dict[str, Any]:
    """A vertical line at a position."""
    line = {"color": style.GREY, "width": 1.5, "dash": "dot"}
    return {"type": "line", "xref": "x", "x0": at, "x1": at, "yref": "y domain", "y0": 0, "y1": 1, "line": line}


def _rule_curve(trace_style: tuple[str, str, str, str], rule: ClipRule, x: np.ndarray, low: float) -> dict[str, Any]:
    y = np.asarray(rule.errors, np.float64)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": rule.name,
        "x": x,
        "y": np.maximum(y, low),
        "connectgaps": False,
        "line": {"color": trace_style[0], "dash": trace_style[1], "width": 2},
        "marker": {"size": 8, "symbol": trace_style[2], "color": trace_style[0]},
        "hovertemplate": f"{rule.name}<br>bits   %{{x}}<br>error  %{{y:.3%}}<extra></extra>",
        "visible": bool(rule.name),
    }


def _here(bits: int, error: float, low: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "here",
        "x": np.array([float(bits)]),
        "y": np.array([max(error, low)]),
        "marker": {"size": 17, "symbol": "circle-open", "color": style.GREY, "line": {"width": 2.5}},
        "hovertemplate": "the controls<br>bits   %{x}<br>error  %{y:.3%}<extra></extra>",
    }
