"""Fast reductions over tensors in an order that does not depend on the machine: see :mod:`lplab.quantizers.lanes`.

Compiled loops need one pass; without numba, and for float64, numpy does it. Tensors off the CPU are reduced by torch.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lplab.formats.apply import addresses
from lplab.formats.paths import kernel_selection
from lplab.quantizers.lanes import in_lanes, pairwise_sum

MIN_COMPILED_SIZE = 2**15  # elements from which on loading a loop pays
_UNREAD = np.empty(1, np.int32)  # a loop writes here what its caller does not need
_UNREAD_ADDRESS = _UNREAD.ctypes.data
_loaded: set[Any] = set()  # loops that this process has loaded; only speed depends on it


def moments(xp: Any, rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """E[x²] and E|x| of each row over its finite elements; zeros where there are none.

    Args:
        xp: numpy or torch.
        rows: float32 or float64 [rows, n]. torch may add in another order, which changes a result that is rounded to
            float32 in about one case of 10^8.

    Returns:
        Two numpy arrays, float64 [rows].

    >>> moments(np, np.array([[3.0, -1.0, np.inf]]))
    (array([5.]), array([2.]))
    """
    if xp is np:
        means = [_moments(row) for row in rows]
    else:
        finite = xp.isfinite(rows)
        wide, count = xp.where(finite, rows.double(), 0.0), xp.clip(finite.sum(1), 1, None)
        means = xp.stack([(wide * wide).sum(1) / count, xp.abs(wide).sum(1) / count], 1).tolist()
    square, mean = np.array(means, np.float64).reshape(-1, 2).T
    return square, mean


def _moments(x: np.ndarray) -> tuple[float, float]:
    if x.dtype == np.float32 and is_served("moments", x.size):
        return loops().moments_loop()(np.ascontiguousarray(x))
    finite = np.isfinite(x)
    wide = np.where(finite, x, 0).astype(np.float64)
    with np.errstate(over="ignore"):
        squares, magnitudes = pairwise_sum(in_lanes(wide * wide)), pairwise_sum(in_lanes(np.abs(wide)))
    count = max(int(finite.sum()), 1)
    return squares / count, magnitudes / count


def clip_sides(x: Any, bound: Any, signed: bool) -> tuple[Any, Any, Any]:
    """On which side of the bounds of PACT's clip each number lies; a NaN lies on none.

    Inside, the gradient passes to x. At the upper bound and above it goes to the bound; at −bound and below, of signed
    numbers, its negative does.

    Args:
        x: numpy array or torch tensor.
        bound: the upper bound, a number or one in the dtype of x; the lower one is 0.
        signed: the lower one is −bound.

    Returns:
        inside, above and below, bool like x. The lower bound 0 is inside, −bound is not.

    >>> [side.tolist() for side in clip_sides(np.float32([-2, -1, 0, 2]), 2.0, signed=False)]
    [[False, False, True, False], [False, False, False, True], [False, False, False, False]]
    """
    return (x < bound) & ((x > -bound) if signed else (x >= 0)), x >= bound, (x <= -bound) & signed


def clip_mask(x: np.ndarray, bound: float, signed: bool) -> np.ndarray:
    """The sides of :func:`clip_sides` in one byte for each number, as the backward pass needs them.

    Args:
        x: flat float32.
        bound, signed: as in :func:`clip_sides`.

    Returns:
        int8 like x: 0 inside, 1 above, −1 below, 2 for others: NaN, and negative numbers if not ``signed``.

    >>> clip_mask(np.float32([-2, -1, 1, 2]), 2.0, signed=True)
    array([-1,  0,  0,  1], dtype=int8)
    """
    edge = np.float32(bound)
    if is_served(("sides", signed), x.size):
        sides = np.empty(x.shape, np.int8)
        loops().clip_mask_loop(clip_sides, signed)(x, sides, edge)
        return sides
    return np.select(clip_sides(x, edge, signed), [0, 1, -1], 2).astype(np.int8)


def clip_backward(sides: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, float]:
    """The backward pass of clipping: the gradient for x, and the summed gradient for a trained bound.

    Args:
        sides: the :func:`clip_mask` of x.
        gradient: flat float32 of that length: the gradient of the output. Inside the bounds it goes to x; at or
            above the bound it goes to the bound; at or below −bound its negative goes to the bound.

    Returns:
        float32 like the gradient, and a float64 sum.

    >>> clip_backward(np.int8([-1, 0, 0, 1]), np.float32([1, 10, 100, 1000]))
    (array([  0.,  10., 100.,   0.], dtype=float32), 999.0)
    """
    if is_served("clip", sides.size):
        for_x = np.empty_like(gradient)
        return for_x, loops().clip_loop()(sides, gradient, for_x)
    terms = np.where(sides == 1, gradient, 0).astype(np.float64)
    terms = np.where(sides == -1, -gradient, terms)
    return np.where(sides == 0, gradient, np.float32(0)), pairwise_sum(in_lanes(terms))


def largest(x: np.ndarray) -> float:
    """The largest magnitude of float32 or float64 of any shape: NaN if an element is NaN, 0 if empty.

    >>> largest(np.float32([[1, -3], [2, 0]]))
    3.0
    """
    return float(row_maxima(np, x.reshape(1, -1))[0])


def row_maxima(xp: Any, rows: Any) -> Any:
    """The largest magnitude of each row of [rows, n]: NaN where a row holds NaN, 0 where it is empty."""
    # Of 0 and −0 the maximum is either, as the processor likes; a magnitude has no sign.
    if rows.shape[1] == 0:
        return rows.sum(1)
    if xp is not np:
        low, high = xp.aminmax(rows, dim=1) if rows.shape[0] > 1 else (end.reshape(1) for end in xp.aminmax(rows))
        return abs(xp.maximum(high, -low))
    if rows.dtype == np.float64 or not is_served("largest", rows.size):
        return abs(np.maximum(rows.max(1), -rows.min(1)))
    from lplab.formats.paths import numba_kernels

    rows, top = np.ascontiguousarray(rows), np.empty(len(rows), np.int32)
    numba_kernels.largest_loop()(*addresses(rows, top), *rows.shape)
    return top.view(np.float32)


def finite_row_maxima(xp: Any, rows: Any) -> Any:
    """The largest finite magnitude of each row of [rows, n], 0 where there is none."""
    top = row_maxima(xp, rows)
    if bool(xp.isfinite(top).all()):
        return top
    return row_maxima(xp, xp.where(xp.isfinite(rows), rows, xp.zeros_like(rows)))


def largest_at(x: int, count: int) -> float:
    """The largest magnitude of contiguous float32 at an address; 0 where one is not finite, or no loop is loaded.

    >>> x = np.float32([1, -3] * 20_000)
    >>> largest_at(x.ctypes.data, x.size) in (3.0, 0.0)
    True
    """
    if not is_served("largest", count):
        return 0.0
    from lplab.formats.paths import numba_kernels

    return float(np.int32(numba_kernels.largest_loop()(x, _UNREAD_ADDRESS, 1, count)).view(np.float32))


@cache
def loops() -> Any:
    """The compiled loops: numba is imported for the first of them."""
    from lplab.quantizers import statistics_loops

    return statistics_loops


def is_served(loop: Any, size: int) -> bool:
    """Whether a loop of :func:`loops` is to be used: it is loaded, or is worth loading for so many elements."""
    if loop not in _loaded:
        if size < MIN_COMPILED_SIZE or not kernel_selection.available():
            return False
        _loaded.add(loop)
    return kernel_selection.available()
