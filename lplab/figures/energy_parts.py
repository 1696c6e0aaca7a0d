"""Where the energy of a step goes, as bars: arithmetic, memory, network, static, for some precisions or machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import style, words
from lplab.figures.units import amount
from lplab.hardware.footprint import PARTS, Energy

_PATTERNS: dict[str, tuple[str, str, dict[str, Any]]] = {  # colour, sign in the key, pattern of the bar
    "arithmetic": (style.BLUE, "■", {}),
    "memory": (style.GREEN, "▦", {"shape": ".", "fgcolor": style.PAPER, "fillmode": "overlay", "size": 6}),
    "network": (style.PINK, "▥", {"shape": "|", "fillmode": "replace", "size": 6, "solidity": 0.6}),
    "static": (style.VERMILION, "▨", {"shape": "/", "fillmode": "replace", "size": 6, "solidity": 0.5}),
}


def energy_parts(
    rows: Mapping[str, Energy],
    chosen: str = "",
    *,
    reference: tuple[str, float] | None = None,
    most: float = 0.0,
    title: str = "",
    height: int = 0,
) -> go.Figure:
    """Stacked bars of joules by part, one for each row, all modelled.

    Args:
        rows: energies by name, from the top; at least one.
        chosen: the row to mark, by name.
        reference: name and joules of what the rows are compared with, a dashed line; by default the first row.
        most: end of the axis in joules; by default from the largest row.
        title: the point that it makes; by default what is left of the reference in the chosen, or in the last row.
        height: in pixels; by default by the number of rows.

    Raises:
        ValueError: no rows, or a chosen one that is not there.

    >>> steps = {"16 bits": Energy(60.0, 10.0, 10.0, 20.0), "4 bits": Energy(15.0, 4.0, 10.0, 12.0)}
    >>> energy_parts(steps).layout.meta["title"]
    '4 bits takes 41 % of the energy of 16 bits'
    """
    if not rows:
        raise ValueError("at least one row is needed")
    if chosen and chosen not in rows:
        raise ValueError(f"there is no row {chosen!r}; there are {', '.join(rows)}")
    names, row = list(rows), chosen or list(rows)[-1]
    totals = np.array([float(row.joules) for row in rows.values()])
    against, compared = reference or (names[0], float(totals[0]))
    end = 1.2 * (most or max(float(totals.max()), compared) or 1.0)
    y = -np.arange(len(rows), dtype=np.float64)
    data = [_bar(part, names, [float(row.parts()[part]) for row in rows.values()], totals, y, end) for part in PARTS]
    data.append(_totals(totals, y))
    left = 100 * float(rows[row].joules) / compared if compared else 100.0
    said = title or f"{row} takes {left:.0f} % of the energy of {against}"
    labels = np.array([f"<b>▸ {name}</b>" if name == chosen else name for name in names], dtype=str)
    layout = {
        "barmode": "stack",
        "bargap": 0.3,
        "xaxis": {"range": [0, end], "title": {"text": "energy of a step, all devices (J), modelled"}, "nticks": 6},
        "yaxis": {"range": [y[-1] - 0.6, 0.6], "tickvals": y, "ticktext": labels, "showgrid": False},
        "shapes": [_mark(compared)] if reference else [],
    }
    each = "; ".join(
        f"{name} {amount(total, 'J')}, {_said(rows[name])}" for name, total in zip(names, totals, strict=True)
    )
    entries = [(colour, sign, part) for part, (colour, sign, _) in _PATTERNS.items()]
    entries += [(style.GREY, "╎", against)] if reference else []
    return style.finish(
        style.figure(data, layout),
        alt=f"Modelled energy of a step by part. {each}. {said}.",
        title=said,
        subtitle=style.key(*entries),
        height=height or 130 + 44 * len(rows),
        l=118,
        t=66,
    )


def _mark(joules: float) -> dict[str, Any]:
    line = {"color": style.GREY, "width": 1.6, "dash": "dash"}
    return {"type": "line", "xref": "x", "x0": joules, "x1": joules, "yref": "y domain", "y0": 0, "y1": 1, "line": line}


def _said(row: Energy) -> str:
    return ", ".join(
        f"{part} {words.percent(float(joules) / float(row.joules))}" for part, joules in row.parts().items()
    )


def _bar(
    part: str, names: list[str], joules: list[float], totals: np.ndarray, y: np.ndarray, end: float
) -> dict[str, Any]:
    colour, _, pattern = _PATTERNS[part]
    values = np.array(joules)
    shares = np.divide(values, totals, out=np.zeros_like(values), where=totals > 0)
    shown = [f"{100 * share:.0f} %" if value > 0.055 * end else "" for share, value in zip(shares, values, strict=True)]
    marker = {"color": colour, "line": {"width": 0}} | ({"pattern": pattern} if pattern else {})
    return {
        "type": "bar",
        "name": part,
        "orientation": "h",
        "x": values,
        "y": y,
        "marker": marker,
        "text": np.array(shown, dtype=str),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "insidetextfont": {"size": style.NOTE, "color": "#FFFFFF" if not pattern else "#111111"},
        "customdata": np.stack([np.array(names, dtype=object), shares * 100], axis=1),
        "hovertemplate": f"%{{customdata[0]}}<br>{part}  %{{x:.4g}} J<br>"
        "share  %{customdata[1]:.3g} %<extra></extra>",
    }


def _totals(totals: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "text",
        "name": "total",
        "x": totals,
        "y": y,
        "text": np.array([" " + amount(total, "J") for total in totals], dtype=str),
        "textposition": "middle right",
        "textfont": {"size": style.TICK},
        "hoverinfo": "skip",
        "showlegend": False,
    }
