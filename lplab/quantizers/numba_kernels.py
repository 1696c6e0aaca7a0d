"""Statistics and gradients of quantizers in one pass over the numbers, compiled by numba.

The loops are serial, and sums are in the order of :mod:`lplab.quantizers.reductions`. So the bits depend neither on the
number of threads nor on whether numba is installed.
"""

# mypy: ignore-errors
# (numba types these loops more strictly than Python does)

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numba import njit

from lplab.formats.paths.numba_compile import compile_loop, use_wide_vectors


@njit(nogil=True, inline="always")
def _pairwise_sum(sums):
    """The pairwise sum, in the order of :func:`lplab.quantizers.reductions.pairwise_sum`."""
    half = sums.size // 2
    while half:
        for j in range(half):
            sums[j] += sums[j + half]
        half //= 2
    return sums[0]


@cache
def moments_loop(lanes: int) -> Callable:
    """The loop over float32 [n]: the sums of squares and of magnitudes, and how many numbers are finite."""
    F, I, INFINITY = np.float64, np.int32, np.float32(np.inf)  # noqa: E741

    def loop(x):
        use_wide_vectors()
        squares, magnitudes, count = np.zeros(lanes), np.zeros(lanes), 0
        for first in range(0, x.size, lanes):
            part = x[first : first + lanes]
            finite = I(0)  # counted first: if all are finite, the usual case, the sums need no test
            for j in range(part.size):
                finite = I(finite + (I(1) if np.abs(part[j]) < INFINITY else I(0)))
            count += finite
            for j in range(part.size if finite == part.size else 0):
                wide = F(part[j])
                squares[j] += wide * wide
                magnitudes[j] += np.abs(wide)
            for j in range(part.size if finite < part.size else 0):
                value = F(part[j]) if np.abs(part[j]) < INFINITY else F(0)
                squares[j] += value * value
                magnitudes[j] += np.abs(value)
        return _pairwise_sum(squares), _pairwise_sum(magnitudes), count

    return compile_loop(loop)


@cache
def clip_mask_loop(signed: bool) -> Callable:
    """The loop behind :func:`lplab.quantizers.reductions.clip_mask`, from float32 [n] into int8 [n]."""
    I, ZERO = np.int32, np.float32(0)  # noqa: E741

    def loop(x, sides, bound):
        use_wide_vectors()
        for j in range(x.size):
            below = x[j] <= -bound if signed else False
            neither = x[j] != x[j] if signed else not x[j] >= ZERO
            sides[j] = I(2) if neither else I(I(x[j] >= bound) - I(below))

    return compile_loop(loop)


@cache
def clip_loop(lanes: int) -> Callable:
    """The loop behind :func:`lplab.quantizers.reductions.clip_backward`, on int8 and float32 [n]; returns the sum."""
    F, I, ZERO = np.float64, np.int32, np.float32(0)  # noqa: E741

    def loop(sides, gradient, for_x):
        use_wide_vectors()
        sums = np.zeros(lanes)
        for first in range(0, sides.size, lanes):
            last = first + lanes
            part, upstream, out = sides[first:last], gradient[first:last], for_x[first:last]
            outside = I(0)  # stays 0 if no number is outside, so that no sums are needed
            for j in range(part.size):
                side = I(part[j])
                out[j] = upstream[j] if side == 0 else ZERO
                outside = I(outside | side)
            for j in range(part.size if outside else 0):
                term = F(upstream[j])
                sums[j] += (term if part[j] == 1 else F(0)) - (term if part[j] == -1 else F(0))
        return _pairwise_sum(sums)

    return compile_loop(loop)
