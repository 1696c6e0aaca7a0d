"""The sum of :mod:`lplab.arithmetic.reference` as whole-array operations that numpy and torch share (CPU and CUDA).

All elements of the result take the same step at once, in float64. There the product of two float32 is exact. The
rounding error of the addition is recovered (Knuth's two-sum) and sets the last bit (round to odd), so the rounding that
follows gives the same as from the exact sum. Where float32 is known to suffice and nothing overflows or is subnormal,
six float32 operations do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lplab.arithmetic import rng_streams
from lplab.arithmetic.accumulator import Accumulator
from lplab.arithmetic.exactness import bit_range_of
from lplab.arithmetic.kernels import plan_kernel
from lplab.formats import Format, Rounding, counter_rng
from lplab.formats.paths import array_kernels

BLOCK = 2**14  # elements of the result at a time: they fit the processor's cache
DEVICE_BLOCK = 2**22  # the same on an accelerator: limits the memory of intermediate results


def add_to_odd(xp: Any, total: Any, summand: Any) -> Any:
    """The sum of float64 arrays rounded to odd: exact, or the one of the two neighbours whose last bit is odd.

    >>> add_to_odd(np, np.array([1.0]), np.array([2.0**-60])) == 1 + 2.0**-52
    array([ True])
    """
    near = total + summand
    virtual = near - total
    lost = (total - (near - virtual)) + (summand - virtual)  # NaN next to infinity: neither comparison holds
    bits = near.view(xp.int64)
    back = (bits ^ lost.view(xp.int64)) >> 63  # −1 where it was rounded away from zero
    inexact = (lost > 0) | (lost < 0)
    return xp.where(inexact, (bits + back) | 1, bits).view(xp.float64)


def matmul(xp: Any, a: Any, b: Any, accumulator: Accumulator, seed: int = 0) -> Any:
    """[batch, rows, length] times [batch, length, columns]; float64 in, float64 out.

    >>> matmul(np, np.ones((1, 1, 5000)), np.ones((1, 5000, 1)), Accumulator("dlfloat16"))
    array([[[1024.]]])
    """
    where = {} if xp is np else {"device": a.device}
    out = xp.zeros((a.shape[0], a.shape[1], b.shape[2]), dtype=xp.float64, **where)
    on_host = xp is np or a.device.type == "cpu"
    add = _adder(xp, a, b, accumulator)
    if add is not None:
        a, b = array_kernels.cast(xp, a, xp.float32), array_kernels.cast(xp, b, xp.float32)
    for batches, rows, first in blocks(out.shape, BLOCK if on_host else DEVICE_BLOCK):
        rounded = Rounder(xp, accumulator.rounding, seed, first, where)
        with np.errstate(all="ignore"):
            out[batches, rows] = _sum(xp, a[batches, rows], b[batches], accumulator, rounded, add)
    return out


def blocks(shape: Any, max_elements: int) -> Iterator[tuple[slice, slice, int]]:
    """Cut [batch, rows, columns] into runs of consecutive elements: batches, rows, the index of the first element.

    >>> [first for _, _, first in blocks((2, 4, 10), 20)]
    [0, 20, 40, 60]
    """
    batch, rows, columns = shape
    block_rows = max(max_elements // max(columns, 1), 1)
    if block_rows < rows:
        for one in range(batch):
            for row in range(0, rows, block_rows):
                yield slice(one, one + 1), slice(row, row + block_rows), (one * rows + row) * columns
    elif rows:
        matrices = block_rows // rows
        for one in range(0, batch, matrices):
            yield slice(one, one + matrices), slice(None), one * rows * columns


class Rounder:
    """Rounds arrays of consecutive elements of a result; their index gives them their random bits."""

    def __init__(self, xp: Any, rounding: Rounding, seed: int, first: int, where: Any) -> None:
        self.xp, self.rounding, self.seed, self.first, self.where = xp, rounding, seed, first, where

    def __call__(self, x: Any, fmt: Format, stream: int, step: int) -> Any:
        """Round a float64 array with the random bits of one step of a stream."""
        bits = None
        if self.rounding.is_stochastic:
            key = counter_rng.keys(self.seed, rng_streams.STREAMS * step + stream)
            count = int(np.prod(tuple(x.shape)))
            bits = counter_rng.random_bits(self.xp, key, self.first, count, self.rounding.random_bits, **self.where)
            bits = bits.reshape(x.shape)
        return array_kernels.quantize(self.xp, x, fmt.rounding_spec, self.rounding, bits)


def _adder(xp: Any, a: Any, b: Any, accumulator: Accumulator) -> Any:
    """A function that adds float32 arrays and rounds to nearest even without range checks; None if it is not exact."""
    ranges = [bit_range_of(x if xp is np else x.cpu().numpy()) for x in (a, b)]
    plan = plan_kernel(ranges[0].times(ranges[1]), accumulator, a.shape[2])
    if plan is None or (plan.real, plan.inner, plan.product) != ("float32", "nearest_even_alone", ""):
        return None
    if plan.exact_sums:
        return None
    infinity, push = (
        array_kernels.FLOAT_LAYOUTS["float32"].infinity,
        (23 << 23) + (1 << 22) - (accumulator.format.rounding_spec.mantissa_bits << 23),
    )

    def add(total: Any, product: Any) -> Any:
        near = total + product
        big = ((near.view(xp.int32) & infinity) + push).view(xp.float32)  # rounds away surplus bits
        return (near + big) - big

    return add


def _sum(xp: Any, a: Any, b: Any, accumulator: Accumulator, rounded: Rounder, add: Any) -> Any:
    length = a.shape[2]
    chunk = accumulator.chunk or max(length, 1)
    nothing = xp.zeros_like(a[:, :, :1] @ b[:, :1, :])
    total, part = array_kernels.cast(xp, nothing, xp.float64), nothing
    for number, start in enumerate(range(0, length, chunk)):
        part = nothing
        for k in range(start, min(start + chunk, length)):
            product = a[:, :, k, None] * b[:, k, None, :]
            if not accumulator.fma:
                product = rounded(product, accumulator.product_format, rng_streams.PRODUCT, k)
            if add is not None:
                part = add(part, product)
            else:
                part = rounded(add_to_odd(xp, part, product), accumulator.format, rng_streams.ADDITION, k)
        if accumulator.chunk:
            part = array_kernels.cast(xp, part, xp.float64)
            total = rounded(add_to_odd(xp, total, part), accumulator.outer_format, rng_streams.TOTAL, number)
    return total if accumulator.chunk else part
