"""Fast reductions over tensors in an order that does not depend on the machine.

Element i of a tensor is added in float64 to lane i mod ``LANES``; at the end the second half of the lanes is added to
the first half until one is left. Compiled loops do this in one pass; without numba numpy does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.formats.paths import kernel_selection
from lplab.formats.paths.addresses import addresses

LANES = 1024
MIN_COMPILED_SIZE = 2**15  # elements from which on loading a loop pays
_UNREAD = np.empty(1, np.int32)  # a loop writes here what its caller does not need
_UNREAD_ADDRESS = _UNREAD.ctypes.data
_loaded: set[Any] = set()  # loops that this process has loaded; only speed depends on it


def moments(x: np.ndarray) -> tuple[float, float]:
    """E[x²] and E|x| of flat float32 or float64 over its finite elements; zeros where there are none.

    >>> moments(np.array([3.0, -1.0, np.inf]))
    (5.0, 2.0)
    """
    if x.dtype == np.float32 and _is_served("moments", x.size):
        from lplab.quantizers import numba_kernels

        squares, magnitudes, count = numba_kernels.moments_loop(LANES)(np.ascontiguousarray(x))
    else:
        finite = np.isfinite(x)
        wide = np.where(finite, x, 0).astype(np.float64)
        with np.errstate(over="ignore"):
            squares, magnitudes = pairwise_sum(_in_lanes(wide * wide)), pairwise_sum(_in_lanes(np.abs(wide)))
        count = int(finite.sum())
    return squares / max(count, 1), magnitudes / max(count, 1)


def sawb_at(x: int, out: int, count: int, c1: float, c2: float, half: int) -> float:
    """Round float32 at the address x to SAWB's integers −half … half times a step, at the address out, in one call.

    Args:
        x, out: addresses of contiguous, disjoint memory.
        count: how many numbers there are.
        c1, c2: of the clip α = c1·√E[x²] − c2·E|x|; the step is α / half.
        half: 1 to 127.

    Returns:
        α, rounded to float32; 0 where nothing was rounded: no loop is loaded, or the formula gives no positive number.

    >>> x, out = np.float32([1, -3] * 20_000), np.empty(40_000, np.float32)
    >>> alpha = sawb_at(x.ctypes.data, out.ctypes.data, x.size, 12.035, 12.03, 7)
    >>> alpha == 0 or ((round(alpha, 3), np.unique(np.rint(out / alpha * 7)).tolist()) == (2.851, [-7.0, 2.0]))
    True
    """
    if not _is_served("sawb", count):
        return 0.0
    from lplab.quantizers import numba_kernels

    return numba_kernels.sawb_loop(LANES)(x, out, count, c1, c2, half)


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
    if _is_served(("sides", signed), x.size):
        from lplab.quantizers import numba_kernels

        sides = np.empty(x.shape, np.int8)
        numba_kernels.clip_mask_loop(signed)(x, sides, edge)
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
    if _is_served("clip", sides.size):
        from lplab.quantizers import numba_kernels

        for_x = np.empty_like(gradient)
        return for_x, numba_kernels.clip_loop(LANES)(sides, gradient, for_x)
    terms = np.where(sides == 1, gradient, 0).astype(np.float64)
    terms = np.where(sides == -1, -gradient, terms)
    return np.where(sides == 0, gradient, np.float32(0)), pairwise_sum(_in_lanes(terms))


def largest(x: np.ndarray) -> float:
    """The largest magnitude of float32 of any shape: NaN if an element is NaN, 0 if empty.

    >>> largest(np.float32([[1, -3], [2, 0]]))
    3.0
    """
    if not x.size:
        return 0.0
    if not _is_served("largest", x.size):
        return float(np.maximum(x.max(), -x.min()))
    from lplab.formats.paths import numba_kernels

    x, top = np.ascontiguousarray(x), np.empty(1, np.int32)
    numba_kernels.largest_loop()(*addresses(x, top), 1, x.size)
    return float(top.view(np.float32)[0])


def largest_at(x: int, count: int) -> float:
    """The largest magnitude of contiguous float32 at an address; 0 where one is not finite, or no loop is loaded.

    >>> x = np.float32([1, -3] * 20_000)
    >>> largest_at(x.ctypes.data, x.size) in (3.0, 0.0)
    True
    """
    if not _is_served("largest", count):
        return 0.0
    from lplab.formats.paths import numba_kernels

    return float(np.int32(numba_kernels.largest_loop()(x, _UNREAD_ADDRESS, 1, count)).view(np.float32))


def _is_served(loop: Any, size: int) -> bool:
    if loop not in _loaded:
        if size < MIN_COMPILED_SIZE or not kernel_selection.available():
            return False
        _loaded.add(loop)
    return kernel_selection.available()


def _in_lanes(terms: np.ndarray) -> np.ndarray:
    """The sum of each lane, row after row of LANES elements."""
    full = np.concatenate([terms, np.zeros(-terms.size % LANES)]) if terms.size % LANES else terms
    sums = np.zeros(LANES)
    for row in full.reshape(-1, LANES):
        sums += row
    return sums


def pairwise_sum(sums: np.ndarray) -> float:
    """The sum of all lanes, the second half added to the first until one is left.

    >>> pairwise_sum(np.array([1.0, 2.0, 3.0, 4.0]))
    10.0
    """
    while sums.size > 1:
        sums = sums[: sums.size // 2] + sums[sums.size // 2 :]
    return float(sums[0])
