"""How much learners agree: on residues, and on what they would send (ScaleCom, section 3)."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from lplab.compression.sparse import largest


def cosine_distance(residues: np.ndarray) -> float:
    """1 − cosine, the mean over all pairs of learners; 0: all alike, 1: nothing in common, NaN: all zero.

    Args:
        residues: [learners, numel], two learners or more.

    Raises:
        ValueError: fewer than two learners.

    >>> cosine_distance(np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]])).__round__(4)
    0.6667
    """
    _at_least_two(residues)
    unit = residues.astype(np.float64)
    norms = np.sqrt((unit**2).sum(axis=1))
    unit, n = unit[norms > 0] / norms[norms > 0, None], np.count_nonzero(norms)
    if n < 2:
        return float("nan")
    cosines = ((unit.sum(axis=0) ** 2).sum() - n) / (n * (n - 1))  # the mean over pairs, from the sum of all
    return float(1 - cosines)


def hamming_distance(values: np.ndarray, k: int) -> float:
    """Of the k largest elements of each learner: the share that another learner does not have, the mean over pairs.

    Args:
        values: [learners, numel].
        k: how many elements each would send.

    Raises:
        ValueError: fewer than two learners, or k not from 1 to numel.

    >>> hamming_distance(np.array([[3.0, 2.0, 1.0], [3.0, 0.0, 1.0]]), k=2)
    0.5
    """
    _at_least_two(values)
    if not 1 <= k <= values.shape[1]:
        raise ValueError(f"k must be from 1 to {values.shape[1]}, got {k}")
    sets = [largest(row, k) for row in values]
    missing = [k - np.intersect1d(a, b, assume_unique=True).size for a, b in combinations(sets, 2)]
    return float(np.mean(missing) / k)


def _at_least_two(values: np.ndarray) -> None:
    if values.ndim != 2 or len(values) < 2:
        raise ValueError(f"[learners, numel] of two learners or more are needed, got shape {values.shape}")
