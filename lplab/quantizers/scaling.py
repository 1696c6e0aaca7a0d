"""Scaling rules: which magnitude of a tensor becomes the largest value of a format.

A scale is the value of one unit of the format, as in ``IntFormat``: values = scale · format.quantize(x / scale). A
rule computes the *clip* of a tensor, or of each of its channels: the magnitude that becomes the largest value of the
format. Then scale = clip / (largest value of the format). A new rule is a new class with a ``clips``
method.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from lplab.formats import Format
from lplab.formats.paths.grid_rules import FLOAT_LAYOUTS
from lplab.lookup import NamedSettings
from lplab.quantizers import array_inputs
from lplab.quantizers.reductions import finite_row_maxima

MIN_SCALE, MAX_SCALE = 2.0**-100, 2.0**100  # the limits of IntFormat; far from float32's own


class Scaling(NamedSettings, ABC):
    """A rule that chooses the scale of a tensor or of each of its channels.

    All rules treat special input alike: NaN and infinity are ignored in the statistics. Where the rule's clip is zero,
    the largest finite magnitude is used instead. A tensor (or channel) that is empty, all zero or has no finite number
    gets the scale 1. Scales stay within 2^−100 … 2^100. For a format without negative numbers only the
    positive ones count.
    """

    power_of_two: bool

    @abstractmethod
    def clips(self, xp: Any, rows: Any, format: Format) -> Any:
        """The clip of each row of [channels, elements] (numpy or torch, as ``xp``), in the dtype of the rows."""

    def scales(self, xp: Any, rows: Any, format: Format) -> Any:
        """The scale of each row, in the dtype of the rows."""
        clips = self.clips(xp, rows, format)
        if not bool((clips > 0).all()):
            clips = xp.where(clips > 0, clips, finite_row_maxima(xp, signed_rows(xp, rows, format)))
        scales = scales_from_clips(xp, clips, format)
        return next_power_of_two(xp, scales) if self.power_of_two else scales


def bounded(scale: float) -> float:
    """The scale, at least 2^−100 and at most 2^100.

    >>> bounded(0.5), bounded(1e-300) == 2.0**-100
    (0.5, True)
    """
    return min(max(scale, MIN_SCALE), MAX_SCALE)


def scales_from_clips(xp: Any, clips: Any, format: Format) -> Any:
    """The scales that make clips the largest value of a format; 1 where a clip is zero.

    >>> from lplab.formats import get
    >>> scales_from_clips(np, np.array([0.0, 127.0, 1e300]), get("int8")).tolist() == [1.0, 1.0, 2.0**100]
    True
    """
    limit = xp.full_like(clips, symmetric_max(format))  # not a Python number: CUDA would multiply by its reciprocal
    scales = xp.clip(clips / limit, MIN_SCALE, MAX_SCALE)
    return xp.where(clips > 0, scales, xp.ones_like(scales))


def symmetric_max(format: Format) -> float:
    """The largest value whose negative the format has too; the largest value where it has no negatives.

    >>> from lplab.formats import get
    >>> symmetric_max(get("int8")), symmetric_max(get("e4m3fn")), symmetric_max(get("e8m0")) == 2.0**127
    (127.0, 448.0, True)
    """
    return min(format.max, -format.min) if format.min < 0 else format.max


def next_power_of_two(xp: Any, scales: Any) -> Any:
    """The smallest power of two not below each (positive, normal) number, from its bits: logarithms are inexact.

    >>> next_power_of_two(np, np.array([0.5, 0.51, 3.0]))
    array([0.5, 1. , 4. ])
    """
    word = FLOAT_LAYOUTS[str(scales.dtype).removeprefix("torch.")]
    fraction = (1 << word.fraction_bits) - 1
    bits = scales.view(getattr(xp, word.integer))
    return ((bits + fraction) & ~fraction).view(scales.dtype)


def signed_rows(xp: Any, rows: Any, format: Format) -> Any:
    """The rows, with negative numbers set to 0 if the format has none."""
    return rows if format.min < 0 else xp.clip(rows, 0, None)


@dataclass(frozen=True)
class Amax(Scaling):
    """The largest magnitude becomes the largest value: nothing is clipped. Computed from the current tensor.

    Args:
        power_of_two: round the scale up to a power of two. Scaling is then exact, and still nothing is clipped.

    >>> from lplab.quantizers import Quantizer
    >>> round(Quantizer("int8", Amax()).scale([0.5, -2.54]), 6)
    0.02
    """

    power_of_two: bool = False

    def clips(self, xp: Any, rows: Any, format: Format) -> Any:
        """The largest finite magnitude of each row."""
        return finite_row_maxima(xp, signed_rows(xp, rows, format))


@dataclass(frozen=True)
class Percentile(Scaling):
    """The clip is a percentile of the magnitudes; larger ones are clipped.

    The clip is the smallest magnitude of the tensor that ``percent`` percent of the (finite) magnitudes do not
    exceed: a value of the tensor itself, without interpolation. It is computed on the CPU.

    Args:
        percent: above 0, at most 100, taken as its decimal representation. 100 is :class:`Amax`.
        power_of_two: round the scale up to a power of two.

    >>> from lplab.quantizers import Quantizer
    >>> Quantizer("int8", Percentile(75)).scale(np.array([1.0, 2.0, 127.0, 1e6]))
    1.0
    """

    percent: float = 99.9
    power_of_two: bool = False

    def __post_init__(self) -> None:
        number = isinstance(self.percent, int | float) and not isinstance(self.percent, bool)
        if not number or not 0 < self.percent <= 100:
            raise ValueError(f"percent must be a number above 0 and at most 100, got {self.percent!r}")

    def clips(self, xp: Any, rows: Any, format: Format) -> Any:
        """The order statistic of each row."""
        share = Fraction(repr(self.percent)) / 100
        clips = np.array([_order_statistic(row, share) for row in array_inputs.to_numpy(signed_rows(xp, rows, format))])
        return xp.asarray(clips.astype(array_inputs.to_numpy(rows).dtype)) if xp is np else rows.new_tensor(clips)


def _order_statistic(row: np.ndarray, share: Fraction) -> float:
    magnitudes = np.abs(row[np.isfinite(row)])
    if not magnitudes.size:
        return 0.0
    rank = math.ceil(share * magnitudes.size) - 1
    return float(np.partition(magnitudes, rank)[rank])
