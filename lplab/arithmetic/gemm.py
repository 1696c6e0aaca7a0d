"""The steps of a matrix product in a format: check the operands, bring them to [batch, rows, length], choose a kernel.

A compiled loop computes the product, or whole-array operations where no loop serves. The choice never changes a bit.
Public functions: :mod:`lplab.arithmetic.products`; for torch tensors: :mod:`lplab.arithmetic.torch_products`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab.arithmetic import array_sums, compiled_sums
from lplab.arithmetic.accumulator import Accumulator, as_accumulator
from lplab.arithmetic.exactness import bit_range_of, products_are_exact
from lplab.formats import BlockFormat, Format, counter_rng, get, gpu, inputs
from lplab.formats.paths.array_kernels import widen

ALLOWED = "numpy arrays, torch tensors and (nested) lists of float16, bfloat16, float32 or float64"
MAX_STOCHASTIC_ELEMENTS = 2**32  # elements of a result that get independent random bits


def resolve_arguments(
    accumulator: Any, chunk: Any, outer: Any, rounding: Any, fma: Any, product: Any, seed: Any, threads: Any
) -> tuple[Accumulator, int, int | None]:
    """Accumulator, seed as an integer and thread count, from the arguments of :func:`~lplab.arithmetic.matmul`."""
    chosen = as_accumulator(accumulator, chunk=chunk, outer=outer, rounding=rounding, fma=fma, product=product)
    number = counter_rng.seed_to_int(seed) if chosen.rounding.is_stochastic else 0
    return chosen, number, check_threads(threads)


def as_array(x: Any) -> np.ndarray:
    """A numpy array of a float type; raises a TypeError for anything else."""
    if isinstance(x, list | tuple):
        x = inputs.as_float_array(x)
    if not isinstance(x, np.ndarray):
        raise TypeError(f"cannot multiply {type(x).__name__}; allowed: {ALLOWED}")
    inputs.working_dtype(x.dtype.name)
    return inputs.plain_array(x)


def check_threads(threads: int | None) -> int | None:
    """The number of threads to use; None: as many as torch has.

    >>> check_threads(0)
    Traceback (most recent call last):
    ...
    ValueError: threads must be None or an integer of at least 1, got 0
    """
    if threads is None:
        return None
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise ValueError(f"threads must be None or an integer of at least 1, got {threads!r}")
    return int(threads)


def round_operands(a: Any, b: Any, operands: Any) -> tuple[Any, Any]:
    """Round the operands to their formats; see ``operands`` of :func:`~lplab.arithmetic.matmul`."""
    pair = operands if isinstance(operands, tuple | list) else (operands, operands)
    if len(pair) != 2:
        raise ValueError(f"operands must be a format or a pair of formats, got {len(pair)} of them")
    axes = -1, (-2 if b.ndim > 1 else -1)  # where k is
    return _rounded(a, pair[0], axes[0]), _rounded(b, pair[1], axes[1])


def _rounded(x: Any, fmt: Any, axis: int) -> Any:
    fmt = get(fmt) if isinstance(fmt, str) else fmt
    if fmt is None:
        return x
    if isinstance(fmt, BlockFormat):
        return fmt.quantize(x, axis=axis)
    if not isinstance(fmt, Format):
        raise TypeError(f"operands must be formats of lplab.formats or their names, got {type(fmt).__name__}")
    return fmt.quantize(x)


def layout(a: Any, b: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Four shapes: a and b as stacks of matrices, the batch they broadcast to, the result.

    >>> layout((3,), (5, 3, 2))
    ((1, 3), (5, 3, 2), (5,), (5, 2))
    """
    if not a or not b:
        raise ValueError("matmul needs at least one dimension in both operands; for numbers use *")
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    if left[-1] != right[-2]:
        raise ValueError(f"shapes {a} and {b} do not fit: {left[-1]} columns meet {right[-2]} rows")
    try:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise ValueError(f"shapes {a} and {b} do not fit: their batches do not broadcast") from None
    shape = (*batch, *(left[-2:-1] if len(a) > 1 else ()), *(right[-1:] if len(b) > 1 else ()))
    return left, right, batch, shape


def matmul_arrays(xp: Any, a: Any, b: Any, accumulator: Accumulator, seed: int, threads: int | None) -> Any:
    """The product of arrays of numpy or torch, by a compiled loop if one serves.

    Args:
        xp: numpy or torch. Tensors on the CPU are to be passed as numpy arrays that share their memory.
        a, b: float32 or float64, of shapes as for ``torch.matmul``.
        accumulator, seed, threads: see :func:`resolve_arguments`.

    Returns:
        float32 or float64, as the loop computed.
    """
    left, right, batch, shape = layout(tuple(a.shape), tuple(b.shape))
    check_size(shape, accumulator)
    check_products(xp, a, b)
    count, (rows, length), columns = math.prod(batch), left[-2:], right[-1]
    a = xp.broadcast_to(a.reshape(left), (*batch, rows, length))
    if len(right) == 2:  # b has no batch of its own: a becomes one tall matrix
        a, b = a.reshape(1, count * rows, length), b.reshape(1, length, columns)
    else:
        a = a.reshape(count, rows, length)
        b = xp.broadcast_to(b.reshape(right), (*batch, length, columns)).reshape(count, length, columns)
    result = None
    if xp is np:
        result = compiled_sums.matmul(a, b, accumulator, seed, threads)
    elif gpu.serves(a.device):
        from lplab.arithmetic import gpu_sums

        result = gpu_sums.matmul(a, b, accumulator, seed)
    if result is None:
        result = array_sums.matmul(xp, as_float64(xp, a), as_float64(xp, b), accumulator, seed)
    return result.reshape(shape)


def as_float64(xp: Any, x: Any) -> Any:
    """An array of any allowed type as contiguous float64; subnormal numbers survive flush-to-zero mode."""
    if xp is np:
        x = np.ascontiguousarray(x, inputs.working_dtype(x.dtype.name))
        return x if x.dtype == np.float64 else widen(np, x)
    x = x.detach().resolve_neg()
    return x.contiguous() if x.dtype == xp.float64 else widen(xp, x.to(xp.float32).contiguous())


def check_size(shape: tuple[int, ...], accumulator: Accumulator) -> None:
    """Raise a ValueError for stochastic results with more elements than there are independent random bits."""
    if accumulator.rounding.is_stochastic and np.prod(shape, dtype=object) > MAX_STOCHASTIC_ELEMENTS:
        raise ValueError(f"stochastic rounding has random bits for 2^32 elements of a result, not for shape {shape}")


def check_products(xp: Any, *factors: Any) -> None:
    """Raise a ValueError if one of both factors is float64 and their products may not be exact."""
    if all(x.dtype != xp.float64 for x in factors):
        return
    a, b = (bit_range_of(as_float64(np, x if xp is np else x.cpu().numpy())) for x in factors)
    products = a.times(b)
    if not products_are_exact(products, "float64"):
        raise ValueError(
            f"products of these float64 operands may not be exact: they have up to {products.bits} bits from "
            f"2^{products.low} to 2^{products.high}, and float64 holds 53 from 2^-1022 to 2^1000; "
            "pass operands='fp32' or a narrower format, or float32 arrays"
        )
