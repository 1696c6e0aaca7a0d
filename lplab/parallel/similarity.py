"""Similarity of learners: of their residuals, and of the elements they would send (ScaleCom, section 3)."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from lplab.compression.selection import top_k_indices


def cosine_distance(residuals: np.ndarray) -> float:
    """1 − cosine, the mean over all pairs of learners; 0: parallel, 1: orthogonal, NaN: all zero.

    Args:
        residuals: [learners, numel], two learners or more.

    Raises:
        ValueError: fewer than two learners.

    >>> cosine_distance(np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]])).__round__(4)
    0.6667
    """
    _at_least_two(residuals)
    unit = residuals.astype(np.float64)
    norms = np.sqrt((unit**2).sum(axis=1))
    unit, n = unit[norms > 0] / norms[norms > 0, None], np.count_nonzero(norms)
    if n < 2:
        return float("nan")
    cosines = ((unit.sum(axis=0) ** 2).sum() - n) / (n * (n - 1))  # the mean over pairs, from the sum of all
    return float(1 - cosines)


def hamming_distance(values: np.ndarray, k: int) -> float:
    """The fraction of a learner's k largest elements that are not among another's, the mean over all pairs.

    Args:
        values: [learners, numel].
        k: number of elements that each would send.

    Raises:
        ValueError: fewer than two learners, or k not from 1 to numel.

    >>> hamming_distance(np.array([[3.0, 2.0, 1.0], [3.0, 0.0, 1.0]]), k=2)
    0.5
    """
    _at_least_two(values)
    if not 1 <= k <= values.shape[1]:
        raise ValueError(f"k must be from 1 to {values.shape[1]}, got {k}")
    sets = [top_k_indices(row, k) for row in values]
    missing = [k - np.intersect1d(a, b, assume_unique=True).size for a, b in combinations(sets, 2)]
    return float(np.mean(missing) / k)


def _at_least_two(values: np.ndarray) -> None:
    if values.ndim != 2 or len(values) < 2:
        raise ValueError(f"values must have shape [learners, numel] with two learners or more, got {values.shape}")
