"""Energy of a matrix product against the size of the tile that stays on the chip, and a student's beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab.figures import axes, style, traces
from lplab.figures.compare_to_library import agreement, compare_to_library
from lplab.figures.legend import entry, legend
from lplab.hardware.units import format_si


def tile_energy(
    tiles: Sequence[int],
    arithmetic: Any,
    memory: Any,
    yours: tuple[Any, Any] | None = None,
    *,
    name: str = "",
    title: str = "",
    height: int = 340,
) -> go.Figure:
    """Joules of arithmetic and of memory for each tile, both axes in powers.

    Args:
        tiles: edges of square tiles, rising.
        arithmetic, memory: joules for each, positive.
        yours: somebody's own two; circles where they are the same to nine digits, crosses where not.
        name: of the product, for the second line.
        title: the point that it makes; by default from which tile on memory takes less than arithmetic, or what of
            yours agrees.
        height: in pixels.

    Raises:
        ValueError: no tiles, or arrays of different length.

    >>> tile_energy([1, 2, 4], [1.0, 1, 1], [4.0, 2, 1]).layout.meta["title"]
    'Memory takes no more than arithmetic from tiles of 4 on'
    """
    x = np.asarray(tiles, np.float64)
    right = np.asarray(arithmetic, np.float64), np.asarray(memory, np.float64)
    own = tuple(np.asarray(part, np.float64) for part in yours) if yours else (np.empty(0), np.empty(0))
    if not len(x) or {len(part) for part in right} != {len(x)} or not {len(part) for part in own} <= {0, len(x)}:
        raise ValueError("tiles, arithmetic, memory and yours must be of one length, at least one tile")
    same = [np.isclose(a, b[: len(a)], rtol=1e-9, atol=0) for a, b in zip(own, right, strict=True)]
    where = np.concatenate([x[: len(part)] for part in own])
    agree = np.concatenate(same)
    with np.errstate(invalid="ignore", divide="ignore"):
        heights = np.log10(np.concatenate(own))
    ring, cross = (traces.marker(symbol, 9, style.PINK, 1.8) for symbol in ("circle-open", "x"))
    data = [
        _line("arithmetic", x, right[0], style.QUANTITIES["arithmetic"], "solid"),
        _line("memory", x, right[1], style.QUANTITIES["memory"], "dash"),
        *compare_to_library(np.log2(where), heights, agree, ring, cross, "{name}"),
    ]
    entries = [entry(data[0]), entry(data[1])]
    entries += [entry(data[2]), entry(data[3], "different")] if len(agree) else []
    agrees = agreement(agree, "points").capitalize()
    text = title or (agrees if len(agree) else _crossing(x, *right))
    ends = (
        f"Memory {format_si(right[1][0], 'J')} with tiles of {x[0]:.0f}, {format_si(right[1][-1], 'J')} with "
        f"{x[-1]:.0f}"
    )
    return style.apply_style(
        style.figure(data, _layout(x, np.concatenate(right))),
        alt=f"Energy of {name or 'a matrix product'} by tile. Arithmetic {format_si(right[0][0], 'J')}. {ends}. "
        f"{text}.",
        title=text,
        subtitle=legend(*entries) + (f"<br>{name}" if name else ""),
        height=height,
        t=82 if name else 66,
        l=76,
    )


def _layout(x: np.ndarray, joules: np.ndarray) -> dict[str, Any]:
    """Both axes in powers: of two for the tiles, of ten for the energy."""
    first, last = np.log2(x[[0, -1]]).tolist()
    low, high = float(np.floor(np.log10(joules.min()))), float(np.ceil(np.log10(joules.max())))
    decades = axes.decade_ticks(low, high, lambda value: format_si(value, "J"))
    return {
        "xaxis": axes.power_axis(first - 0.3, last + 0.3, "edge of a tile (results)"),
        "yaxis": axes.axis(low - 0.1, high + 0.1, "energy, modelled", **decades),
    }


def _crossing(x: np.ndarray, arithmetic: np.ndarray, memory: np.ndarray) -> str:
    below = np.flatnonzero(memory <= arithmetic)
    return (
        f"Memory takes no more than arithmetic from tiles of {x[below[0]]:.0f} on"
        if len(below)
        else "Memory takes more than arithmetic with every tile"
    )


def _line(name: str, x: np.ndarray, y: np.ndarray, colour: str, dash: str) -> dict[str, Any]:
    texts = np.array([[f"{t:.0f}", format_si(e, "J")] for t, e in zip(x, y, strict=True)])
    hover = "{name}<br>tile    %{customdata[0]}<br>energy  %{customdata[1]}"
    return traces.line(name, np.log2(x), np.log10(y), traces.stroke(colour, 2.2, dash), hover, customdata=texts)
