"""What a format's window makes of recorded magnitudes behind a loss scale: shares that are lost, and words for them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lplab import number_text
from lplab.figures import style
from lplab.figures.window import Window
from lplab.recordings.magnitudes import LOWEST, MagnitudeCounts

OCTAVES = -48, 24  # the axis stays where it is, whatever is chosen; what lies beyond counts in the outermost bars
OUTCOMES = ("to zero", "subnormal", "normal", "overflow")
FILLS = (style.LOST_RANGE, style.SUBNORMAL_RANGE, style.NORMAL_RANGE, style.OVERFLOW_RANGE)


@dataclass(frozen=True)
class RangeOutcomes:
    """What a format's window makes of recorded magnitudes.

    Attributes:
        counts: float64 [4, 160]: elements of each recorded octave that become zero, are subnormal, are normal, or lie
            beyond the largest value. An octave with an edge of the window in it is split as if log2 of its magnitudes
            were spread evenly, up to the largest magnitude.
        total: elements that are not zero.
    """

    counts: np.ndarray
    total: int

    @property
    def shares(self) -> np.ndarray:
        """float64 [4]: shares of the elements that are not zero, in the order of ``OUTCOMES``."""
        return self.counts.sum(1) / max(self.total, 1)

    @property
    def lost(self) -> float:
        """The share that becomes zero."""
        return float(self.shares[0])

    @property
    def lost_length(self) -> float:
        """The length (2-norm) of what becomes zero, over that of all; each element counts with the middle of its bin.

        >>> counts = np.zeros((4, 160))
        >>> counts[0, 94] = counts[2, 96] = 1.0
        >>> round(RangeOutcomes(counts, 2).lost_length, 3)
        0.243
        """
        middle = np.exp2(2.0 * np.arange(self.counts.shape[1]))
        square = self.counts @ middle
        return float(np.sqrt(square[0] / square.sum())) if square.sum() else 0.0

    @property
    def overflowed(self) -> float:
        """The share beyond the largest value."""
        return float(self.shares[3])


def range_outcomes(magnitudes: MagnitudeCounts, window: Window, scale: int = 0) -> RangeOutcomes:
    """The outcomes of recorded magnitudes, multiplied by 2^scale.

    Magnitudes have no signs: in a format whose sides differ (int8, NF4) each counts on the side that loses more.

    >>> from lplab.figures.window import window
    >>> from lplab.formats import get
    >>> counts = np.zeros(160, np.int64)
    >>> counts[96 - 30] = counts[96 - 3] = 5
    >>> [range_outcomes(MagnitudeCounts(counts, 0, 0.2), window(get("fp16")), k).lost for k in (0, 8)]
    [0.5, 0.0]
    """
    bottom = np.arange(LOWEST, LOWEST + len(magnitudes.counts), dtype=np.float64) + scale
    width = np.ones_like(bottom)
    filled = np.flatnonzero(magnitudes.counts)
    if len(filled) and magnitudes.largest > 0:  # the last octave ends at the largest magnitude
        width[filled[-1]] = np.clip(math.log2(magnitudes.largest) + scale - bottom[filled[-1]], 1e-9, 1.0)
    edges = window_edges(window)
    below = np.clip((np.array(edges)[:, None] - bottom) / width, 0.0, 1.0)
    parts = np.diff(np.vstack([np.zeros_like(bottom), below, np.ones_like(bottom)]), axis=0)
    return RangeOutcomes(parts * magnitudes.counts, magnitudes.total)


def window_edges(window: Window) -> tuple[float, float, float]:
    """log2 of where zero ends, where full precision begins, and where the format ends, on the side that loses more.

    >>> window_edges(Window(-65520.0, -(2.0**-25), 2.0**-25, 65520.0, 2.0**-24, 2.0**-14))[:2]
    (-25.0, -14.0)
    """
    zero = _log2(window.flush)
    normal = _log2(window.normal) if window.normal > window.smallest else zero
    return zero, max(zero, normal), _log2(window.magnitude)


def scale_text(scale: int) -> str:
    """The loss scale as text.

    >>> scale_text(0), scale_text(16), scale_text(-8)
    ('no loss scale', 'loss scale 2¹⁶', 'loss scale 2⁻⁸')
    """
    return f"loss scale {number_text.raised(number_text.power(scale, plain=True))}" if scale else "no loss scale"


def describe(outcomes: RangeOutcomes) -> str:
    """What is lost, as text.

    >>> describe(RangeOutcomes(np.array([[1.0], [0.0], [3.0], [0.0]]), 4))
    '25.0 % become zero, nothing overflows'
    """
    zero = f"{number_text.percent(outcomes.lost)} become zero" if outcomes.lost else "nothing becomes zero"
    over = f"{number_text.percent(outcomes.overflowed)} overflow" if outcomes.overflowed else "nothing overflows"
    return f"{zero}, {over}"


def headroom(magnitudes: MagnitudeCounts) -> float:
    """The end of a y axis for a histogram, in percent, with room for the names of the ranges.

    >>> headroom(MagnitudeCounts(np.array([5, 10, 5]), 0, 1.0))
    65.0
    """
    highest = 100 * float(magnitudes.counts.max(initial=0)) / max(magnitudes.total, 1)
    return max(5.0 * math.ceil(1.3 * highest / 5), 10.0)


def in_view(counts: np.ndarray, scale: int) -> np.ndarray:
    """Counts [k, 160] of recorded octaves, times 2^scale, in the octaves of the axis: float64 [k, 72].

    What lies beyond the axis counts in its outermost octaves.

    >>> in_view(np.ones((1, 160)), 0)[0, [0, 1, -1]].tolist()
    [49.0, 1.0, 41.0]
    """
    low, high = OCTAVES
    column = np.clip(np.arange(counts.shape[1]) + LOWEST + scale, low, high - 1) - low
    return np.stack([np.bincount(column, row, minlength=high - low) for row in counts])


def spans(window: Window) -> list[tuple[float, float]]:
    """Start and end of the four ranges of ``OUTCOMES`` on the axis, in octaves.

    >>> spans(Window(-65520.0, -(2.0**-25), 2.0**-25, 65520.0, 2.0**-24, 2.0**-14))[1]
    (-25.0, -14.0)
    """
    low, high = OCTAVES
    edges = [float(np.clip(edge, low, high)) for edge in window_edges(window)]
    return list(zip([float(low), *edges], [*edges, float(high)], strict=True))


def _log2(value: float) -> float:
    return math.log2(value) if value > 0 else -math.inf
