"""Which grids have a short compiled loop for rounding to nearest, and that loop ready to be called.

numba is imported only when a loop is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from lplab.formats import arrays
from lplab.formats.arrays import WORDS
from lplab.formats.plan import Grid
from lplab.formats.rounding import Rounding

MODES = ("nearest_even", "nearest_away")
_WORD = WORDS["float32"]
Call = Callable[[int, int, int, float], None]  # addresses of float32 x and out, elements, step


@lru_cache(maxsize=1024)
def sort_of(plan: Any, rounding: Rounding, step: bool = False) -> tuple | None:
    """What tells the loop of a plan from others; None where there is none.

    Args:
        plan: of a format.
        rounding: nearest, ties to even or away from zero.
        step: whether numbers are divided by a step before and multiplied by it afterwards.

    >>> from lplab.formats import get
    >>> sort_of(get("e4m3fn").plan, Rounding()), sort_of(get("e4m3fn").plan, Rounding("up"))
    (('nearest', False, False, True), None)
    """
    if not isinstance(plan, Grid) or rounding.code not in MODES or plan.step != 1:
        return None
    if step:
        return ("integers",) if rounding.code == "nearest_even" and _is_integers(plan) else None
    kind, away = arrays.kind_of(plan, _WORD), rounding.code == "nearest_away"
    decided_by_exponent = plan.mantissa_bits == 0 and not away  # ties there look at the exponent field
    fits = plan.mantissa_bits < _WORD.fraction_bits if kind == "pattern" else kind == "scaled" and _is_in_reach(plan)
    if decided_by_exponent or plan.highest != -plan.lowest or not fits:
        return None
    only_saturates = kind == "scaled" and plan.overflow == "saturate" and not plan.smallest
    return "nearest", away, kind == "pattern", only_saturates


def _is_integers(plan: Grid) -> bool:
    """Whether all numbers of the grid are whole, share one spacing and saturate."""
    least = 2.0 ** (plan.min_exponent - 1)
    even = plan.min_exponent == plan.mantissa_bits <= 20 and max(plan.highest, -plan.lowest) < least
    return even and plan.overflow == "saturate" and not plan.negative_zero


def _is_in_reach(plan: Grid) -> bool:
    """Whether half of the least spacing and 2^24 times the largest one are normal float32."""
    highest = math.frexp(plan.highest)[1] + 1 - plan.mantissa_bits  # numbers are cut to four times the largest
    return plan.min_exponent - plan.mantissa_bits > -_WORD.bias + 1 and highest + 24 < _WORD.bias


@lru_cache(maxsize=512)
def call_of(plan: Grid, rounding: Rounding, step: bool = False) -> Call:
    """The loop of a plan that has one, with everything that does not change put together.

    >>> from lplab.formats import get
    >>> import numpy as np
    >>> x, out = np.float32([0.3, -500]), np.empty(2, np.float32)
    >>> call_of(get("e4m3fn").plan, Rounding())(x.ctypes.data, out.ctypes.data, 2, 1.0)
    >>> out.tolist()
    [0.3125, -448.0]

    x and out are contiguous and disjoint.
    """
    from lplab.formats import compiled, compiled_nearest

    sort = sort_of(plan, rounding, step)
    assert sort is not None
    loop = compiled_nearest.integer_loop() if step else compiled_nearest.nearest_loop(*sort[1:])
    table = compiled.grid_constants(arrays.constants(plan, rounding, "float32"), 0, "float32")
    address = table.ctypes.data

    def call(x: int, out: int, count: int, scale: float) -> None:
        if step:
            loop(x, out, count, address, scale)
        else:
            loop(x, out, count, address)

    call.table = table  # type: ignore[attr-defined]  # keeps the address valid
    return call
