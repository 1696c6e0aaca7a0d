"""Backward through a quantizer with one trained number: a gradient for each element, and one that all share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.quantizers import kinds

BLOCK = 2**16  # elements at a time: what lies between stays in the processor's cache


def backward(x: Any, gradient: Any, slopes: Callable[[Any, Any], tuple[Any, Any]]) -> tuple[Any, float]:
    """Multiply a gradient by the slopes of a function for x and for a number that all of x share.

    The terms for the number are summed in float64, on the CPU block after block, and the sum is rounded to the working
    dtype: float32 would lose small terms, and a scale hangs on the sum of millions.

    Args:
        x: what went in: numpy array, torch tensor, number or list.
        gradient: of what came out, of the kind and shape of x.
        slopes: (xp, part of x as an opened array) → (slopes for x, slopes for the number), both of its shape.

    Returns:
        The gradient for x, of the kind and dtype of ``gradient``, and the one for the number.

    Raises:
        ValueError: x and gradient differ in shape.

    >>> backward([1.0, 2.0], [10.0, 20.0], lambda xp, part: (part > 1, part))
    (array([ 0., 20.]), 50.0)
    """
    xp, array, _ = kinds.open_input(x)
    _, upstream, close = kinds.open_input(gradient)
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
