"""The axes of figures: from one number to another, over powers of two or of ten, with a row for each name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lplab import number_text


def axis(low: float, high: float, title: str, **more: Any) -> dict[str, Any]:
    """An axis from one end to the other with a title; of a logarithmic one, with ``type="log"``, ends are exponents.

    >>> axis(0, 60, "epoch", dtick=10)
    {'range': [0, 60], 'title': {'text': 'epoch'}, 'dtick': 10}
    """
    return {"range": [low, high], "title": {"text": title}} | more


def ends_with_zero(numbers: Iterable[np.ndarray], room: float) -> tuple[float, float]:
    """Ends of an axis for all finite numbers and zero, and on both sides room, a share of what lies between.

    >>> ends_with_zero([np.array([1.0, 2.0, np.nan])], room=0.5)
    (-1.0, 3.0)
    """
    finite = np.concatenate([each[np.isfinite(each)] for each in numbers])
    low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
    beside = room * (high - low or 1.0)
    return low - beside, high + beside


def ticks(places: np.ndarray, labels: Iterable[str]) -> dict[str, Any]:
    """The ticks of an axis at these places, with a label for each.

    >>> ticks(np.array([0.0, 1.0]), ["0 %", "100 %"])["ticktext"].tolist()
    ['0 %', '100 %']
    """
    return {"tickvals": places, "ticktext": np.array(list(labels), dtype=str)}


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
    return axis(low, high, title, **ticks(*power_ticks(low, high, most)))


def decade_ticks(low: float, high: float, label: Callable[[float], str]) -> dict[str, Any]:
    """Ticks of an axis of log10 at the whole powers of ten, with a label made of what each stands for.

    >>> decade_ticks(-0.2, 2.0, "{:g} t".format)["ticktext"].tolist()
    ['1 t', '10 t', '100 t']
    """
    decades = np.arange(np.ceil(low), np.floor(high) + 1)
    return ticks(decades, [label(10.0**decade) for decade in decades])


def amount_ticks(high: float, label: Callable[[float], str], most: int = 5, *, beyond: bool = False) -> dict[str, Any]:
    """Ticks of an axis from 0, at most ``most`` steps of 1, 2 or 5 times a power of ten, with a label of each amount.

    Args:
        high: the largest amount, above 0.
        label: makes the words of an amount.
        most: steps.
        beyond: whether the last tick is the first at or above ``high``, not the last at or below it.

    >>> amount_ticks(338.0, "{:g} J".format)["ticktext"].tolist()
    ['0 J', '100 J', '200 J', '300 J']
    >>> amount_ticks(55.0, "{:g}".format, beyond=True)["ticktext"].tolist()
    ['0', '20', '40', '60']
    """
    power = 10.0 ** math.floor(math.log10(high / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if high <= most * power * factor)
    last = math.ceil(high / step) if beyond else math.floor(high / step)
    amounts = step * np.arange(last + 1)
    return ticks(amounts, map(label, amounts.tolist()))


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
    return {"range": [y[-1] - 0.6, 0.6], "showgrid": False} | ticks(y, labels)
