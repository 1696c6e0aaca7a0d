"""The inner loops, compiled by numba: products and sums with every addition rounded, in one pass over the operands.

The loops are serial; :mod:`lplab.arithmetic.threads` distributes the rows. A loop works on a block of columns at a
time: their accumulators are neighbours in memory, so one vector instruction rounds many of them. A product may be fused
with the addition; where that could change a bit, the loops are not used (:mod:`lplab.arithmetic.exactness`).
"""

# mypy: ignore-errors
# (numba types these loops more strictly than Python does)

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numba import njit, types
from numba.extending import overload

from lplab.arithmetic.numba_rounding import FIRST_STOCHASTIC, rounded
from lplab.formats.paths.numba_compile import compile_loop, use_wide_vectors

LINE = 64  # bytes of a cache line, and of the widest vector
DEPTH = 256  # steps in k done for all rows before the next steps
ROWS = 2  # rows that use a block of columns while it is in the fastest cache


def add_to_odd(total, summand):
    """The sum rounded to odd, as in :mod:`lplab.arithmetic.array_kernels`; in compiled code only."""
    raise NotImplementedError("add_to_odd() exists in compiled code only; see lplab.arithmetic.array_kernels")


@overload(add_to_odd, jit_options={"forceinline": True, "error_model": "numpy"})
def _add_to_odd(total, summand):
    F, I = (np.float32, np.int32) if total == types.float32 else (np.float64, np.int64)  # noqa: E741
    SHIFT = I(31 if total == types.float32 else 63)

    def implementation(total, summand):
        near = F(total + summand)
        virtual = F(near - total)
        lost = F(F(total - F(near - virtual)) + F(summand - virtual))
        bits = F(near).view(I)
        back = I(I(bits ^ F(lost).view(I)) >> SHIFT)  # −1 where it was rounded away from zero
        inexact = lost > F(0) or lost < F(0)  # false for NaN, which infinite operands give
        return I(I(I(bits + back) | I(1)) if inexact else bits).view(F)

    return implementation


@njit(inline="always")
def aligned_zeros(rows, columns, real):
    """Zeros [rows, columns] aligned to a cache line; loading a vector that spans two lines takes twice the time."""
    raw = np.zeros(rows * columns + LINE // 4, real)
    first = (LINE - raw.ctypes.data % LINE) % LINE // raw.itemsize
    return raw[first : first + rows * columns].reshape((rows, columns))


@cache
def matmul_loop(real: str, inner: int, outer: int, product: int, exact_sums: bool, rows: int, width: int) -> Callable:
    """The loop for matrix products.

    Args:
        real: "float32" or "float64".
        inner, outer, product: of ``numba_rounding.MODES``: for sums, sums over chunks, products; −1 for none.
        exact_sums: recover the rounding errors of additions in this word.
        rows: 1 or ``ROWS``.
        width: columns in a block, a compile-time constant: many independent sums hide the latency of one addition.
            0: few columns, their number is known at run time only.

    The loop takes a [batch, m, length] with m a multiple of ``rows``, b [batch, blocks, length, width] and out [batch,
    m, blocks · width], all of the same word, and works on the groups of ``rows`` rows first … last − 1, numbered
    across the batch. ``steps`` are the increments of an element's index with batch, row and column.
    """
    F, U = np.dtype(real).type, np.uint32
    stochastic = inner >= FIRST_STOCHASTIC

    # fmt: off
    def loop(
        a, b, out, first, last, chunk, inner_c, outer_c, product_c, inner_keys, outer_keys, product_keys, steps,
    ):
        # fmt: on
        use_wide_vectors()
        groups, length = a.shape[1] // rows, a.shape[2]
        used = width if width else b.shape[3]
        height = min(last - first, groups) * rows
        part, total = aligned_zeros(height, used, F), aligned_zeros(height if outer >= 0 else 0, used, F)
        batch_step, row_step, column_step = U(steps[0]), U(steps[1]), U(steps[2])
        at = key_1 = key_2 = product_key_1 = product_key_2 = U(0)
        group = first
        while group < last:
            batch = group // groups
            stop = min(last, (batch + 1) * groups)
            top, bottom = (group - batch * groups) * rows, (stop - batch * groups) * rows
            for block in range(b.shape[1]):
                part[:] = F(0)
                total[:] = F(0)
                for near in range(0, length, DEPTH):  # this part of b stays in the cache for all rows
                    for row in range(top, bottom, rows):
                        number = near // chunk
                        end = min((number + 1) * chunk, length)
                        for k in range(near, min(near + DEPTH, length)):
                            if stochastic:
                                key_1, key_2 = inner_keys[k, 0], inner_keys[k, 1]
                                if product >= 0:
                                    product_key_1, product_key_2 = product_keys[k, 0], product_keys[k, 1]
                            for r in range(rows):
                                x, sums, terms = a[batch, row + r, k], part[row - top + r], b[batch, block, k]
                                if stochastic:
                                    at = U(U(batch) * batch_step)
                                    at = U(at + U(U(row + r) * row_step))
                                    at = U(at + U(U(block * used) * column_step))
                                for j in range(used):
                                    index = U(at + U(U(j) * column_step))
                                    p = F(x * terms[j])
                                    if product >= 0:
                                        p = rounded(p, product, product_c, index, product_key_1, product_key_2)
                                    s = add_to_odd(sums[j], p) if exact_sums else F(sums[j] + p)
                                    sums[j] = rounded(s, inner, inner_c, index, key_1, key_2)
                            if outer >= 0 and k + 1 == end:
                                if stochastic:
                                    key_1, key_2 = outer_keys[number, 0], outer_keys[number, 1]
                                for r in range(rows):
                                    sums, totals = part[row - top + r], total[row - top + r]
                                    if stochastic:
                                        at = U(U(batch) * batch_step)
                                        at = U(at + U(U(row + r) * row_step))
                                        at = U(at + U(U(block * used) * column_step))
                                    for j in range(used):
                                        index = U(at + U(U(j) * column_step))
                                        p = sums[j]
                                        s = add_to_odd(totals[j], p) if exact_sums else F(totals[j] + p)
                                        totals[j] = rounded(s, outer, outer_c, index, key_1, key_2)
                                        sums[j] = F(0)
                                number += 1
                                end = min(end + chunk, length)
                for row in range(top, bottom):
                    for j in range(used):
                        out[batch, row, block * used + j] = total[row - top, j] if outer >= 0 else part[row - top, j]
            group = stop

    return compile_loop(loop, fastmath={"contract"})


@cache
def kahan_loop(mode: int) -> Callable:
    """The loop for Kahan's sum of float64 [length, sums] over the first axis into ``total``, which starts at zero."""
    stochastic = mode >= FIRST_STOCHASTIC
    F, U = np.float64, np.uint32

    def loop(x, total, c, keys_1, keys_2, keys_3, keys_4):
        use_wide_vectors()
        lost = np.zeros(total.size, F)
        a = b = d = e = np.zeros(2, np.uint32)
        for k in range(x.shape[0]):
            if stochastic:
                a, b, d, e = keys_1[k], keys_2[k], keys_3[k], keys_4[k]
            for j in range(total.size):
                index = U(j)
                summand = rounded(add_to_odd(x[k, j], F(-lost[j])), mode, c, index, a[0], a[1])
                after = rounded(add_to_odd(total[j], summand), mode, c, index, b[0], b[1])
                gained = rounded(add_to_odd(after, F(-total[j])), mode, c, index, d[0], d[1])
                lost[j] = rounded(add_to_odd(gained, F(-summand)), mode, c, index, e[0], e[1])
                total[j] = after

    return compile_loop(loop, fastmath={"contract"})


@cache
def bit_range_loop() -> Callable:
    """The loop that computes a :class:`~lplab.arithmetic.exactness.BitRange` from float32 bit patterns."""
    I, F = np.int32, np.float32  # noqa: E741
    MAGNITUDE, INFINITY, NORMAL = I(0x7FFFFFFF), I(0x7F800000), I(0x00800000)

    def loop(x):
        use_wide_vectors()
        fewest, least, most, largest = I(24), I(1000), I(-1000), I(0)
        for i in range(x.size):
            magnitude = I(x[i] & MAGNITUDE)
            largest = I(max(largest, magnitude))
            exponent = I(max(I(I(magnitude >> I(23)) - I(127)), I(-126)))
            significand = I(I(magnitude & I(NORMAL - I(1))) | (NORMAL if magnitude >= NORMAL else I(0)))
            lowest = F(I(significand & I(-significand)))  # its exponent is the number of trailing zeros
            zeros = I(I(lowest.view(I) >> I(23)) - I(127))
            counts = I(magnitude - I(1)) >= I(0) and magnitude < INFINITY
            fewest = I(min(fewest, zeros if counts else I(24)))
            least = I(min(least, I(exponent + zeros) if counts else I(1000)))
            most = I(max(most, exponent if counts else I(-1000)))
        if fewest == I(24):
            return 1, 0, 0, largest < INFINITY
        return 24 - fewest, least - 23, most + 1, largest < INFINITY

    return compile_loop(loop, fastmath={"contract"})
