"""Where energy goes, as stacked bars: of a training step by part, of a federated round by what a client does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, shapes, style, traces
from lplab.figures.legend import entry, legend
from lplab.hardware.footprint import PARTS, ClientRound, Energy
from lplab.hardware.units import format_si

_BARS, _STRIPES = {"shape": "|", "size": 6, "solidity": 0.3}, {"shape": "/", "size": 7, "solidity": 0.2}
_STYLES: dict[str, tuple[str, dict[str, Any]]] = {  # colour and pattern of a bar
    "arithmetic": (style.QUANTITIES["arithmetic"], {}),
    "memory": (style.QUANTITIES["memory"], _STRIPES),
    "network": (style.QUANTITIES["network"], _BARS),
    "static": (style.QUANTITIES["static"], {"shape": ".", "size": 8, "solidity": 0.1}),
    "computing": (style.QUANTITIES["arithmetic"], {}),
    "receiving": (style.QUANTITIES["network"], _BARS),
    "sending": (style.AMBER, _STRIPES),
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
    """Joules of a training step by part, a bar for each row, all modelled.

    Args:
        rows: energies by name, from the top; at least one.
        chosen: the row to mark, by name.
        reference: name and joules of what the rows are compared with, a dashed line; by default the first row.
        most: what the axis must reach in joules, at least; it always reaches the largest row.
        title: the point that it makes; by default what is left of the reference in the chosen, or in the last row.
        height: in pixels; by default by the number of rows.

    Raises:
        ValueError: no rows, or a chosen one that is not there.

    >>> steps = {"16 bits": Energy(60.0, 10.0, 10.0, 20.0), "4 bits": Energy(15.0, 4.0, 10.0, 12.0)}
    >>> energy_parts(steps).layout.meta["title"]
    '4 bits takes 41 % of the energy of 16 bits'
    """
    parts = {name: {part: float(joules) for part, joules in row.parts().items()} for name, row in rows.items()}
    what = "energy of a step, all devices, modelled"
    return _stack(parts, PARTS, what, chosen, reference, most, title, height)


def round_energy(
    rows: Mapping[str, ClientRound], chosen: str = "", *, most: float = 0.0, title: str = "", height: int = 0
) -> go.Figure:
    """Joules of one client in a federated round: computing, receiving, sending, all modelled.

    Args:
        rows: rounds of one client by name, from the top; at least one.
        chosen, most, title, height: as for `energy_parts`.

    Raises:
        ValueError: no rows, or a chosen one that is not there.

    >>> from lplab.hardware.footprint import federated
    >>> ways = {way: federated(operations=1e11, down_bytes=1e7, up_bytes=1e7, radio=way) for way in ("lte", "wifi")}
    >>> round_energy(ways).layout.meta["title"]
    'wifi takes 23 % of the energy of lte'
    """
    parts = {
        name: {"computing": float(r.compute_joules), "receiving": float(r.down_joules), "sending": float(r.up_joules)}
        for name, r in rows.items()
    }
    what, names = "energy of a client in a round, modelled", ("computing", "receiving", "sending")
    return _stack(parts, names, what, chosen, None, most, title, height)


def _stack(
    rows: dict[str, dict[str, float]],
    names: Sequence[str],
    what: str,
    chosen: str,
    reference: tuple[str, float] | None,
    most: float,
    title: str,
    height: int,
) -> go.Figure:
    row_axis = axes.row_axis(rows, chosen)
    totals = {name: sum(parts.values()) for name, parts in rows.items()}
    against, compared = reference or next(iter(totals.items()))
    end = 1.2 * (max(most, *totals.values(), compared) or 1.0)
    y = row_axis["tickvals"]
    bars = [_bar(part, rows, totals, y, end) for part in names]
    sums = _totals(np.array(list(totals.values())), y, compared if reference else 0.0, end)
    row = chosen or list(rows)[-1]
    text = title or f"{row} takes {100 * totals[row] / (compared or 1.0):.0f} % of the energy of {against}"
    layout = {
        "barmode": "stack",
        "bargap": 0.3,
        "xaxis": axes.axis(0, end, what, **axes.amount_ticks(end, partial(format_si, unit="J"))),
        "yaxis": row_axis,
        "shapes": [shapes.upright(compared, 1.6, "dash", xref="x")] if reference else [],
    }
    compared_with = [(style.GREY, "╎", against)] if reference else []
    told = "; ".join(f"{name} {format_si(totals[name], 'J')}, {_text(rows[name])}" for name in rows)
    return style.apply_style(
        style.figure([*bars, sums], layout),
        alt=f"Stacked bars, {what}. {told}. {text}.",
        title=text,
        subtitle=legend(*map(entry, bars), *compared_with),
        height=height or 124 + 54 * len(rows),
        l=min(190, 30 + 8 * max(map(len, rows))),
        t=66,
    )


def _text(parts: Mapping[str, float]) -> str:
    total = sum(parts.values()) or 1.0
    return ", ".join(f"{part} {number_text.percent(joules / total)}" for part, joules in parts.items())


def _bar(
    part: str,
    rows: Mapping[str, Mapping[str, float]],
    totals: Mapping[str, float],
    y: np.ndarray,
    end: float,
) -> dict[str, Any]:
    colour, pattern = _STYLES[part]
    values = np.array([parts[part] for parts in rows.values()])
    shares = values / np.array([total or 1.0 for total in totals.values()])
    shown = [f"{100 * share:.0f} %" if value > 0.055 * end else "" for share, value in zip(shares, values, strict=True)]
    marker: dict[str, Any] = {"color": colour, "line": {"width": 0}}
    if pattern:
        marker["pattern"] = {**pattern, "fgcolor": style.PAPER, "fillmode": "overlay", "fgopacity": 0.35}
    return traces.bars(
        part,
        values,
        y,
        marker,
        "%{customdata[0]}<br>{name}  %{x:.4g} J<br>share  %{customdata[1]} %",
        orientation="h",
        text=np.array(shown, dtype=str),
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        insidetextfont={"size": style.TICK, "color": style.PAPER, "shadow": "0 0 3px #000, 0 0 3px #000"},
        customdata=np.array([[name, f"{100 * share:.3g}"] for name, share in zip(rows, shares, strict=True)]),
    )


def _totals(totals: np.ndarray, y: np.ndarray, line: float, end: float) -> dict[str, Any]:
    """Joules behind every bar, or behind the dashed line where that would cross them."""
    crossed = (totals < line) & (totals > line - 0.13 * end)
    x, texts = np.where(crossed, line, totals), [" " + format_si(float(total), "J") for total in totals]
    return traces.words(
        "total", x, y, texts, "middle right", textfont={"size": style.TICK}, showlegend=False, cliponaxis=False
    )
