"""Partial credit: what an answer earns that runs and is not right everywhere."""

from __future__ import annotations

import math


def partial_points(points: float, examples: float, boundary: float) -> float:
    """The points of an answer that fails: at most two thirds, rounded down to half points.

    One third is for the named examples, by the share that is right. One third is for the boundary set, by the share
    that is right in it, times the share of examples: who gets no example right earns nothing with the zeros and NaNs
    of a boundary set. The last third is for a pass alone. So an answer that fails only in the boundary set earns from
    one to two thirds, and one that fails only a property earns two thirds.

    Args:
        points: for a pass.
        examples: the share of the values of the named examples that are right, from 0 to 1.
        boundary: the same of the boundary set; 1 where an exercise has none.

    >>> [partial_points(6, *shares) for shares in ((1, 1), (1, 0.5), (6 / 7, 0.9), (2 / 7, 0.5), (0, 1))]
    [4.0, 3.0, 3.0, 0.5, 0.0]
    """
    earned = points * examples * (1 + boundary) / 3
    return math.floor(2 * earned + 1e-9) / 2  # 1e-9: 2/3 of 6 points are 4, whatever rounding does
