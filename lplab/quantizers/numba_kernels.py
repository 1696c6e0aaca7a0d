"""Statistics and gradients of quantizers in one pass over the numbers, compiled by numba.

The loops are serial, and sums are in the order of :mod:`lplab.quantizers.reductions`. So the bits depend neither on the
number of threads nor on whether numba is installed.
"""

# mypy: ignore-errors
# (numba types these loops more strictly than Python does)

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numba import carray, njit

from lplab.formats.paths.numba_compile import compile_loop, pointer, use_wide_vectors, words_for
from lplab.quantizers.scaling import MAX_SCALE, MIN_SCALE

INFINITY = np.float32(np.inf)
LEAST_STEP, LARGEST_STEP = np.float32(MIN_SCALE), np.float32(MAX_SCALE)
BETWEEN_INTEGERS = np.float32(1.5 * 2**23)  # added to a number of either sign and subtracted: rounds to an integer


@njit(nogil=True, inline="always")
def _pairwise_sum(sums):
    """The pairwise sum, in the order of :func:`lplab.quantizers.reductions.pairwise_sum`."""
    half = sums.size // 2
    while half:
        for j in range(half):
            sums[j] += sums[j + half]
        half //= 2
    return sums[0]


@njit(nogil=True, inline="always")
def _moments(x, lanes):
    """The sums of squares and of magnitudes of float32 [n], and how many numbers are finite."""
    squares, magnitudes, count = np.zeros(lanes), np.zeros(lanes), 0
    for first in range(0, x.size, lanes):
        part = x[first : first + lanes]
        finite = np.int32(0)  # counted first: if all are finite, the usual case, the sums need no test
        for j in range(part.size):
            finite = np.int32(finite + (np.int32(1) if np.abs(part[j]) < INFINITY else np.int32(0)))
        count += finite
        for j in range(part.size if finite == part.size else 0):
            wide = np.float64(part[j])
            squares[j] += wide * wide
            magnitudes[j] += np.abs(wide)
        for j in range(part.size if finite < part.size else 0):
            value = np.float64(part[j]) if np.abs(part[j]) < INFINITY else np.float64(0)
            squares[j] += value * value
            magnitudes[j] += np.abs(value)
    return _pairwise_sum(squares), _pairwise_sum(magnitudes), count


@cache
def moments_loop(lanes: int) -> Callable:
    """The loop over float32 [n]: the sums of squares and of magnitudes, and how many numbers are finite."""

    def loop(x):
        use_wide_vectors()
        return _moments(x, lanes)

    return compile_loop(loop)


@cache
def sawb_loop(lanes: int) -> Callable:
    """The loop that finds SAWB's clip α and rounds to the integers −half … half in steps of α / half.

    It takes the addresses of float32 x and out, how many there are, the coefficients c1 and c2, and half. It returns α;
    0, and nothing is rounded, where the formula gives no positive number.
    """
    F = np.float32

    def loop(x_address, out_address, count, c1, c2, half):
        use_wide_vectors()
        x, out = carray(pointer(x_address), count, F), carray(pointer(out_address), count, np.int32)
        bits = carray(pointer(x_address), count, np.int32)
        squares, magnitudes, finite = _moments(x, lanes)
        formula = c1 * math.sqrt(squares / max(finite, 1)) - c2 * (magnitudes / max(finite, 1))
        if not 0 < formula < math.inf:
            return 0.0
        alpha, high = F(formula), F(half)
        step = as_bits(F(min(max(F(alpha / high), LEAST_STEP), LARGEST_STEP)))
        low, high, huge = as_bits(F(-high)), as_bits(high), as_bits(BETWEEN_INTEGERS)
        for i in range(count if alpha > F(0) else 0):
            out[i] = multiplied(evenly_spaced(divided(bits[i], step, 0), low, high, huge), step)
        return np.float64(alpha)

    return compile_loop(loop, words_for("float32"))


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
