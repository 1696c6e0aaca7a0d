"""The loop that rounds to any grid in any mode, with its constants bound.

numba is imported only when a loop is made.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lplab.formats.paths import array_kernels
from lplab.formats.paths.array_kernels import FLOAT_LAYOUTS, GridConstants
from lplab.formats.rounding import MIN_FRACTION, Rounding
from lplab.formats.rounding_spec import Grid

MIN_PREFETCH_SIZE = 2**21  # elements from which on an array is larger than the caches
PREFETCH_SIZE = 2**12  # elements that are fetched together


def grid_kernel_key(spec: Grid, rounding: Rounding, real: str, scaled: bool) -> tuple | None:
    """The arguments of :func:`numba_kernels.grid_loop` for a grid of step 1; None where no loop serves.

    float32 has faster special loops; float64 uses the general ones, so that fewer are compiled.
    """
    kind = array_kernels.rounding_strategy(spec, FLOAT_LAYOUTS[real])
    if kind == "wide":
        return None
    plain = False
    if real == "float32":
        plain = _is_plain(array_kernels.constants(spec, rounding, real))
        kind = "even" if kind == "scaled" and _has_one_spacing(spec) else kind
    return real, rounding.code, kind, spec.mantissa_bits == 0, plain, "step" if scaled else "", 0


def _is_plain(c: GridConstants) -> bool:
    return c.smallest == 0 and (c.above, c.below) == (c.infinity, c.minus_infinity)


def _has_one_spacing(spec: Grid) -> bool:
    return max(spec.highest, -spec.lowest) < 2.0 ** (spec.min_exponent - 1)


def grid_kernel(key: tuple, spec: Grid, rounding: Rounding) -> Callable[..., None]:
    """The loop of a key that :func:`grid_kernel_key` gave, with its constants bound.

    It takes the addresses of contiguous, disjoint x and out, the number of elements, the scale, the number of the
    first element, and the keys of the random bits.
    """
    from lplab.formats.paths import numba_kernels

    loop, real, scaled = numba_kernels.grid_loop(*key), key[0], key[5] == "step"
    bits = rounding.random_bits if rounding.is_stochastic else 0
    table = numba_kernels.grid_constants(array_kernels.constants(spec, rounding, real), bits, real)
    if scaled:  # the loop uses this number as the smallest nonzero quotient
        table[numba_kernels.SMALLEST] = FLOAT_LAYOUTS[real].pattern(MIN_FRACTION)
    address, number, itemsize = table.ctypes.data, getattr(np, real), np.dtype(real).itemsize

    def call(x: int, out: int, count: int, scale: float = 1.0, first: int = 0, keys: tuple[int, int] = (0, 0)) -> None:
        last = number(scale)
        if count < MIN_PREFETCH_SIZE:
            loop(x, out, 1, count, address, first, *keys, 0, 0, 0, last)
            return
        for done, blocks, length in prefetch_chunks(count):
            at = done * itemsize
            loop(x + at, out + at, blocks, length, address, first + done, *keys, 0, 0, 0, last)

    call.table = table  # type: ignore[attr-defined]  # keeps the address valid
    return call


def prefetch_chunks(count: int) -> tuple[tuple[int, int, int], ...]:
    """How a loop splits ``count`` elements: chunks of (first element, blocks, length of a block).

    Arrays larger than the caches are split into blocks, each of which the loop fetches before it rounds it.

    >>> prefetch_chunks(1000), prefetch_chunks(2**21 + 3)
    (((0, 1, 1000),), ((0, 512, 4096), (2097152, 1, 3)))
    """
    if count < MIN_PREFETCH_SIZE:
        return ((0, 1, count),)
    blocks, rest = divmod(count, PREFETCH_SIZE)
    return ((0, blocks, PREFETCH_SIZE), *([(count - rest, 1, rest)] if rest else []))
