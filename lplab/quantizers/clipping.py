"""What a clip costs: the squared error of an even grid over ±α, split into rounding and clipping, for many α at once.

For analysing tensors, not for training: magnitudes are sorted once; then an error takes one binary search per level,
whatever the number of elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.checks import check_int
from lplab.quantizers import array_inputs

MAX_LEVELS = 1024


@dataclass(frozen=True, eq=False)
class ClipErrors:
    """Mean squared errors of a tensor, one for each clip: float64 [clips].

    Attributes:
        clips: the clips α.
        rounding: of the elements within ±α, which go to the nearest level; over the number of all elements.
        clipping: of those beyond, which go to ±α; over the number of all elements.
    """

    clips: np.ndarray
    rounding: np.ndarray
    clipping: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """The error of rounding and of clipping together."""
        return self.rounding + self.clipping


class Magnitudes:
    """The magnitudes of a tensor, sorted, with their running sums.

    Args:
        x: numpy array, torch tensor, number or list; elements that are not finite are ignored.

    Attributes:
        sorted: float64 [n], rising.
        power: the mean square; 0 of an empty tensor.

    >>> Magnitudes([-3.0, 1.0]).sorted, Magnitudes([-3.0, 1.0]).power
    (array([1., 3.]), 5.0)
    """

    def __init__(self, x: Any) -> None:
        values = array_inputs.to_numpy(array_inputs.to_working_array(x).x).ravel().astype(np.float64)
        self.sorted = np.sort(np.abs(values[np.isfinite(values)]))
        self._sums = np.concatenate([[0.0], np.cumsum(self.sorted)])
        self._squares = np.concatenate([[0.0], np.cumsum(self.sorted**2)])
        self.power = float(self._squares[-1] / max(len(self.sorted), 1))

    @property
    def largest(self) -> float:
        """The largest magnitude, 0 of an empty tensor."""
        return float(self.sorted[-1]) if len(self.sorted) else 0.0

    def errors(self, clips: Any, levels: int) -> ClipErrors:
        """The errors on ``levels`` even levels over [−α, α], for each clip α.

        Levels over [0, α] for a tensor without negative numbers are half of those: k bits have 2^k values from 0 to α,
        as PACT has them, which are the upper half of 2^(k+1) − 1.

        Args:
            clips: positive numbers [clips].
            levels: 2 to 1024; an odd number has zero among them.

        Raises:
            ValueError: levels out of range, or clips that are not positive.

        >>> errors = Magnitudes([0.2, 0.9, 2.0]).errors([1.0], levels=3)
        >>> (3 * errors.rounding).round(6), (3 * errors.clipping).round(6)
        (array([0.05]), array([1.]))
        """
        clips = np.atleast_1d(np.asarray(clips, np.float64))
        if not (clips > 0).all():
            raise ValueError("clips must be positive numbers")
        level = clips[:, None] * upper_levels(levels)
        middles = (level[:, 1:] + level[:, :-1]) / 2
        inner = np.searchsorted(self.sorted, np.concatenate([middles, clips[:, None]], 1))
        ends = np.zeros((len(clips), 1), inner.dtype)
        cuts = np.concatenate([ends, inner, ends + len(self.sorted)], 1)
        level = np.concatenate([level, clips[:, None]], 1)  # the last bin holds the elements beyond the clip
        total, squares = np.diff(self._sums[cuts]), np.diff(self._squares[cuts])
        error = squares - 2 * level * total + level**2 * np.diff(cuts)
        error = np.maximum(error, 0) / max(len(self.sorted), 1)  # differences of sums can be slightly negative
        return ClipErrors(clips, error[:, :-1].sum(1), error[:, -1])

    def best_clip(self, levels: int, tolerance: float = 1e-4, *, reach: float = 1.1, refinement: int = 100) -> float:
        """The clip with the least total error: 200 clips up to ``reach`` · max|x|, then more around the best one.

        Args:
            levels: 2 to 1024.
            tolerance: the search ends when neighbouring clips are at most ``tolerance`` · max|x| apart.
            reach: the largest clip that is tried, as a multiple of max|x|.
            refinement: how many clips are tried between the neighbours of the best one.

        Returns:
            The clip; of equal errors the smaller one, and 1 for a tensor of zeros.

        >>> round(Magnitudes(np.linspace(0, 1, 5001)).best_clip(2), 3)
        0.5
        """
        if not self.largest:
            return 1.0
        low, high, count = 0.0, reach * self.largest, 200
        while True:
            clips = np.linspace(low, high, count + 1)[1:]
            best, step = float(clips[np.argmin(self.errors(clips, levels).total)]), (high - low) / count
            if step <= tolerance * self.largest:
                return best
            low, high, count = max(best - step, 0.0), best + step, refinement

    def equilibrium_clip(self, decay: float) -> float:
        """The α at which PACT's gradient is zero for the loss ½E[(y − x)²] + decay/2·α², where y is the clipped tensor.

        PACT's gradient of the first term is the mean of α − x over the elements beyond α: it raises α until nothing is
        clipped. The second term lowers α by decay·α. In equilibrium E[max(x − α, 0)] = decay·α, for any number of bits.

        Args:
            decay: not negative; 0 gives the largest magnitude.

        >>> round(Magnitudes([0.0, 0.0, 0.0, 4.0]).equilibrium_clip(0.25), 3)
        2.0
        """
        if decay < 0:
            raise ValueError(f"decay must not be negative, got {decay}")
        x, count = self.sorted, len(self.sorted)
        if not count:
            return 0.0
        beyond = np.arange(count)[::-1]  # elements after each; between two elements the mean excess is linear
        excess = (self._sums[-1] - self._sums[1:] - beyond * x) / count
        first = int(np.argmax(excess <= decay * x))  # α is at or below this element; at the last the excess is zero
        return float((self._sums[-1] - self._sums[first]) / (beyond[first] + 1 + decay * count))

    def share_beyond(self, clip: float) -> float:
        """The share of the elements whose magnitude lies above a clip.

        >>> Magnitudes([0.5, 1.0, 2.0, 3.0]).share_beyond(1.0)
        0.5
        """
        return 1 - float(np.searchsorted(self.sorted, clip, side="right")) / max(len(self.sorted), 1)


def upper_levels(levels: int) -> np.ndarray:
    """The levels of an even grid over [−1, 1] that are not negative, rising: float64 [(levels + 1) // 2].

    >>> upper_levels(4), upper_levels(5)
    (array([0.33333333, 1.        ]), array([0. , 0.5, 1. ]))
    """
    check_int("levels", levels, 2, MAX_LEVELS)
    numerators = np.arange((levels + 1) // 2) * 2 + (levels % 2 == 0)
    return numerators / (levels - 1)
