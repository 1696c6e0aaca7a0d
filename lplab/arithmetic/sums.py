"""Sums in a format: sequential or in chunks, pairwise, and with Kahan's compensation."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.arithmetic import array_sums, gemm, products
from lplab.arithmetic.accumulator import as_accumulator, register_format
from lplab.formats import counter_rng, inputs
from lplab.formats.rounding import as_rounding


def sum(
    x: Any,
    accumulator: Any,
    axis: int | None = None,
    *,
    chunk: int | None = None,
    outer: Any = None,
    rounding: Any = None,
    operands: Any = None,
    seed: Any = None,
    threads: int | None = None,
) -> Any:
    """The sum of x with every addition rounded to a format.

    Computed as a product with ones: the register starts at +0, adds the numbers in order, and is rounded after each
    addition.

    Args:
        x: a numpy array, torch tensor or list as in :func:`lplab.arithmetic.matmul`.
        accumulator, chunk, outer, rounding, seed, threads: as in :func:`lplab.arithmetic.matmul`.
        axis: the axis to sum over; None: all numbers, in C order.
        operands: round x to this format first (nearest even).

    Returns:
        The same kind and dtype as x, without the axis; for a list a number or a float64 array.

    Raises:
        TypeError, ValueError: as :func:`lplab.arithmetic.matmul`; an axis that x does not have.

    >>> sum([1.0] * 5000, "dlfloat16"), sum([1.0] * 5000, "dlfloat16", chunk=64)
    (1024.0, 5000.0)
    """
    chosen = as_accumulator(accumulator, chunk=chunk, outer=outer, rounding=rounding)
    lines, shape = _lines(x, axis)
    ones = _ones_like(lines)
    result = products.matmul(ones, lines, chosen, operands=(None, operands), seed=seed, threads=threads)
    return _deliver(result, shape, x)


def pairwise_sum(
    x: Any, format: Any, axis: int | None = None, *, rounding: Any = "nearest_even", seed: Any = None
) -> Any:
    """The sum by a tree: neighbours are added, then neighbours of these sums, and so on.

    Every addition is rounded to the format. Of an odd number of terms the last goes to the next level unchanged. A
    single number is rounded. The error grows with log2(n) instead of n.

    Args:
        x, axis, seed: as in :func:`sum`.
        format: a format or its name.
        rounding: as in ``Format.quantize``.

    Returns:
        The same kind and dtype as x, without the axis; for a list a number or a float64 array.

    >>> pairwise_sum([1.0] * 5000, "dlfloat16")
    5000.0
    """
    return _sum_axis(array_sums.pairwise_sum, x, format, axis, rounding, seed)


def kahan_sum(x: Any, format: Any, axis: int | None = None, *, rounding: Any = "nearest_even", seed: Any = None) -> Any:
    """The sum with Kahan's compensation (1965): a second register holds the rounding error of the first.

    Four operations a number, each rounded to the format: y = x − c; t = s + y; c = (t − s) − y; s = t.

    Args:
        x, format, axis, rounding, seed: as in :func:`pairwise_sum`.

    Returns:
        The same kind and dtype as x, without the axis; for a list a number or a float64 array.

    >>> kahan_sum([1.0] * 5000, "dlfloat16")
    5000.0
    """
    return _sum_axis(array_sums.kahan_sum, x, format, axis, rounding, seed)


def _sum_axis(algorithm: Any, x: Any, fmt: Any, axis: int | None, rounding: Any, seed: Any) -> Any:
    rounding = as_rounding(rounding)
    fmt = register_format(fmt, rounding)
    number = counter_rng.seed_to_int(seed) if rounding.is_stochastic else 0
    lines, shape = _lines(x, axis)

    def work(xp: Any, lines: Any) -> Any:
        gemm.check_products(xp, lines, _ones_like(lines))
        with np.errstate(all="ignore"):
            return algorithm(xp, gemm.as_float64(xp, lines), fmt, rounding, number)

    if inputs.is_torch(lines):
        from lplab.arithmetic import torch_products

        return _deliver(torch_products.sum_of(lines, work), shape, x)
    return _deliver(work(np, lines).astype(lines.dtype.newbyteorder("="), copy=False), shape, x)


def _lines(x: Any, axis: int | None) -> tuple[Any, tuple[int, ...]]:
    """X as [length, sums], and the shape of the result."""
    x = x if inputs.is_torch(x) else gemm.as_array(x)
    if axis is None:
        return x.reshape(-1, 1), ()
    dimensions = x.ndim
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer) or not -dimensions <= axis < dimensions:
        raise ValueError(f"axis must be None or an integer from {-dimensions} to {dimensions - 1}, got {axis!r}")
    shape = tuple(x.shape)
    axis = int(axis) % dimensions
    rest = shape[:axis] + shape[axis + 1 :]
    count = int(np.prod(rest, dtype=np.int64))
    return (x.movedim(axis, 0) if inputs.is_torch(x) else np.moveaxis(x, axis, 0)).reshape(shape[axis], count), rest


def _ones_like(lines: Any) -> Any:
    if inputs.is_torch(lines):
        return lines.new_ones((1, lines.shape[0]))
    return np.ones((1, lines.shape[0]), lines.dtype)


def _deliver(result: Any, shape: tuple[int, ...], x: Any) -> Any:
    result = result.reshape(shape)
    if inputs.is_torch(x):
        return result
    if isinstance(x, list | tuple):
        return float(result) if not shape else result
    return result[()]
