"""Rounding of whole numpy arrays and torch tensors (CPU and CUDA): :mod:`lplab.formats.words`, bound to both.

Numbers are rounded in float32 or float64; grids that a type cannot hold are rounded to in float64.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np

from lplab.formats import words
from lplab.formats.paths.rules import FLOAT_LAYOUTS, FloatLayout, GridConstants, constants, grid_rule, rounding_strategy
from lplab.formats.reference import round_to_table
from lplab.formats.rounding import MIN_FRACTION, Rounding
from lplab.formats.rounding_spec import Grid, Table

__all__ = [
    "FLOAT_LAYOUTS",
    "FloatLayout",
    "GridConstants",
    "cast",
    "constants",
    "divide",
    "keep_nonzero_visible",
    "narrow",
    "quantize",
    "rounding_strategy",
    "widen",
    "words_for",
]


def quantize(xp: Any, x: Any, spec: Grid | Table, rounding: Rounding, draws: Any = None) -> Any:
    """Round a contiguous float32 or float64 array of at least one dimension into a new array of the same type."""
    if isinstance(spec, Table):
        with np.errstate(over="ignore", invalid="ignore"):  # distances from infinity and NaN
            return narrow(xp, round_to_table(widen(xp, x), spec, rounding, draws, xp), x)
    if spec.step != 1:
        x = divide(xp, x, spec.step)
    real = _dtype_name(xp, x)
    rule = grid_rule(spec, rounding, real)
    if rule is None:
        result = narrow(xp, quantize(xp, widen(xp, x), _without_step(spec), rounding, draws), x)
    else:
        word = words_for(xp, real, **dict(rule.flags))[rule.word]
        bits = x.view(getattr(xp, FLOAT_LAYOUTS[real].integer))
        more = (draws,) if rule.word == "general" else ()
        with np.errstate(all="ignore"):  # no branch is left out where it does not matter
            result = word(bits, *more, *rule.constants).view(x.dtype)
    return result if spec.step == 1 else result * spec.step


@lru_cache(maxsize=512)
def words_for(xp: Any, real: str, **flags: Any) -> dict[str, FunctionType]:
    """The functions of :mod:`lplab.formats.words` for arrays of a library, by name.

    Args:
        xp: numpy or torch.
        real: "float32" or "float64".
        flags: of ``words.FLAGS``.
    """
    layout = FLOAT_LAYOUTS[real]
    F, I = getattr(xp, real), getattr(xp, layout.integer)  # noqa: E741

    def as_real(bits: Any) -> Any:
        return np.array(bits, layout.integer).view(real).item() if isinstance(bits, int) else bits.view(F)

    def where(condition: Any, a: Any, b: Any) -> Any:
        if isinstance(condition, bool):
            return a if condition else b
        result = xp.where(condition, a, b)
        return cast(xp, result, I) if isinstance(a, int) and isinstance(b, int) else result

    names = {
        "as_real": as_real,
        "as_bits": lambda number: number.view(I),
        "to_real": lambda integer: cast(xp, integer, F),
        "where": where,
        "minimum": lambda a, b: xp.clip(a, None, b),
        "maximum": lambda a, b: xp.clip(a, b, None),
        "floor": xp.floor,
        "rint": xp.round,
        "divide": lambda a, b: a / b,
        "unrolled": range,
        **layout.constants(),
    }
    return words.bound(names | flags)


def divide(xp: Any, x: Any, step: float) -> Any:
    """The quotient x / step, a single operation."""
    # torch on CUDA multiplies by the inverse of a scalar divisor, which rounds twice; it really divides by a tensor.
    divisor = step if xp is np else xp.full((1,), step, dtype=x.dtype, device=x.device)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return keep_nonzero_visible(xp, x / divisor, x)


def keep_nonzero_visible(xp: Any, units: Any, x: Any) -> Any:
    """The same units, but at least 2^−100 where x is not zero: every mode rounds that the same way."""
    word = FLOAT_LAYOUTS[_dtype_name(xp, x)]
    bits, before = (array.view(getattr(xp, word.integer)) for array in (units, x))
    small = ((bits & ~word.sign_bit) < word.pattern(MIN_FRACTION)) & ((before & ~word.sign_bit) != 0)
    return xp.where(small, (before & word.sign_bit) | word.pattern(MIN_FRACTION), bits).view(x.dtype)


def widen(xp: Any, x: Any) -> Any:
    """Float64 of x, subnormal numbers converted as integers.

    Subnormal float64 become the smallest normal number of their sign: they round the same way.
    """
    word = FLOAT_LAYOUTS[_dtype_name(xp, x)]
    bits = x.view(getattr(xp, word.integer))
    magnitude = bits & ~word.sign_bit
    if word.real == "float32":
        with np.errstate(invalid="ignore"):  # signaling NaNs
            wide = cast(xp, x, xp.float64)
        small = cast(xp, magnitude, xp.float64) * 2.0**-149
    else:
        wide = x
        small = cast(xp, magnitude > 0, xp.float64) * 2.0**-1022
    return xp.where(magnitude < word.min_normal, xp.where(bits < 0, -small, small), wide)


def narrow(xp: Any, wide: Any, like: Any) -> Any:
    """float64 in the type of ``like``; subnormal float32 put together as integers."""
    if _dtype_name(xp, like) == "float64":
        return wide
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        result = cast(xp, wide, xp.float32)
        size = abs(wide)
        small = size < 2.0**-126
        bits = cast(xp, xp.round(xp.where(small, size, 0.0) * 2.0**149), xp.int32)
    bits = xp.where(xp.signbit(wide), bits | FLOAT_LAYOUTS["float32"].sign_bit, bits)
    return xp.where(small, cast(xp, bits, xp.int32).view(xp.float32), result)


@lru_cache(maxsize=1024)
def _without_step(grid: Grid) -> Grid:
    return replace(grid, step=1.0)


def _dtype_name(xp: Any, x: Any) -> str:
    return str(x.dtype) if xp is np else str(x.dtype).removeprefix("torch.")


def cast(xp: Any, x: Any, dtype: Any) -> Any:
    """X as another type."""
    return x.astype(dtype, copy=False) if xp is np else x.to(dtype)
