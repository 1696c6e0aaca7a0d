"""Pairwise summation and Kahan's compensated summation as whole-array operations for numpy and torch.

Every addition is :func:`~lplab.arithmetic.array_kernels.add_to_odd` of two arrays, followed by rounding to the format.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.arithmetic import kernels, rng_streams
from lplab.arithmetic.array_kernels import BLOCK, Rounder, add_to_odd
from lplab.formats import Format, Rounding


def pairwise_sum(xp: Any, x: Any, fmt: Format, rounding: Rounding, seed: int) -> Any:
    """Sum float64 [length, sums] over the first axis: neighbours, then neighbours of their sums.

    For stochastic rounding the sums of a level are numbered as the elements of an array [pairs, sums].
    """
    if x.shape[0] < 2:
        zero = xp.zeros_like(x[:1].sum(0))
        return _add(xp, zero, x[0], fmt, rounding, seed, 0) if x.shape[0] else zero
    level = 0
    while x.shape[0] > 1:
        pairs = x.shape[0] // 2
        sums = _add(xp, x[0 : 2 * pairs : 2], x[1 : 2 * pairs : 2], fmt, rounding, seed, level)
        x = xp.concatenate([sums, x[2 * pairs :]])
        level += 1
    return x[0]


def _add(xp: Any, a: Any, b: Any, fmt: Format, rounding: Rounding, seed: int, level: int) -> Any:
    shape, a, b = a.shape, a.reshape(-1), b.reshape(-1)
    where = {} if xp is np else {"device": a.device}
    parts = [xp.zeros_like(a[:0])]
    for first in range(0, a.shape[0], BLOCK):
        part = slice(first, first + BLOCK)
        rounded = Rounder(xp, rounding, seed, first, where)
        parts.append(rounded(add_to_odd(xp, a[part], b[part]), fmt, rng_streams.ADDITION, level))
    return xp.concatenate(parts).reshape(shape)


def kahan_sum(xp: Any, x: Any, fmt: Format, rounding: Rounding, seed: int) -> Any:
    """Sum float64 [length, sums] over the first axis with Kahan's compensation, by the compiled loop if it serves."""
    if xp is np:
        total = kernels.kahan_sum(x, fmt, rounding, seed)
        if total is not None:
            return total
    where = {} if xp is np else {"device": x.device}
    rounded = Rounder(xp, rounding, seed, 0, where)
    total = lost = xp.zeros_like(x[:1].sum(0))
    for k in range(x.shape[0]):
        summand = rounded(add_to_odd(xp, x[k], -lost), fmt, rng_streams.ADDITION, k)
        after = rounded(add_to_odd(xp, total, summand), fmt, rng_streams.PRODUCT, k)
        gained = rounded(add_to_odd(xp, after, -total), fmt, rng_streams.TOTAL, k)
        lost = rounded(add_to_odd(xp, gained, -summand), fmt, rng_streams.EXTRA, k)
        total = after
    return total
