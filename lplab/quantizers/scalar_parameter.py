"""The backward pass of a quantizer with one trained scalar, such as PACT's α or LSQ's step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.quantizers import array_inputs

BLOCK = 2**16  # elements at a time: intermediate results fit the processor's cache


def scalar_parameter_backward(
    x: Any, gradient: Any, slopes: Callable[[Any, Any], tuple[Any, Any]]
) -> tuple[Any, float]:
    """The gradients for x and for the scalar, from the slopes of a function of both.

    The terms for the scalar are summed in float64, on the CPU block after block, and the sum is rounded to the working
    dtype. A float32 sum of millions of terms would lose small ones.

    Args:
        x: the input: numpy array, torch tensor, number or list.
        gradient: of the output, of the kind and shape of x.
        slopes: (xp, part of x as a working array) → (slopes for x, slopes for the scalar), both of its shape.

    Returns:
        The gradient for x, of the kind and dtype of ``gradient``, and the one for the scalar.

    Raises:
        ValueError: x and gradient differ in shape.

    >>> scalar_parameter_backward([1.0, 2.0], [10.0, 20.0], lambda xp, part: (part > 1, part))
    (array([ 0., 20.]), 50.0)
    """
    xp, array, _ = array_inputs.to_working_array(x)
    _, upstream, close = array_inputs.to_working_array(gradient)
    if array.shape != upstream.shape:
        raise ValueError(f"gradient must have the shape of x, {tuple(array.shape)}, got {tuple(upstream.shape)}")
    if xp is not np:
        for_x, for_number = slopes(xp, array)
        return close(upstream * for_x), float((upstream * for_number).double().sum().to(upstream.dtype))
    flat, flat_upstream = np.ascontiguousarray(array).reshape(-1), np.ascontiguousarray(upstream).reshape(-1)
    result, total = np.empty_like(flat_upstream), 0.0
    for first in range(0, flat.size, BLOCK):
        part = slice(first, first + BLOCK)
        for_x, for_number = slopes(np, flat[part])
        np.multiply(flat_upstream[part], for_x, out=result[part])
        total += float(np.sum(flat_upstream[part] * for_number, dtype=np.float64))
    return close(result.reshape(array.shape)), float(upstream.dtype.type(total))
