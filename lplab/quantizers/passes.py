"""Sums over whole tensors in an order that does not depend on the machine, and fast.

Element i of a tensor is added in float64 to the sum number i mod ``LANES``; in the end the second half of the sums is
added to the first until one is left. Compiled loops add that way in one pass; numpy does where numba is not there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.formats import kernels

LANES = 1024
LARGE = 2**15  # elements that are worth loading a loop for
_loaded: set[Any] = set()  # loops that this process has used; only speed depends on it


def moments(x: np.ndarray) -> tuple[float, float]:
    """E[x²] and E|x| of flat float32 or float64 over its finite elements; zeros where there are none.

    >>> moments(np.array([3.0, -1.0, np.inf]))
    (5.0, 2.0)
    """
    if x.dtype == np.float32 and _served("moments", x.size):
        from lplab.quantizers import compiled

        squares, magnitudes, count = compiled.moments_loop(LANES)(np.ascontiguousarray(x))
    else:
        finite = np.isfinite(x)
        wide = np.where(finite, x, 0).astype(np.float64)
        with np.errstate(over="ignore"):
            squares, magnitudes = folded(_in_lanes(wide * wide)), folded(_in_lanes(np.abs(wide)))
        count = int(finite.sum())
    return squares / max(count, 1), magnitudes / max(count, 1)


def sides_of(x: np.ndarray, bound: float, signed: bool) -> np.ndarray:
    """What clipping must remember of its input: on which side of the bounds each number lies, a byte for each.

    Args:
        x: flat float32.
        bound: the upper bound; the lower one is 0.
        signed: the lower one is −bound.

    Returns:
        int8 like x: 0 inside (0 itself is, a signed bound is not), 1 from the upper bound on, −1 from −bound
        downwards, 2 for what belongs to neither: NaN, and negative numbers under a bound without a sign.

    >>> sides_of(np.float32([-2, -1, 1, 2]), 2.0, signed=True)
    array([-1,  0,  0,  1], dtype=int8)
    """
    edge = np.float32(bound)
    if _served(("sides", signed), x.size):
        from lplab.quantizers import compiled

        sides = np.empty(x.shape, np.int8)
        compiled.sides_loop(signed)(x, sides, edge)
        return sides
    inside = (x < edge) & ((x > -edge) if signed else (x >= 0))
    below = (x <= -edge) & signed
    return np.select([inside, x >= edge, below], [0, 1, -1], 2).astype(np.int8)


def clip_backward(sides: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, float]:
    """Backward through clipping: what passes to x, and the sum of what a trained bound gets.

    Args:
        sides: of x, by :func:`sides_of`.
        gradient: flat float32 of that length: the gradient of what came out. It passes to x inside the bounds; at
            the bound and above it belongs to the bound, which at −bound and below gets its negative.

    Returns:
        float32 like the gradient, and a float64 sum.

    >>> clip_backward(np.int8([-1, 0, 0, 1]), np.float32([1, 10, 100, 1000]))
    (array([  0.,  10., 100.,   0.], dtype=float32), 999.0)
    """
    if _served("clip", sides.size):
        from lplab.quantizers import compiled

        for_x = np.empty_like(gradient)
        return for_x, compiled.clip_loop(LANES)(sides, gradient, for_x)
    terms = np.where(sides == 1, gradient, 0).astype(np.float64)
    terms = np.where(sides == -1, -gradient, terms)
    return np.where(sides == 0, gradient, np.float32(0)), folded(_in_lanes(terms))


def largest(x: np.ndarray) -> float:
    """The largest magnitude of float32 of any shape: NaN where one is NaN, 0 where there is none.

    >>> largest(np.float32([[1, -3], [2, 0]]))
    3.0
    """
    if not x.size:
        return 0.0
    if not _served("largest", x.size):
        return float(np.maximum(x.max(), -x.min()))
    from lplab.formats import compiled

    top = np.empty(1, np.int32)
    compiled.largest_loop()(np.ascontiguousarray(x).view(np.int32).reshape(1, -1), top, x.size)
    return float(top.view(np.float32)[0])


def _served(sort: Any, size: int) -> bool:
    if sort not in _loaded:
        if size < LARGE or not kernels.available():
            return False
        _loaded.add(sort)
    return kernels.available()


def _in_lanes(terms: np.ndarray) -> np.ndarray:
    """Sums over rows of LANES, one row after the other."""
    full = np.concatenate([terms, np.zeros(-terms.size % LANES)]) if terms.size % LANES else terms
    sums = np.zeros(LANES)
    for row in full.reshape(-1, LANES):
        sums += row
    return sums


def folded(sums: np.ndarray) -> float:
    """The sum of all lanes, halves added to halves.

    >>> folded(np.array([1.0, 2.0, 3.0, 4.0]))
    10.0
    """
    while sums.size > 1:
        sums = sums[: sums.size // 2] + sums[sums.size // 2 :]
    return float(sums[0])
