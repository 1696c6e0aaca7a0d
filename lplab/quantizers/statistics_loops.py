"""Statistics and gradients of quantizers in one pass over the numbers, compiled by numba.

The loops are serial, and sums are in the order of :mod:`lplab.quantizers.lanes`. So the bits depend neither on the
number of threads nor on whether numba is installed.
"""

# mypy: ignore-errors
# ruff: noqa: F821
# (numba types these loops more strictly than Python does, and takes some names from elsewhere)

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numba import carray, njit

from lplab.formats.paths.numba_compile import compile_loop, pointer, use_wide_vectors, words_for, words_stamp
from lplab.quantizers.lanes import LANES, pairwise_sum

INFINITY = np.float32(np.inf)


def _compile(loop: Callable, functions: tuple[Callable, ...], names: dict | None = None) -> Callable:
    """The loop compiled; it calls functions of Python, which are compiled, too, and others by ``names``."""
    compiled = {function.__name__: njit(function, forceinline=True, nogil=True) for function in functions}
    return compile_loop(loop, compiled | (names or {}), ".".join(map(words_stamp, functions)))


@njit(nogil=True, inline="always")
def _add_moments(part, squares, magnitudes):
    """Add up to LANES numbers to the sums of squares and of magnitudes, and return how many are finite."""
    finite = np.int32(0)  # counted first: if all are finite, the usual case, the sums need no test
    for j in range(part.size):
        finite = np.int32(finite + (np.int32(1) if np.abs(part[j]) < INFINITY else np.int32(0)))
    for j in range(part.size if finite == part.size else 0):
        wide = np.float64(part[j])
        squares[j] += wide * wide
        magnitudes[j] += np.abs(wide)
    for j in range(part.size if finite < part.size else 0):
        value = np.float64(part[j]) if np.abs(part[j]) < INFINITY else np.float64(0)
        squares[j] += value * value
        magnitudes[j] += np.abs(value)
    return finite


@cache
def moments_loop() -> Callable:
    """The loop over float32 [n]: E[x²] and E|x| of the finite numbers."""

    def loop(x):
        use_wide_vectors()
        squares, magnitudes, finite = np.zeros(LANES), np.zeros(LANES), 0
        for first in range(0, x.size, LANES):
            finite += _add_moments(x[first : first + LANES], squares, magnitudes)
        return pairwise_sum(squares) / max(finite, 1), pairwise_sum(magnitudes) / max(finite, 1)

    return _compile(loop, (pairwise_sum,))


@cache
def sawb_loop(formula: Callable, limits: Callable) -> Callable:
    """The loop that finds SAWB's clip α and rounds to the integers −half … half in steps of α / half.

    It takes the addresses of float32 x and out, how many there are, the coefficients c1 and c2, and half. It returns α;
    0, and nothing is rounded, where the formula gives no positive number.

    Args:
        formula: ``clip_of_moments`` of :mod:`lplab.quantizers.sawb`.
        limits: ``bounded`` of :mod:`lplab.quantizers.scaling`.
    """
    F, I = np.float32, np.int32  # noqa: E741
    huge = F(1.5 * 2**23).view(I)

    def loop(x_address, out_address, count, c1, c2, half):
        use_wide_vectors()
        x, patterns = carray(pointer(x_address), count, F), carray(pointer(x_address), count, I)
        out = carray(pointer(out_address), count, I)
        squares, magnitudes, finite = np.zeros(LANES), np.zeros(LANES), 0
        for first in range(0, count, LANES):
            finite += _add_moments(x[first : first + LANES], squares, magnitudes)
        square, mean = pairwise_sum(squares) / max(finite, 1), pairwise_sum(magnitudes) / max(finite, 1)
        alpha = F(clip_of_moments(square, mean, c1, c2))
        step, high = as_bits(F(bounded(F(alpha / F(half))))), as_bits(F(half))
        for i in range(count if alpha > F(0) else 0):
            out[i] = multiplied(evenly_spaced(divided(patterns[i], step, I(0)), I(high | SIGN), high, huge), step)
        return np.float64(alpha)

    return _compile(loop, (pairwise_sum, formula, limits), words_for("float32"))


@cache
def clip_mask_loop(rule: Callable, signed: bool) -> Callable:
    """The loop behind :func:`lplab.quantizers.reductions.clip_mask`, from float32 [n] into int8 [n].

    Args:
        rule: ``clip_sides`` of that module.
        signed: whether the lower bound is that of signed numbers.
    """
    I = np.int32  # noqa: E741

    def loop(x, sides, bound):
        use_wide_vectors()
        for j in range(x.size):
            inside, above, below = clip_sides(x[j], bound, signed)
            sides[j] = I(0) if inside else I(1) if above else I(-1) if below else I(2)

    return _compile(loop, (rule,))


@cache
def clip_loop() -> Callable:
    """The loop behind :func:`lplab.quantizers.reductions.clip_backward`, on int8 and float32 [n]; returns the sum."""
    F, I, ZERO = np.float64, np.int32, np.float32(0)  # noqa: E741

    def loop(sides, gradient, for_x):
        use_wide_vectors()
        sums = np.zeros(LANES)
        for first in range(0, sides.size, LANES):
            last = first + LANES
            part, upstream, out = sides[first:last], gradient[first:last], for_x[first:last]
            outside = I(0)  # stays 0 if no number is outside, so that no sums are needed
            for j in range(part.size):
                side = I(part[j])
                out[j] = upstream[j] if side == 0 else ZERO
                outside = I(outside | side)
            for j in range(part.size if outside else 0):
                term = F(upstream[j])
                sums[j] += (term if part[j] == 1 else F(0)) - (term if part[j] == -1 else F(0))
        return pairwise_sum(sums)

    return _compile(loop, (pairwise_sum,))
