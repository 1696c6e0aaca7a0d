"""Matrix and dot products with additions rounded to a format: the public functions for arrays, tensors, lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.arithmetic import gemm
from lplab.formats import inputs


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
    :class:`~lplab.arithmetic.Accumulator`. A sum that is exactly zero is +0 in every rounding mode, although IEEE 754
    has −0 under "down".

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
    if inputs.is_torch(a) or inputs.is_torch(b):
        from lplab.arithmetic import torch_products

        return torch_products.matmul(a, b, operands, how)  # resolves the arguments outside of torch.compile's graph
    chosen, number, count = gemm.resolve_arguments(*how)
    left, right = gemm.as_array(a), gemm.as_array(b)
    dtype = np.result_type(left, right).newbyteorder("=")
    left, right = gemm.round_operands(left, right, operands)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # half precision; signaling NaN
        left, right = (x.astype(inputs.working_dtype(x.dtype.name), copy=False) for x in (left, right))
        return gemm.matmul_arrays(np, left, right, chosen, number, count).astype(dtype, copy=False)


def dot(x: Any, y: Any, accumulator: Any, **settings: Any) -> Any:
    """The dot product of two vectors of equal length, with every addition rounded.

    The ``chunked_dot`` of lab 05 is ``dot(x, y, "dlfloat16", chunk=64)``.

    Args:
        x, y: vectors [length], of the kinds that :func:`matmul` takes.
        accumulator: a format, its name, or an Accumulator.
        **settings: as in :func:`matmul`.

    Returns:
        A number of the dtype of x and y; a float for lists.

    Raises:
        TypeError, ValueError: as :func:`matmul`; two shapes that differ.

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
