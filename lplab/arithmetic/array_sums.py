"""Sums and products with every addition rounded, as whole-array operations that numpy and torch share (CPU and CUDA).

All elements of the result take the same step of :mod:`lplab.arithmetic.accumulation` at once, in float64. There the
product of two float32 is exact. Where float32 is known to suffice and nothing overflows or is subnormal, six float32
operations do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from lplab.arithmetic import accumulation, compiled_sums, rng_streams
from lplab.arithmetic.accumulator import Accumulator
from lplab.arithmetic.exactness import bit_range_of
from lplab.formats import Format, Rounding, counter_rng, words
from lplab.formats.paths import array_kernels
from lplab.formats.paths.grid_rules import Rule

BLOCK = 2**14  # elements of the result at a time: they fit the processor's cache
DEVICE_BLOCK = 2**22  # the same on an accelerator: limits the memory of intermediate results


def matmul(xp: Any, a: Any, b: Any, accumulator: Accumulator, seed: int = 0) -> Any:
    """[batch, rows, length] times [batch, length, columns]; float64 in, float64 out.

    >>> matmul(np, np.ones((1, 1, 5000)), np.ones((1, 5000, 1)), Accumulator("dlfloat16"))
    array([[[1024.]]])
    """
    on_host = xp is np or a.device.type == "cpu"
    out = xp.zeros((a.shape[0], a.shape[1], b.shape[2]), dtype=xp.float64, **_device_of(xp, a))
    steps = collect = _steps(xp, accumulator.rounding, rounds_products=not accumulator.fma)
    in_range = _rule_in_range(xp, a, b, accumulator)
    if in_range is not None:
        steps = _steps_in_range(xp, in_range)
        a, b = array_kernels.cast(xp, a, xp.float32), array_kernels.cast(xp, b, xp.float32)
    for batches, rows, first in blocks(out.shape, BLOCK if on_host else DEVICE_BLOCK):
        draws = partial(draws_of, xp, accumulator.rounding, seed, first, out[batches, rows])
        with np.errstate(all="ignore"):
            out[batches, rows] = _sum(xp, a[batches, rows], b[batches], accumulator, draws, steps, collect)
    return out


def _sum(xp: Any, a: Any, b: Any, how: Accumulator, draws: Callable, steps: Any, collect: Any) -> Any:
    length = a.shape[2]
    chunk = how.chunk or max(length, 1)
    nothing = xp.zeros_like(a[:, :, :1] @ b[:, :1, :])
    total, part = array_kernels.cast(xp, nothing, xp.float64), nothing
    for number, start in enumerate(range(0, length, chunk)):
        part = nothing
        for k in range(start, min(start + chunk, length)):
            x, y, draw = a[:, :, k, None], b[:, k, None, :], draws(rng_streams.ADDITION, k)
            product_draw = None if how.fma else draws(rng_streams.PRODUCT, k)
            part = steps.accumulate(part, x, y, draw, how.format, product_draw, how.product_format)
        if how.chunk:
            part = array_kernels.cast(xp, part, xp.float64)
            total = collect.add_rounded(total, part, draws(rng_streams.TOTAL, number), how.outer_format)
    return total if how.chunk else part


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


def draws_of(xp: Any, rounding: Rounding, seed: int, first: int, like: Any, stream: int, step: int) -> Any:
    """The random integers of one step of a stream for consecutive elements of a result; None where none are needed.

    Args:
        xp: numpy or torch.
        rounding: of the sums.
        seed: of the random bits.
        first: the index of the first element in the whole result.
        like: an array of the shape of the elements, on their device.
        stream, step: see :mod:`lplab.arithmetic.rng_streams`.
    """
    if not rounding.is_stochastic:
        return None
    key = counter_rng.keys(seed, rng_streams.STREAMS * step + stream)
    count = int(np.prod(tuple(like.shape)))
    bits = counter_rng.random_bits(xp, key, first, count, rounding.random_bits, **_device_of(xp, like))
    return bits.reshape(like.shape)


def pairwise_sum(xp: Any, x: Any, fmt: Format, rounding: Rounding, seed: int) -> Any:
    """Sum float64 [length, sums] over the first axis: neighbours, then neighbours of their sums.

    For stochastic rounding the sums of a level are numbered as the elements of an array [pairs, sums].
    """
    steps, level = _steps(xp, rounding), 0

    def add(a: Any, b: Any) -> Any:
        shape, a, b = a.shape, a.reshape(-1), b.reshape(-1)
        parts = [xp.zeros_like(a[:0])]
        for first in range(0, a.shape[0], BLOCK):
            part = slice(first, first + BLOCK)
            draw = draws_of(xp, rounding, seed, first, a[part], rng_streams.ADDITION, level)
            parts.append(steps.add_rounded(a[part], b[part], draw, fmt))
        return xp.concatenate(parts).reshape(shape)

    if x.shape[0] < 2:
        zero = xp.zeros_like(x[:1].sum(0))
        return add(zero, x[0]) if x.shape[0] else zero
    while x.shape[0] > 1:
        pairs = x.shape[0] // 2
        x = xp.concatenate([add(x[0 : 2 * pairs : 2], x[1 : 2 * pairs : 2]), x[2 * pairs :]])
        level += 1
    return x[0]


def kahan_sum(xp: Any, x: Any, fmt: Format, rounding: Rounding, seed: int) -> Any:
    """Sum float64 [length, sums] over the first axis with Kahan's compensation, by the compiled loop if it serves."""
    if xp is np:
        total = compiled_sums.kahan_sum(x, fmt, rounding, seed)
        if total is not None:
            return total
    steps = _steps(xp, rounding)
    total = lost = xp.zeros_like(x[:1].sum(0))
    for k in range(x.shape[0]):
        draws = [draws_of(xp, rounding, seed, 0, total, stream, k) for stream in range(rng_streams.STREAMS)]
        total, lost = steps.compensate(total, lost, x[k], *draws, fmt)
    return total


def _steps(xp: Any, rounding: Rounding, rounds_products: bool = False) -> SimpleNamespace:
    """The functions of :mod:`lplab.arithmetic.accumulation` on float64 arrays; their constants are formats."""

    def rounded(x: Any, draw: Any, fmt: Format) -> Any:
        return array_kernels.quantize(xp, x, fmt.rounding_spec, rounding, draw)

    return _bound(xp, "float64", rounded, EXACT_SUMS=True, ROUNDS_PRODUCTS=rounds_products)


def _steps_in_range(xp: Any, rule: Rule) -> SimpleNamespace:
    """One step of a sum on float32 arrays, for sums that float32 may form and that are rounded without range checks."""
    nearest = array_kernels.words_for(xp, "float32", **dict(rule.flags))[rule.word]

    def rounded(x: Any, draw: Any, fmt: Format) -> Any:
        return nearest(x.view(xp.int32), *rule.constants).view(xp.float32)

    return _bound(xp, "float32", rounded, EXACT_SUMS=False, ROUNDS_PRODUCTS=False)


def _bound(xp: Any, real: str, rounded: Callable, **flags: bool) -> SimpleNamespace:
    names = {**array_kernels.words_for(xp, real), "rounded": rounded, "round_product": rounded, **flags}
    names["TOP_BIT"] = 31 if real == "float32" else 63
    functions = {name: getattr(accumulation, name) for name in accumulation.WORDS}
    return SimpleNamespace(**words.bound(names, functions=functions))


def _rule_in_range(xp: Any, a: Any, b: Any, accumulator: Accumulator) -> Rule | None:
    """How float32 sums are rounded without range checks; None where they have to be formed in float64."""
    ranges = [bit_range_of(x if xp is np else x.cpu().numpy()) for x in (a, b)]
    plan = compiled_sums.plan_loop(ranges[0].times(ranges[1]), accumulator, a.shape[2])
    if plan is None or plan.real == "float64" or plan.exact_sums or plan.product is not None:
        return None
    return plan.inner if plan.sums_in_range else None


def _device_of(xp: Any, x: Any) -> dict[str, Any]:
    return {} if xp is np else {"device": x.device}
