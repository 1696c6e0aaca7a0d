"""Comparisons of results over seeds, and their texts, for the criteria of several claims."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lplab.number_text import SUPERSCRIPTS


def seed_range(values: np.ndarray) -> float:
    """The range over the seeds of one point: largest minus smallest value.

    >>> round(seed_range(np.array([3.1, 3.0, 3.2])), 3)
    0.2
    """
    return float(np.ptp(values))


def excess(values: np.ndarray, baseline: np.ndarray) -> float:
    """The difference of medians, point minus baseline, in units of the baseline's range over seeds.

    >>> round(excess(np.array([3.4, 3.5, 3.6]), np.array([3.0, 3.1, 3.2])), 3)
    2.0
    """
    gap = float(np.median(values) - np.median(baseline))
    return gap / max(seed_range(baseline), 1e-12)


def within_noise(values: np.ndarray, baseline: np.ndarray) -> bool:
    """Whether the median exceeds the baseline's by no more than the baseline's range over seeds.

    >>> within_noise(np.array([3.1, 3.2, 3.2]), np.array([3.0, 3.1, 3.2]))
    True
    """
    return excess(values, baseline) <= 1.0


def clearly_above(values: np.ndarray, baseline: np.ndarray) -> bool:
    """Whether every seed is above every seed of the baseline, and the median by more than the baseline's range.

    >>> clearly_above(np.array([3.1, 3.5, 3.6]), np.array([3.0, 3.1, 3.2]))
    False
    """
    return bool(values.min() > baseline.max() and excess(values, baseline) > 1.0)


def median_and_range(values: np.ndarray, digits: int = 2, unit: str = "") -> str:
    """The median and, in brackets, the smallest and the largest value.

    >>> median_and_range(np.array([3.123, 3.0, 3.2]), unit=" bits")
    '3.12 (3.00–3.20) bits'
    """
    return f"{_with_range(np.median(values), values, digits)}{unit}"


def mean_and_range(values: np.ndarray, digits: int = 2) -> str:
    """The mean and, in brackets, the smallest and the largest value: where differences in pairs stand beside it.

    The mean of differences is the difference of such means, but not that of medians.

    >>> mean_and_range(np.array([3.0, 3.1, 3.5]))
    '3.20 (3.00–3.50)'
    """
    return _with_range(values.mean(), values, digits)


def _with_range(middle: np.floating, values: np.ndarray, digits: int) -> str:
    shown, low, high = (f"{value:.{digits}f}" for value in (middle, values.min(), values.max()))
    return f"{shown} ({low}–{high})"


def median_and_range_signed(gaps: np.ndarray, digits: int = 3) -> str:
    """The median of differences and, in brackets, the smallest and the largest, with their signs.

    >>> median_and_range_signed(np.array([-0.001, 0.5, 0.25]))
    '+0.250 (−0.001 to +0.500)'
    """
    middle, low, high = (f"{value:+.{digits}f}" for value in (np.median(gaps), gaps.min(), gaps.max()))
    return f"{middle} ({low} to {high})".replace("-", "−")


def low_to_high(values: Sequence[float], digits: int = 1) -> str:
    """The smallest and the largest value.

    >>> low_to_high([3.0, 1.25, 2.0])
    '1.2–3.0'
    """
    return f"{min(values):.{digits}f}–{max(values):.{digits}f}"


def counting_noise(percent: float, count: int) -> float:
    """Two standard deviations of a share of wrong answers among ``count`` of them, in points of percent.

    >>> counting_noise(50.0, 100)
    10.0
    """
    share = percent / 100
    return 200 * float(np.sqrt(share * (1 - share) / count))


def power_of_two(exponent: int) -> str:
    """A power of two as text.

    >>> power_of_two(-8), power_of_two(16), power_of_two(0)
    ('2⁻⁸', '2¹⁶', '1')
    """
    return "2" + str(exponent).translate(SUPERSCRIPTS) if exponent else "1"


def join_words(words: list[str]) -> str:
    """Words as a list: 'a, b and c'.

    >>> join_words(["a"]), join_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
