"""The scale with the least mean squared error, by search over candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.checks import check_int
from lplab.formats import Format
from lplab.quantizers import array_inputs
from lplab.quantizers.quantizer import quantize_scaled
from lplab.quantizers.scaling import Amax, Scaling, scales_from_clips, signed_rows, symmetric_max


@dataclass(frozen=True)
class MinMSE(Scaling):
    """The scale with the least mean squared error among candidates.

    The candidates are the clips amax·j/candidates for j = candidates … 1, or, with ``power_of_two``, the scales 2^k
    from that of :class:`Amax` down, ``candidates`` of them. All are tried with rounding to nearest even; errors are
    summed in float64; of equal errors the larger clip wins. So the result is the optimum of the candidates, and as
    close to the true optimum as they are dense. The search runs on the CPU and costs ``candidates`` quantizations.

    Args:
        candidates: number of candidates, 1 to 10,000.
        power_of_two: allow only powers of two.

    >>> from lplab.quantizers import Amax, Quantizer
    >>> x = np.array([1.0, -1.0, 1.0, 1.0, 6.5])
    >>> Quantizer("int2", Amax()).scale(x), Quantizer("int2", MinMSE(13)).scale(x)
    (6.5, 6.5)
    """

    candidates: int = 100
    power_of_two: bool = False

    def __post_init__(self) -> None:
        check_int("candidates", self.candidates, 1, 10_000)

    def clips(self, xp: Any, rows: Any, format: Format) -> Any:
        """The best clip of each row."""
        x = array_inputs.to_numpy(rows)
        x = np.where(np.isfinite(x), x, np.zeros_like(x))
        least, best = np.full(len(x), np.inf), np.zeros(len(x), x.dtype)
        for clips in self.candidate_clips(x, format):
            error = squared_errors(x, clips, format)
            best = np.where(error < least, clips, best)
            least = np.minimum(error, least)
        return best if xp is np else rows.new_tensor(best)

    def candidate_clips(self, rows: np.ndarray, format: Format) -> Iterator[np.ndarray]:
        """The candidates in falling order, each a clip per row."""
        amax, n = Amax(self.power_of_two), self.candidates
        if self.power_of_two:
            scales, limit = amax.scales(np, rows, format), rows.dtype.type(symmetric_max(format))
            return (np.ldexp(scales, -j) * limit for j in range(n))
        clips = amax.clips(np, signed_rows(np, rows, format), format)
        return (clips * ((n - j) / n) for j in range(n))


def squared_errors(rows: np.ndarray, clips: np.ndarray, format: Format) -> np.ndarray:
    """The sum of squared errors of each row (float64) if its clip becomes the largest value of the format.

    >>> from lplab.formats import get
    >>> squared_errors(np.array([[0.5, 3.0]]), np.array([2.0]), get("int2"))
    array([1.25])
    """
    values = quantize_scaled(np, rows, scales_from_clips(np, clips, format), 0, format, "nearest_even", None)
    error = values.astype(np.float64) - rows
    return np.einsum("ij,ij->i", error, error)
