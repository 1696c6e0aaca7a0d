"""The rounding provided in the exercises of lab 13, and what they share: numbers in blocks, the library's formats."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.formats import BlockFormat, get

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def to_e2m1(x):
    """Each number of x rounded to E2M1: 0, 0.5, 1, 1.5, 2, 3, 4 or 6 with its sign; beyond 6 it becomes 6."""
    size = np.minimum(np.abs(x), 6.0)
    step = np.where(size < 2, 0.5, np.where(size < 4, 1.0, 2.0))
    return np.copysign(step * np.round(size / step), x)


def one_scale(block):
    """An array of any shape in E2M1 with one power of two as its scale, the smallest that clips nothing."""
    fraction, exponent = np.frexp(np.abs(block).max())
    scale = 2.0 ** (exponent - 3 + (fraction > 0.75))
    return scale * to_e2m1(block / scale)


def in_blocks(rows, size):
    """Each row of a matrix in blocks of `size` neighbours, each with a scale of its own."""
    parts = [[one_scale(row[i : i + size]) for i in range(0, row.size, size)] for row in rows]
    return np.array([np.concatenate(part) for part in parts])


def library_format(size: Any, rule: str = "rceil") -> BlockFormat:
    """E2M1 with power-of-two scales by one of ``lplab.formats.SCALE_RULES``, in blocks or tiles.

    >>> library_format(32, "floor").bits
    4.25
    """
    return BlockFormat(get("e2m1"), block_size=size, scale_rule=rule)


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Multiples of 1/64 of several octaves, so that sums of their rounded products are exact: float64."""
    rng = np.random.default_rng(seed)
    return np.round(rng.standard_normal(shape) * 2.0 ** rng.integers(-2, 4, shape) * 64) / 64
