"""The roundings provided in the exercises of lab 13, and the formats of the library that they agree with."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.formats import BlockFormat, IntFormat, get


def to_e2m1(x):
    """Each number of x rounded to E2M1: 0, 0.5, 1, 1.5, 2, 3, 4 or 6 with its sign; beyond 6 it becomes 6."""
    step = np.select([np.abs(x) < 2, np.abs(x) < 4], [0.5, 1.0], 2.0)
    return np.clip(step * np.round(x / step), -6.0, 6.0)


def one_scale(block):
    """An array of any shape in four bits: whole numbers from −7 to 7, times one power of two for all of them."""
    scale = 2.0 ** (np.frexp(np.abs(block).max())[1] - 3)
    return np.clip(np.round(block / scale), -7, 7) * scale


def mxfp4_format(size: Any, rule: str) -> BlockFormat:
    """E2M1 with power-of-two scales by one of ``lplab.formats.SCALE_RULES``, in blocks or tiles.

    >>> mxfp4_format(32, "floor").bits
    4.25
    """
    return BlockFormat(get("e2m1"), block_size=size, scale_rule=rule)


def int4_format(size: Any) -> BlockFormat:
    """Whole numbers from −7 to 7 with power-of-two scales, in blocks or tiles: what `one_scale` does to each.

    >>> int4_format((1, 2)).quantize(np.array([[7.0, 0.6], [0.6, 0.1]]))
    array([[7.   , 1.   ],
           [0.625, 0.125]])
    """
    return BlockFormat(IntFormat(4, symmetric=True, scale=0.25), block_size=size)


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Multiples of 1/64 of several octaves, so that sums of their rounded products are exact: float64."""
    rng = np.random.default_rng(seed)
    return np.round(rng.standard_normal(shape) * 2.0 ** rng.integers(-2, 4, shape) * 64) / 64
