"""The bits of precision of a format, octave by octave, and what becomes of a tensor in it: data of the plane."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lplab.figures.magnitude_histogram import magnitude_data
from lplab.figures.statistics import FLUSHED, SATURATED, TensorStatistics, as_format, name_of
from lplab.figures.window import window
from lplab.formats import FloatFormat

OCTAVES = -36, 18  # the axis: it stays where it is whatever format, bias and scale are
ROUNDING = "nearest_even"


@dataclass(frozen=True, eq=False)
class TensorRow:
    """What a format does to one tensor.

    Attributes:
        label: short name.
        group: the rows of a group stand together, below its name.
        kept, lost: float64 [octaves]: percent of the elements in each octave of `OCTAVES` that survive, and that become
            zero or saturate.
        shift: the tensor is multiplied by 2^shift before it is rounded.
        numbers: shares and errors.
    """

    label: str
    group: str
    kept: np.ndarray
    lost: np.ndarray
    shift: int
    numbers: TensorStatistics


def tensor_row(tensor: Any, fmt: Any, *, label: str, group: str, shift: int = 0) -> TensorRow:
    """Round 2^shift times a tensor and count, octave by octave, what survives.

    >>> row = tensor_row(np.array([1.0, 2.5, 2.0**-20, 1e6]), "e4m3fn", label="x", group="weights")
    >>> row.numbers.flushed, row.kept.sum(), row.lost.sum()
    (0.25, np.float64(50.0), np.float64(50.0))
    """
    low, high = OCTAVES
    data = magnitude_data(np.asarray(tensor) * 2.0**shift, fmt, rounding=ROUNDING, octaves=(low + shift, high + shift))
    assert data.numbers is not None  # there is a format
    lost = data.shares[FLUSHED] + data.shares[SATURATED]
    return TensorRow(label, group, data.shares.sum(axis=0) - lost, lost, shift, data.numbers)


def precision_of(fmt: Any) -> tuple[np.ndarray, np.ndarray]:
    """Bits of precision of a binary floating-point format, octave by octave: −log2 of the largest relative error.

    Returns:
        x: log2 of the magnitudes at which a new octave begins, the end of the range last; float64 [n].
        bits: from each x on, 0 at both ends; float64 [n].

    Raises:
        ValueError: the format is not binary floating point.

    >>> x, bits = precision_of("e2m1")
    >>> x.tolist(), bits.tolist()
    ([-2.0, -1.0, 0.0, 1.0, 2.0, 2.807354922057604], [0.0, 1.0, 2.0, 2.0, 2.0, 0.0])
    """
    return _precision(as_format(fmt))


@lru_cache(maxsize=256)
def _precision(fmt: Any) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(fmt, FloatFormat) or fmt.radix != 2:
        raise ValueError(f"a binary floating-point format is needed, got {name_of(fmt)}")
    edges = window(fmt, ROUNDING)
    first, normal = round(math.log2(fmt.smallest_subnormal)), round(math.log2(fmt.smallest_normal))
    octaves = np.arange(first - 1, math.floor(math.log2(fmt.max)) + 1, dtype=np.float64)
    bits = np.clip(octaves - normal, None, 0) + fmt.mantissa_bits + 1
    return np.append(octaves, math.log2(edges.magnitude)), np.append(np.where(octaves < first, 0.0, bits), 0.0)
