"""What few bits do to each layer alone: the harm to the network (its sensitivity) beside the error of the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.legend import entry, legend

_WRONG_HEIGHT = 220  # pixels of the second panel


def layer_sensitivity(
    names: Sequence[str],
    sensitivity: Any,
    weight_errors: Any,
    wide: Sequence[int] = (),
    *,
    unit: str = "bits of loss",
    top: float = 0.0,
    wrong: Mapping[str, float] | None = None,
    title: str = "",
    height: int = 360,
) -> go.Figure:
    """Bars for the loss increase when each layer alone is rounded, and a dot for the squared error of its weights.

    With ``wrong`` a second panel below compares whole networks: which layers were rounded, and what came of it.

    Args:
        names: of the layers, [n].
        sensitivity: the loss increase of each, [n]; NaN where it is not measured yet.
        weight_errors: squared error of the weights as a share of their power, [n].
        wide: indices of layers that stay wide: their bars are hatched.
        unit: of the sensitivity.
        top: upper end of the axis of sensitivity; by default from the data.
        wrong: percent of wrong answers of whole networks, by name; NaN where it is not measured yet.
        title: the point that it makes; by default which layer suffers most.
        height: in pixels, of the first panel.

    Raises:
        ValueError: arguments of different length.

    >>> layer_sensitivity(["stem", "head"], [0.03, 0.05], [0.08, 0.12]).layout.meta["title"]
    'Alone, head does the most harm: 0.05 bits of loss'
    """
    values, errors = np.asarray(sensitivity, np.float64), np.asarray(weight_errors, np.float64)
    if not len(names) == len(values) == len(errors):
        raise ValueError(
            f"names, sensitivity and weight_errors must be of one length, got {len(names)}, {len(values)}, "
            f"{len(errors)}"
        )
    is_measured = np.isfinite(values)
    text = title or _title(names, values, unit)
    kept = np.isin(np.arange(len(values)), np.array(wide, np.int64))
    high = 1.15 * (top or max([*values[is_measured], 1e-3]))
    low = min(0.0, min([*values[is_measured], 0.0]) * 1.15)
    x = np.arange(len(names), dtype=np.float64)
    data = [
        _bars("at 2 bits", x, values, ~kept & is_measured, names, style.OUTCOME_STYLES["rounded"], unit),
        _bars("kept wide", x, values, kept & is_measured, names, style.OUTCOME_STYLES["exact"], unit),
        _dots(x, errors, names),
    ]
    layout = {
        "xaxis": {"range": [-0.6, len(names) - 0.4]} | axes.ticks(x, map(_name_on_two_lines, names)),
        "yaxis": axes.axis(low, high, f"harm ({unit})"),
        "yaxis2": axes.axis(100 * low / high * 0.2, 20, "error of the weights (%)", overlaying="y", side="right")
        | {"showgrid": False, "tickmode": "linear", "tick0": 0, "dtick": 5},
    }
    narrow, stays_wide, weights = data
    if wrong is not None:
        data = [*data, _wrong_bars(wrong)]
        layout["yaxis"] |= {"domain": [0.5, 1]}
        layout |= _wrong_axes(wrong)
    return style.apply_style(
        style.figure(data, layout),
        alt=f"Harm of rounding one layer alone, in {unit}: {_sensitivity_text(names, values)}. {_ends(errors)}. {text}."
        f"{_wrong_text(wrong or {})}",
        title=text,
        subtitle=legend(entry(narrow, "harm at 2 bits"), entry(stays_wide), entry(weights, "error of the weights")),
        height=height + (0 if wrong is None else _WRONG_HEIGHT),
        r=64,
        b=76 if wrong is None else 52,
    )


def _wrong_bars(wrong: Mapping[str, float]) -> dict[str, Any]:
    """A bar for each network that is measured, with its number above it."""
    values = np.array(list(wrong.values()), np.float64)
    is_measured = np.isfinite(values)
    return {
        "type": "bar",
        "name": "wrong answers",
        "x": np.arange(len(values), dtype=np.float64)[is_measured],
        "y": values[is_measured],
        "width": 0.6,
        "text": np.array([f"{value:.1f} %" for value in values[is_measured]], dtype=str),
        "textposition": "outside",
        "cliponaxis": False,
        "marker": style.OUTCOME_STYLES["rounded"],
        "hovertemplate": "%{y:.3g} % wrong<extra></extra>",
        "xaxis": "x2",
        "yaxis": "y3",
    }


def _wrong_axes(wrong: Mapping[str, float]) -> dict[str, Any]:
    """The axes of the second panel, below the first."""
    measured = [value for value in wrong.values() if np.isfinite(value)]
    ticks = axes.ticks(np.arange(len(wrong), dtype=np.float64), ["<br>".join(name.rsplit(" ", 1)) for name in wrong])
    return {
        "xaxis2": {"range": [-0.6, len(wrong) - 0.4], "anchor": "y3"} | ticks,
        "yaxis3": axes.axis(0, 1.25 * max([*measured, 8.0]), "wrong answers (%)", nticks=5)
        | {"domain": [0, 0.29], "anchor": "x2"},
    }


def _wrong_text(wrong: Mapping[str, float]) -> str:
    measured = [f"{name} {value:.1f} %" for name, value in wrong.items() if np.isfinite(value)]
    return f" Wrong answers: {', '.join(measured)}." if measured else ""


def _title(names: Sequence[str], sensitivity: np.ndarray, unit: str) -> str:
    if not np.isfinite(sensitivity).any():
        return "Not measured yet"
    worst = int(np.nanargmax(sensitivity))
    return f"Alone, {names[worst]} does the most harm: {number_text.number(sensitivity[worst], digits=2)} {unit}"


def _sensitivity_text(names: Sequence[str], sensitivity: np.ndarray) -> str:
    pairs = [(name, value) for name, value in zip(names, sensitivity, strict=True) if np.isfinite(value)]
    return ", ".join(f"{name} {number_text.number(value, digits=2)}" for name, value in pairs) or "not measured yet"


def _ends(errors: np.ndarray) -> str:
    if not np.isfinite(errors).any():
        return "Error of the weights: not known yet"
    least, most = (number_text.percent(float(end)) for end in (np.nanmin(errors), np.nanmax(errors)))
    return f"Error of the weights: {least} to {most}"


def _name_on_two_lines(name: str) -> str:
    """A layer's name on two lines, for ticks.

    >>> _name_on_two_lines("layer2.shortcut.0"), _name_on_two_lines("stem")
    ('layer2<br>shortcut', 'stem')
    """
    return "<br>".join(part for part in name.split(".") if not part.isdigit())


def _bars(
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    is_drawn: np.ndarray,
    names: Sequence[str],
    trace_style: dict[str, Any],
    unit: str,
) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": name,
        "x": x[is_drawn],
        "y": y[is_drawn],
        "width": 0.6,
        "text": np.array(names, dtype=str)[is_drawn],
        "textposition": "none",
        "marker": trace_style,
        "hovertemplate": f"%{{text}}<br>harm  %{{y:.3g}} {unit}<extra>{name}</extra>",
    }


def _dots(x: np.ndarray, errors: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    look, hover = traces.marker("diamond", 10, style.VERMILION), "%{text}<br>{name}  %{y:.3g} %"
    texts = np.array(names, dtype=str)
    return traces.points("error of the weights", x, 100 * errors, look, hover, yaxis="y2", text=texts)
