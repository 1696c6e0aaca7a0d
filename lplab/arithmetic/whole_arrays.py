"""The sum of :mod:`lplab.arithmetic.reference` as whole-array operations that numpy and torch share (CPU and CUDA).

All elements of the result take the same step together, in float64. There the product of two float32 is exact; what the
addition loses is recovered (Knuth's two-sum) and shows in the last bit, so that the rounding that follows sees the
exact sum. Where float32 is known to do, and rounding to be all that can happen, six operations on it suffice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lplab.arithmetic import streams
from lplab.arithmetic.accumulator import Accumulator
from lplab.arithmetic.exactness import span_of
from lplab.arithmetic.kernels import choose
from lplab.formats import Format, Rounding, arrays, counter

BLOCK = 2**14  # elements of the result at a time: they stay in the processor's cache
DEVICE_BLOCK = 2**22  # the same for an accelerator: bounds the memory for intermediate results


def add_to_odd(xp: Any, total: Any, summand: Any) -> Any:
    """The exact sum of float64 arrays; where it is no float64, of its two neighbours the one with an odd last bit.

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
        a, b = arrays.cast(xp, a, xp.float32), arrays.cast(xp, b, xp.float32)
    for batches, rows, first in blocks(out.shape, BLOCK if on_host else DEVICE_BLOCK):
        rounded = Rounder(xp, accumulator.rounding, seed, first, where)
        with np.errstate(all="ignore"):
            out[batches, rows] = _sum(xp, a[batches, rows], b[batches], accumulator, rounded, add)
    return out


def blocks(shape: Any, most: int) -> Iterator[tuple[slice, slice, int]]:
    """Cut [batch, rows, columns] into runs of consecutive elements: batches, rows, the number of the first element.

    >>> [first for _, _, first in blocks((2, 4, 10), 20)]
    [0, 20, 40, 60]
    """
    batch, rows, columns = shape
    few = max(most // max(columns, 1), 1)
    if few < rows:
        for one in range(batch):
            for row in range(0, rows, few):
                yield slice(one, one + 1), slice(row, row + few), (one * rows + row) * columns
    elif rows:
        many = few // rows
        for one in range(0, batch, many):
            yield slice(one, one + many), slice(None), one * rows * columns


class Rounder:
    """Rounds arrays of consecutive elements of a result; knows where they lie, for their random bits."""

    def __init__(self, xp: Any, rounding: Rounding, seed: int, first: int, where: Any) -> None:
        self.xp, self.rounding, self.seed, self.first, self.where = xp, rounding, seed, first, where

    def __call__(self, x: Any, fmt: Format, stream: int, step: int) -> Any:
        """A float64 array, rounded in a step of a stream."""
        draws = None
        if self.rounding.is_stochastic:
            key = counter.keys(self.seed, streams.STREAMS * step + stream)
            count = int(np.prod(tuple(x.shape)))
            draws = counter.draws(self.xp, key, self.first, count, self.rounding.random_bits, **self.where)
            draws = draws.reshape(x.shape)
        return arrays.quantize(self.xp, x, fmt.plan, self.rounding, draws)


def _adder(xp: Any, a: Any, b: Any, accumulator: Accumulator) -> Any:
    """A short way to add and round float32 arrays to nearest even, for operands where that is all there is to do."""
    spans = [span_of(x if xp is np else x.cpu().numpy()) for x in (a, b)]
    choice = choose(spans[0].times(spans[1]), accumulator, a.shape[2])
    if choice is None or (choice.real, choice.inner, choice.product) != ("float32", "nearest_even_alone", ""):
        return None
    if choice.exact_sums:
        return None
    infinity, push = (
        arrays.WORDS["float32"].infinity,
        (23 << 23) + (1 << 22) - (accumulator.format.plan.mantissa_bits << 23),
    )

    def add(total: Any, product: Any) -> Any:
        near = total + product
        big = ((near.view(xp.int32) & infinity) + push).view(xp.float32)  # pushes out what does not fit the format
        return (near + big) - big

    return add


def _sum(xp: Any, a: Any, b: Any, accumulator: Accumulator, rounded: Rounder, add: Any) -> Any:
    length = a.shape[2]
    chunk = accumulator.chunk or max(length, 1)
    nothing = xp.zeros_like(a[:, :, :1] @ b[:, :1, :])
    total, part = arrays.cast(xp, nothing, xp.float64), nothing
    for number, start in enumerate(range(0, length, chunk)):
        part = nothing
        for k in range(start, min(start + chunk, length)):
            product = a[:, :, k, None] * b[:, k, None, :]
            if not accumulator.fma:
                product = rounded(product, accumulator.product_format, streams.PRODUCT, k)
            if add is not None:
                part = add(part, product)
            else:
                part = rounded(add_to_odd(xp, part, product), accumulator.format, streams.ADDITION, k)
        if accumulator.chunk:
            part = arrays.cast(xp, part, xp.float64)
            total = rounded(add_to_odd(xp, total, part), accumulator.outer_format, streams.TOTAL, number)
    return total if accumulator.chunk else part
