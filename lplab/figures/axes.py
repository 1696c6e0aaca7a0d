"""Axes that several figures have: over powers of two or of ten, and with a row for each name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lplab import number_text


def power_ticks(low: float, high: float, most: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Tick positions and labels for an axis of log2 magnitudes, at most ``most`` of them, multiples of one step.

    >>> positions, labels = power_ticks(-30, 12)
    >>> positions.tolist(), str(labels[0])
    ([-30, -24, -18, -12, -6, 0, 6, 12], '2⁻³⁰')
    """
    step = next(s for s in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 512) if (high - low) / s < most or s == 512)
    positions = np.arange(math.ceil(low / step) * step, math.floor(high) + 1, step)
    return positions, np.array(
        [number_text.raised(number_text.power(e, plain=True)) for e in positions.tolist()], dtype=str
    )


def power_axis(low: float, high: float, title: str, most: int = 8) -> dict[str, Any]:
    """A linear axis over log2 of a magnitude, with labels like 2⁻⁸."""
    positions, labels = power_ticks(low, high, most)
    return {"range": [low, high], "tickvals": positions, "ticktext": labels, "title": {"text": title}}


def decade_ticks(low: float, high: float, label: Callable[[float], str]) -> dict[str, Any]:
    """Ticks of an axis of log10 at the whole powers of ten, with a label made of what each stands for.

    >>> decade_ticks(-0.2, 2.0, "{:g} t".format)["ticktext"].tolist()
    ['1 t', '10 t', '100 t']
    """
    ticks = np.arange(np.ceil(low), np.floor(high) + 1)
    return {"tickvals": ticks, "ticktext": np.array([label(10.0**tick) for tick in ticks], dtype=str)}


def row_axis(names: Iterable[str], chosen: str = "") -> dict[str, Any]:
    """An axis with a row for each name, at 0, −1, −2 … from the top; the chosen one, if there is one, is marked.

    Raises:
        ValueError: no rows, or a chosen one that is not there.

    >>> row_axis(["16 bits", "8 bits"], "8 bits")["ticktext"].tolist()
    ['16 bits', '<b>▸ 8 bits</b>']
    """
    names = list(names)
    if not names:
        raise ValueError("at least one row is needed")
    if chosen and chosen not in names:
        raise ValueError(f"there is no row {chosen!r}; there are {', '.join(names)}")
    labels = [f"<b>▸ {name}</b>" if name == chosen else name for name in names]
    y = -np.arange(len(labels), dtype=np.float64)
    return {"range": [y[-1] - 0.6, 0.6], "tickvals": y, "ticktext": np.array(labels, dtype=str), "showgrid": False}
