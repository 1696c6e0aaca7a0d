"""The order in which statistics of tensors are summed, whatever the machine: in lanes, for numpy and for numba.

Element i of a tensor is added in float64 to lane i mod ``LANES``. At the end the second half of the lanes is added to
the first half until one is left.
"""

from __future__ import annotations

import numpy as np

LANES = 1024


def in_lanes(terms: np.ndarray) -> np.ndarray:
    """The sum of each lane, float64 [LANES], of float64 terms [n]: row after row of LANES elements."""
    full = np.concatenate([terms, np.zeros(-terms.size % LANES)]) if terms.size % LANES else terms
    sums = np.zeros(LANES)
    for row in full.reshape(-1, LANES):
        sums += row
    return sums


def pairwise_sum(sums: np.ndarray) -> float:
    """The sum of all lanes, the second half added to the first until one is left; numba compiles it, too.

    Args:
        sums: float64, a power of two of them. They are overwritten.

    >>> pairwise_sum(np.array([1.0, 2.0, 3.0, 4.0]))
    10.0
    """
    half = sums.size // 2
    while half:
        np.add(sums[:half], sums[half : 2 * half], sums[:half])
        half //= 2
    return float(sums[0])
