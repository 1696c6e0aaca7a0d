"""Amdahl's law with parts that stay as slow as they were (Amdahl 1967).

>>> round(float(speedup([0.9, 0.1], [4, 1])), 2)  # products 4 times as fast, a tenth of the time is something else
3.08
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.checks import check_numbers


def speedup(seconds: Any, factors: Any) -> np.ndarray:
    """How much faster the whole gets if its parts get ``factors`` times as fast.

    Args:
        seconds: what the parts take now, in any unit, [..., parts].
        factors: how much faster each part gets; 1 for those that stay, below 1 for those that get slower.

    Returns:
        float64 [...].

    Raises:
        ValueError: a negative time, times that are all 0, or a factor that is not above 0.

    >>> speedup([[1.0, 0.0], [1.0, 1.0]], [8.0, 1.0])
    array([8.        , 1.77777778])
    """
    before, faster = check_numbers("seconds", seconds), check_numbers("factors", factors)
    if np.any(before < 0) or not np.all(np.isfinite(before)) or np.any(before.sum(-1) == 0):
        raise ValueError(f"seconds must be 0 or more, and not all 0, got {seconds!r}")
    if not np.all(faster > 0):
        raise ValueError(f"factors must be above 0, got {factors!r}")
    return before.sum(-1) / (before / faster).sum(-1)


def bound(rest: Any) -> np.ndarray:
    """The speedup that no factor passes if a share ``rest`` of the time stays: 1 / rest.

    >>> float(bound(0.25))
    4.0
    """
    share = check_numbers("rest", rest)
    if not np.all((share >= 0) & (share <= 1)):
        raise ValueError(f"rest must be a share from 0 to 1, got {rest!r}")
    with np.errstate(divide="ignore"):
        return 1 / share
