"""Which grids have a short compiled loop for rounding to nearest, and that loop with its constants bound.

numba is imported only when a loop is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from lplab.formats.paths import array_kernels
from lplab.formats.paths.array_kernels import FLOAT_LAYOUTS
from lplab.formats.rounding import Rounding
from lplab.formats.rounding_spec import Grid

MODES = ("nearest_even", "nearest_away")
_WORD = FLOAT_LAYOUTS["float32"]
NearestKernel = Callable[..., None]
"""(addresses of float32 x and out, elements, step, number of the first element, keys): the last two are not used."""


@lru_cache(maxsize=1024)
def nearest_kernel_key(spec: Any, rounding: Rounding, step: bool = False) -> tuple | None:
    """Which loop serves a grid: the key under which it is loaded; None where none serves.

    Args:
        spec: the rounding spec of a format.
        rounding: nearest, ties to even or away from zero.
        step: whether numbers are divided by a step before and multiplied by it afterwards.

    >>> from lplab.formats import get
    >>> spec = get("e4m3fn").rounding_spec
    >>> nearest_kernel_key(spec, Rounding()), nearest_kernel_key(spec, Rounding("up"))
    (('nearest', False, False, True), None)
    """
    if not isinstance(spec, Grid) or rounding.code not in MODES or spec.step != 1:
        return None
    if step:
        return ("integers",) if rounding.code == "nearest_even" and _is_integers(spec) else None
    kind, away = array_kernels.rounding_strategy(spec, _WORD), rounding.code == "nearest_away"
    decided_by_exponent = spec.mantissa_bits == 0 and not away  # ties there look at the exponent field
    fits = spec.mantissa_bits < _WORD.fraction_bits if kind == "pattern" else kind == "scaled" and _is_in_reach(spec)
    # The loop treats infinity as any number that is too large.
    if decided_by_exponent or spec.highest != -spec.lowest or spec.overflow == "propagate" or not fits:
        return None
    only_saturates = kind == "scaled" and spec.overflow == "saturate" and not spec.smallest
    return "nearest", away, kind == "pattern", only_saturates


def _is_integers(spec: Grid) -> bool:
    """Whether all numbers of the grid are whole, share one spacing and saturate."""
    return spec.min_exponent == spec.mantissa_bits and _is_uniform(spec)


def _is_uniform(spec: Grid) -> bool:
    """Whether all numbers of the grid share one spacing and saturate; at most 2^20 of them, normal in float32."""
    least, spacing = 2.0 ** (spec.min_exponent - 1), spec.min_exponent - spec.mantissa_bits
    even = spec.mantissa_bits <= 20 and max(spec.highest, -spec.lowest) < least
    in_reach = -_WORD.bias + 1 < spacing and spacing + 24 < _WORD.bias
    return even and in_reach and spec.overflow == "saturate" and not spec.negative_zero and not spec.smallest


def serves_uniform(spec: Grid, rounding: Rounding) -> bool:
    """Whether :func:`uniform_kernel` rounds to a grid: evenly spaced numbers, with other bounds on either side.

    >>> from lplab.formats import get
    >>> [serves_uniform(get(name).rounding_spec, Rounding()) for name in ("int8", "q4.12", "e4m3fn")]
    [True, True, False]
    """
    return rounding.code == "nearest_even" and spec.step == 1 and _is_uniform(spec)


def uniform_kernel(spec: Grid, rounding: Rounding) -> NearestKernel:
    """The loop of evenly spaced numbers, with its constants bound; x and out are contiguous and disjoint."""
    from lplab.formats.paths import numba_kernels, numba_nearest

    loop = numba_nearest.uniform_loop()
    table = numba_kernels.grid_constants(array_kernels.constants(spec, rounding, "float32"), 0, "float32")
    address = table.ctypes.data

    def call(x: int, out: int, count: int, scale: float = 1.0, first: int = 0, keys: tuple[int, int] = (0, 0)) -> None:
        loop(x, out, count, address)

    call.table = table  # type: ignore[attr-defined]  # keeps the address valid
    return call


def _is_in_reach(spec: Grid) -> bool:
    """Whether half of the smallest spacing and 2^24 times the largest one are normal float32 numbers."""
    highest = math.frexp(spec.highest)[1] + 1 - spec.mantissa_bits  # numbers are cut to four times the largest
    return spec.min_exponent - spec.mantissa_bits > -_WORD.bias + 1 and highest + 24 < _WORD.bias


@lru_cache(maxsize=512)
def nearest_kernel(spec: Grid, rounding: Rounding, step: bool = False) -> NearestKernel:
    """The loop of a grid that has one, with its constants bound.

    >>> from lplab.formats import get
    >>> import numpy as np
    >>> x, out = np.float32([0.3, -500]), np.empty(2, np.float32)
    >>> nearest_kernel(get("e4m3fn").rounding_spec, Rounding())(x.ctypes.data, out.ctypes.data, 2, 1.0)
    >>> out.tolist()
    [0.3125, -448.0]

    x and out are contiguous and disjoint.
    """
    from lplab.formats.paths import numba_kernels, numba_nearest

    key = nearest_kernel_key(spec, rounding, step)
    assert key is not None
    loop = numba_nearest.integer_loop() if step else numba_nearest.nearest_loop(*key[1:])
    table = numba_kernels.grid_constants(array_kernels.constants(spec, rounding, "float32"), 0, "float32")
    address = table.ctypes.data

    def call(x: int, out: int, count: int, scale: float = 1.0, first: int = 0, keys: tuple[int, int] = (0, 0)) -> None:
        if step:
            loop(x, out, count, address, scale)
        else:
            loop(x, out, count, address)

    call.table = table  # type: ignore[attr-defined]  # keeps the address valid
    return call
