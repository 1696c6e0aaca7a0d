"""Six symmetric distributions with standard deviation near 1, as quantile-exact samples: what SAWB was fitted to."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np


def _gaussian(p: np.ndarray) -> np.ndarray:
    inverse = NormalDist().inv_cdf
    return np.array([inverse(float(q)) for q in p])


def _triangle(p: np.ndarray) -> np.ndarray:
    return np.sqrt(6.0) * (1 - np.sqrt(2 * (1 - p)))


def _von_mises(p: np.ndarray, concentration: float = 1.0) -> np.ndarray:
    """The angle from 0 to π, by the trapezoidal sum of its density: exact to 1e-9 for so smooth a function."""
    angle = np.linspace(0, np.pi, 100_001)
    density = np.exp(concentration * np.cos(angle))
    area = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return np.interp(2 * p - 1, area / area[-1], angle)


QUANTILES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gaussian": _gaussian,
    "uniform": lambda p: np.sqrt(3.0) * (2 * p - 1),
    "laplace": lambda p: -np.log(2 * (1 - p)) / np.sqrt(2.0),
    "logistic": lambda p: np.log(p / (1 - p)) * np.sqrt(3.0) / np.pi,
    "triangle": _triangle,
    "von Mises": _von_mises,
}
"""Quantile functions for probabilities from ½ to below 1; the negative halves mirror them."""


def magnitudes(name: str, count: int) -> np.ndarray:
    """The magnitudes of a quantile-exact sample in rising order: quantiles at ½ + (i + ½)/(2·count).

    Args:
        name: one of ``QUANTILES``.
        count: number of magnitudes.

    Raises:
        ValueError: an unknown name.

    >>> magnitudes("uniform", 3).round(3)
    array([0.289, 0.866, 1.443])
    """
    if name not in QUANTILES:
        raise ValueError(f"unknown distribution {name!r}; allowed: {', '.join(QUANTILES)}")
    return QUANTILES[name](0.5 + (np.arange(count) + 0.5) / (2 * count))
