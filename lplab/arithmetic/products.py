"""Matrix products and sums in a format: from what users pass to arrays of [batch, rows, length] and back.

Here it is decided which path computes: a compiled loop, or else whole-array operations. The choice never changes a bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab.arithmetic import kernels, whole_arrays
from lplab.arithmetic.accumulator import Accumulator, as_accumulator
from lplab.arithmetic.exactness import products_are_exact, span_of
from lplab.arithmetic.threads import default_threads
from lplab.formats import BlockFormat, Format, arrays, counter, engine, get

ALLOWED = "numpy arrays, torch tensors and (nested) lists of float16, bfloat16, float32 or float64"
ELEMENTS = 2**32  # of a result that have random bits of their own


def matmul(
    a: Any,
    b: Any,
    accumulator: Any,
    *,
    chunk: int | None = None,
    outer: Any = None,
    rounding: Any = None,
    fma: bool | None = None,
    product: Any = None,
    operands: Any = None,
    seed: Any = None,
    threads: int | None = None,
) -> Any:
    """The matrix product a @ b with every addition rounded to a format.

    Element (i, j) starts at +0 and adds the products a[i, k]·b[k, j] one after the other, k rising; after each
    addition the register is rounded to ``accumulator``. The products are exact. With ``chunk``, see
    :class:`~lplab.arithmetic.Accumulator`.

    Args:
        a, b: numpy arrays or torch tensors (CPU or CUDA; both of one kind) of float16, bfloat16, float32 or float64,
            any strides; shapes as in ``torch.matmul``: vectors, matrices, batches that broadcast. Lists count as
            float64 arrays.
        accumulator: a format or its name, or an Accumulator that decides the next five.
        chunk, outer, rounding, fma, product: see :class:`~lplab.arithmetic.Accumulator`.
        operands: round the operands to this format first (nearest even): a format or its name, or a pair of them, one
            for a and one for b; None in a pair leaves that operand alone. Block formats share their scales along k.
        seed: for stochastic rounding: an integer or a numpy Generator; None takes fresh entropy. Element i of the
            result (in C order) gets the same random bits in step k from the same seed on every path, device and
            thread count.
        threads: how many to use; by default as many as torch would.

    Returns:
        The same kind and dtype as the operands (if they differ, as in a + b), shape as ``torch.matmul``. What the
        dtype cannot hold is rounded to it, as a cast would; float32 holds all values of formats of up to 16 bits.
        A torch tensor that requires a gradient gets the gradients of a plain product, computed the same way, with this
        accumulator.

    Raises:
        TypeError: operands of another type. ValueError: shapes that do not fit; an unknown or unfit format; float64
            operands whose products may need more than 53 bits. (Products of float32 and narrower numbers are always
            exact: they have at most 48.)

    >>> x = np.ones((1, 5000), np.float32)
    >>> matmul(x, x.T, "dlfloat16"), matmul(x, x.T, "dlfloat16", chunk=64)
    (array([[1024.]], dtype=float32), array([[5000.]], dtype=float32))
    """
    how = (accumulator, chunk, outer, rounding, fma, product, seed, threads)
    if engine.is_torch(a) or engine.is_torch(b):
        from lplab.arithmetic import tensors

        return tensors.matmul(a, b, operands, how)  # settled there, out of sight of torch.compile
    chosen, number, count = settled(*how)
    left, right = as_array(a), as_array(b)
    dtype = np.result_type(left, right).newbyteorder("=")
    left, right = quantized(left, right, operands)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # half precision; signaling NaN
        return matmul_arrays(left, right, chosen, number, count).astype(dtype, copy=False)


def settled(
    accumulator: Any, chunk: Any, outer: Any, rounding: Any, fma: Any, product: Any, seed: Any, threads: Any
) -> tuple[Accumulator, int, int]:
    """The accumulator, the seed's number and the count of threads that the arguments of :func:`matmul` mean."""
    chosen = as_accumulator(accumulator, chunk=chunk, outer=outer, rounding=rounding, fma=fma, product=product)
    number = counter.seed_number(seed) if chosen.rounding.is_stochastic else 0
    return chosen, number, checked_threads(threads)


def dot(x: Any, y: Any, accumulator: Any, **settings: Any) -> Any:
    """The dot product of two vectors of equal length; arguments and errors as in :func:`matmul`.

    >>> dot([1.0, 2.0], [3.0, 4.0], "e4m3fn")
    11.0
    """
    shapes = [np.shape(v) if isinstance(v, list | tuple) else tuple(getattr(v, "shape", ())) for v in (x, y)]
    if len(shapes[0]) != 1 or shapes[0] != shapes[1]:
        raise ValueError(
            f"dot takes two vectors of equal length, got shapes {shapes[0]} and {shapes[1]}; for more use matmul"
        )
    result = matmul(x, y, accumulator, **settings)
    return float(result) if isinstance(x, list | tuple) and isinstance(y, list | tuple) else result


def as_array(x: Any) -> np.ndarray:
    """A numpy array of a float type, or a TypeError that says what is allowed."""
    if isinstance(x, list | tuple):
        x = engine.as_float_array(x)
    if not isinstance(x, np.ndarray):
        raise TypeError(f"cannot multiply {type(x).__name__}; allowed: {ALLOWED}")
    engine.working_dtype(x.dtype.name)
    return x


def checked_threads(threads: int | None) -> int:
    """The number of threads to use.

    >>> checked_threads(0)
    Traceback (most recent call last):
    ...
    ValueError: threads must be None or an integer of at least 1, got 0
    """
    if threads is None:
        return default_threads()
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise ValueError(f"threads must be None or an integer of at least 1, got {threads!r}")
    return int(threads)


def quantized(a: Any, b: Any, operands: Any) -> tuple[Any, Any]:
    """The operands, rounded to their formats."""
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
    """How shapes meet: those of a and b as stacks of matrices, the batch they broadcast to, the result's shape.

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


def matmul_arrays(a: np.ndarray, b: np.ndarray, accumulator: Accumulator, seed: int, threads: int) -> np.ndarray:
    """The work behind :func:`matmul` for numpy arrays; float32 or float64, whichever the loop computed in."""
    left, right, batch, shape = layout(a.shape, b.shape)
    check_size(shape, accumulator)
    a, b = (x.astype(engine.working_dtype(x.dtype.name), copy=False) for x in (a.reshape(left), b.reshape(right)))
    check_products(a, b)
    a, b = _stacked(a, batch, b.ndim == 2), (b[None] if b.ndim == 2 else _stacked(b, batch, False))
    result = kernels.matmul(a, b, accumulator, seed, threads)
    if result is None:
        result = whole_arrays.matmul(np, in_double(np, a), in_double(np, b), accumulator, seed)
    return result.reshape(shape)


def _stacked(x: np.ndarray, batch: tuple[int, ...], fold: bool) -> np.ndarray:
    """X as [batch, …, …]; or, where the other operand has no batch of its own, as one tall matrix."""
    wide, count = np.broadcast_to(x, (*batch, *x.shape[-2:])), math.prod(batch)
    rows, columns = x.shape[-2:]
    return wide.reshape(1, count * rows, columns) if fold else wide.reshape(count, rows, columns)


def in_double(xp: Any, x: Any) -> Any:
    """An array of any allowed type as contiguous float64; subnormal numbers survive a processor told to flush them."""
    if xp is np:
        x = np.ascontiguousarray(x, engine.working_dtype(x.dtype.name))
        return x if x.dtype == np.float64 else arrays.widen(np, x)
    x = x.detach().resolve_neg()
    return x.contiguous() if x.dtype == xp.float64 else arrays.widen(xp, x.to(xp.float32).contiguous())


def check_size(shape: tuple[int, ...], accumulator: Accumulator) -> None:
    """Refuse stochastic results of more elements than have random bits of their own."""
    if accumulator.rounding.is_stochastic and np.prod(shape, dtype=object) > ELEMENTS:
        raise ValueError(f"stochastic rounding has random bits for 2^32 elements of a result, not for shape {shape}")


def check_products(a: np.ndarray, b: np.ndarray) -> None:
    """Refuse float64 operands whose products may not be exact."""
    if a.dtype != np.float64 and b.dtype != np.float64:
        return
    spans = [span_of(x if x.dtype == np.float64 else in_double(np, x)) for x in (a, b)]
    products = spans[0].times(spans[1])
    if not products_are_exact(products, "float64"):
        raise ValueError(
            f"products of these float64 operands may not be exact: they have up to {products.bits} bits from "
            f"2^{products.least} to 2^{products.most}, and float64 holds 53 from 2^-1022 to 2^1000; "
            "pass operands='fp32' or a narrower format, or float32 arrays"
        )
