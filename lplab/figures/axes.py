"""Axes over powers of two."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab.figures import words


def power_ticks(low: float, high: float, most: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Tick positions and labels for an axis of log2 magnitudes, at most ``most`` of them, multiples of one step.

    >>> positions, labels = power_ticks(-30, 12)
    >>> positions.tolist(), str(labels[0])
    ([-30, -24, -18, -12, -6, 0, 6, 12], '2⁻³⁰')
    """
    step = next(s for s in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 512) if (high - low) / s < most or s == 512)
    positions = np.arange(math.ceil(low / step) * step, math.floor(high) + 1, step)
    return positions, np.array([words.raised(words.power(e, plain=True)) for e in positions.tolist()], dtype=str)


def power_axis(low: float, high: float, title: str, most: int = 8) -> dict[str, Any]:
    """A linear axis over log2 of a magnitude, with labels like 2⁻⁸."""
    positions, labels = power_ticks(low, high, most)
    return {"range": [low, high], "tickvals": positions, "ticktext": labels, "title": {"text": title}}
