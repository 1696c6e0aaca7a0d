"""Rounding of whole numpy arrays and torch tensors (CPU and CUDA): :mod:`lplab.formats.words`, bound to both.

Numbers are rounded in float32 or float64; grids that a type cannot hold are rounded to in float64.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np

from lplab.formats import counter_rng, words
from lplab.formats.paths.grid_rules import FLOAT_LAYOUTS, grid_rule
from lplab.formats.reference import round_to_table
from lplab.formats.rounding import MIN_FRACTION, Rounding
from lplab.formats.rounding_spec import Grid, Table

ELEMENTS_PER_STEP = 2**15  # what whole-array operations work on at a time stays in the processor's cache
ELEMENTS_PER_KEY = 2**32  # elements that share a pair of random keys
MIN_ELEMENTS_TO_SHARE = 2**18  # elements that several threads share; fewer are rounded by one


def quantize(xp: Any, x: Any, spec: Grid | Table, rounding: Rounding, draws: Any = None) -> Any:
    """Round a contiguous float32 or float64 array of at least one dimension into a new array of the same type."""
    if isinstance(spec, Table):
        with np.errstate(over="ignore", invalid="ignore"):  # distances from infinity and NaN
            return narrow(xp, round_to_table(widen(xp, x), spec, rounding, draws, xp), x)
    real = _dtype_name(xp, x)
    rule, word = grid_rule(spec, rounding, real), FLOAT_LAYOUTS[real]
    bits = x.view(getattr(xp, word.integer))
    with np.errstate(all="ignore"):  # all numbers take both ways of a ``where``
        if spec.step != 1:
            steps, step = words_for(xp, real, CODE=rounding.code), word.pattern(spec.step)
            bits = steps["divided"](bits, step, word.pattern(MIN_FRACTION))
        if rule is None:
            wide = quantize(xp, widen(xp, bits.view(x.dtype)), _without_step(spec), rounding, draws)
            bits = narrow(xp, wide, x).view(bits.dtype)
        else:
            more = (draws,) if rule.word == "general" else ()
            bits = words_for(xp, real, **dict(rule.flags))[rule.word](bits, *more, *rule.constants)
        if spec.step != 1:
            bits = steps["multiplied"](bits, step)
    return bits.view(x.dtype)


def quantize_into(
    xp: Any, x: Any, out: Any, spec: Grid | Table, rounding: Rounding, seed: int = 0, step: int | None = None
) -> None:
    """Round a flat array into another, or into itself, by ``step`` elements at a time.

    Args:
        xp: numpy or torch.
        x, out: of the same type; float32 or float64 [n].
        spec, rounding: what is rounded to, and how.
        seed: of the random bits; every ELEMENTS_PER_KEY elements have keys of their own.
        step: bounds the memory for intermediate results; by default ELEMENTS_PER_STEP.
    """
    count, step = x.shape[0], step or ELEMENTS_PER_STEP
    device = None if xp is np else x.device
    for start in range(0, count, ELEMENTS_PER_KEY):
        key, stop = counter_rng.keys(seed, start // ELEMENTS_PER_KEY), min(start + ELEMENTS_PER_KEY, count)
        for first in range(start, stop, step):
            part, draws = slice(first, min(first + step, stop)), None
            if rounding.is_stochastic:
                size, bits = part.stop - first, rounding.random_bits
                draws = counter_rng.random_bits(xp, key, first - start, size, bits, device)
            out[part] = quantize(xp, x[part], spec, rounding, draws)


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

    def divide(a: Any, b: Any) -> Any:
        # torch multiplies by the inverse of a tensor, and on CUDA by that of a number, which rounds twice; a tensor by
        # a tensor it really divides.
        if xp is not np and isinstance(b, float):
            b = xp.full((1,), b, dtype=F, device=a.device)
        if xp is not np and isinstance(a, float) and a != 1:
            a = xp.full((), a, dtype=F, device=b.device)
        return a / b

    def apart(x: Any, half: int) -> tuple[Any, Any]:
        # [size, groups]: the groups lie along the last axis, so that work is done on memory that lies together
        pairs = x.reshape(x.shape[0] // (2 * half), 2, half, x.shape[1])
        return pairs[:, 0], pairs[:, 1]

    names = {
        "as_real": as_real,
        "as_bits": lambda number: number.view(I),
        "to_real": lambda integer: cast(xp, integer, F),
        "where": where,
        "minimum": lambda a, b: xp.clip(a, None, b),
        "maximum": lambda a, b: xp.clip(a, b, None),
        "floor": xp.floor,
        "rint": xp.round,
        "divide": divide,
        "unrolled": range,
        "apart": apart,
        "together": lambda a, b, half: xp.stack([a, b], 1).reshape(2 * half * a.shape[0], a.shape[2]),
        **layout.constants(),
    }
    return words.bound(names | flags)


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
