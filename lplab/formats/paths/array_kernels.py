"""The rounding of :mod:`lplab.formats.reference` as whole-array operations that numpy and torch share (CPU and CUDA).

It works on the bit patterns of float32 (or float64). The pattern of |x| contains the exponent, so the spacing around x
follows by masking; x / spacing is exact, its integer part is kept, and its fraction decides the rounding. Two kinds of
grid:

* *scaled*: the spacing is a power of two that is a normal number; multiply, split, multiply back;
* *pattern*: the grid's lowest binade is that of float32 itself (bfloat16, tf32): cutting the pattern's low bits
  rounds normal and subnormal numbers alike.

All other grids are rounded to in float64. No step depends on how the processor treats subnormal numbers: their patterns
are converted as integers, because under ``torch.set_flush_denormal(True)`` arithmetic treats them as zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from lplab.formats.reference import overflow_result, round_to_table
from lplab.formats.rounding import MIN_FRACTION, Rounding, rounds_away
from lplab.formats.rounding_spec import Grid, Table


@dataclass(frozen=True)
class FloatLayout:
    """float32 or float64: its bit fields, and the integer type of the same width."""

    real: str
    integer: str
    fraction_bits: int
    bias: int

    @property
    def infinity(self) -> int:
        """The pattern of infinity: all exponent bits."""
        return (2 * self.bias + 1) << self.fraction_bits

    @property
    def nan(self) -> int:
        """The pattern of a quiet NaN: a signaling one would make later operations warn."""
        return self.infinity + (self.min_normal >> 1)

    @property
    def min_normal(self) -> int:
        """The pattern of the smallest normal number."""
        return 1 << self.fraction_bits

    @property
    def sign_bit(self) -> int:
        """The pattern of −0, as a signed integer."""
        return -2 * (self.infinity + self.min_normal) // 2

    def pattern(self, value: float) -> int:
        """The bits of a value, as a signed integer; values that the type cannot hold are rounded to it."""
        with np.errstate(over="ignore"):
            return int(np.array([value], self.real).view(self.integer)[0])


FLOAT_LAYOUTS = {
    "float32": FloatLayout("float32", "int32", 23, 127),
    "float64": FloatLayout("float64", "int64", 52, 1023),
}


@dataclass(frozen=True)
class GridConstants:
    """A grid and a rounding mode as the integers and factors that the inner loop needs, for one float layout."""

    kind: str  # "scaled" or "pattern"
    cut: int  # pattern: how many low bits go
    cap: int  # larger patterns are cut to this one: keeps x / spacing small, and still overflows
    least: int  # pattern of 2^min_exponent
    shift: int  # exponent pattern → pattern of the spacing: subtract
    inverse: int  # pattern of the spacing → pattern of its inverse: subtract from this
    from_integer: float  # pattern of a subnormal x, as a number → x / spacing
    no_mantissa: bool  # the last bit of a code is that of the exponent field:
    parity: int  # what turns the word's exponent field into the format's, for that last bit
    highest: int
    lowest: int  # patterns of the bounds, without sign
    above: int
    below: int  # what finite overflow becomes
    infinity: int
    minus_infinity: int  # what infinity becomes
    smallest: int  # smaller results are flushed
    negative_zero: bool


def rounding_strategy(grid: Grid, word: FloatLayout) -> str:
    """How numbers of a float layout are rounded to a grid: "scaled", "pattern", or "wide" (in float64)."""
    if grid.mantissa_bits > word.fraction_bits - 1:
        return "pattern" if _is_own_grid(grid, word) and grid.mantissa_bits == word.fraction_bits else "wide"
    if _is_own_grid(grid, word):
        return "pattern"
    lowest_spacing = grid.min_exponent - grid.mantissa_bits
    highest_exponent = math.frexp(max(grid.highest, -grid.lowest))[1] - 1
    highest_spacing = min(highest_exponent + 2, word.bias) - grid.mantissa_bits  # x is cut to 4 times the largest value
    in_reach = lowest_spacing > -word.bias and highest_exponent <= word.bias and highest_spacing < word.bias
    return "scaled" if in_reach else "wide"


def _is_own_grid(grid: Grid, word: FloatLayout) -> bool:
    return grid.min_exponent == 1 - word.bias and grid.mantissa_bits > 0 and not grid.smallest


@lru_cache(maxsize=1024)
def constants(grid: Grid, rounding: Rounding, real: str) -> GridConstants:
    """The :class:`GridConstants` of a grid and a rounding mode."""
    word = FLOAT_LAYOUTS[real]
    m, fraction_bits = grid.mantissa_bits, word.fraction_bits
    spacing = grid.min_exponent - m
    largest_finite = word.infinity - 1

    def pattern(magnitude: float) -> int:
        return word.pattern(magnitude) & ~word.sign_bit

    return GridConstants(
        kind=rounding_strategy(grid, word),
        cut=fraction_bits - m,
        cap=min(word.pattern(4 * max(grid.highest, -grid.lowest)), largest_finite),
        least=(grid.min_exponent + word.bias) << fraction_bits,
        shift=m << fraction_bits,
        inverse=2 * word.bias << fraction_bits,
        # Below 2^-120 it only matters that x / spacing is not zero.
        from_integer=2.0 ** max(1 - word.bias - fraction_bits - spacing, 20 - word.bias),
        no_mantissa=m == 0,
        parity=grid.parity - word.bias,
        highest=pattern(grid.bound(False)),
        lowest=pattern(grid.bound(True)),
        above=pattern(overflow_result(grid, rounding, False)),
        below=pattern(overflow_result(grid, rounding, True)),
        infinity=pattern(grid.infinite(False)),
        minus_infinity=pattern(grid.infinite(True)),
        smallest=word.pattern(grid.smallest),
        negative_zero=grid.negative_zero,
    )


def quantize(xp: Any, x: Any, spec: Grid | Table, rounding: Rounding, draws: Any = None) -> Any:
    """Round a contiguous float32 or float64 array of at least one dimension into a new array of the same type."""
    if isinstance(spec, Table):
        with np.errstate(over="ignore", invalid="ignore"):  # distances from infinity and NaN
            return narrow(xp, round_to_table(widen(xp, x), spec, rounding, draws, xp), x)
    if spec.step != 1:
        units = quantize(xp, divide(xp, x, spec.step), _without_step(spec), rounding, draws)
        return units * spec.step
    real = _dtype_name(xp, x)
    if rounding_strategy(spec, FLOAT_LAYOUTS[real]) == "wide":
        return narrow(xp, quantize(xp, widen(xp, x), spec, rounding, draws), x)
    return _to_grid(xp, x, constants(spec, rounding, real), FLOAT_LAYOUTS[real], rounding, draws)


def _to_grid(xp: Any, x: Any, c: GridConstants, word: FloatLayout, rounding: Rounding, draws: Any) -> Any:
    integer, real = getattr(xp, word.integer), getattr(xp, word.real)
    bits = x.view(integer)
    negative = bits < 0
    magnitude = bits & ~word.sign_bit

    if c.kind == "scaled":
        capped = xp.clip(magnitude, None, c.cap)
        exponent = xp.clip(capped & word.infinity, c.least, None)
        spacing = exponent - c.shift
        units = capped.view(real) * (c.inverse - spacing).view(real)
        units = xp.where(magnitude < word.min_normal, cast(xp, magnitude, real) * c.from_integer, units)
        units = xp.where((units < MIN_FRACTION) & (magnitude != 0), MIN_FRACTION, units)
        kept = xp.floor(units)
        odd = (kept - 2 * xp.floor(kept * 0.5)) != 0
        if c.no_mantissa:
            odd = odd & ((((exponent >> word.fraction_bits) + c.parity) & 1) != 0)
        kept = kept + cast(xp, rounds_away(xp, rounding, odd, units - kept, negative, draws), real)
        result = (kept * spacing.view(real)).view(integer)
    else:
        kept = magnitude >> c.cut
        fraction = cast(xp, magnitude & ((1 << c.cut) - 1), real) * 2.0**-c.cut
        away = rounds_away(xp, rounding, (kept & 1) != 0, fraction, negative, draws)
        result = (kept + cast(xp, away, integer)) << c.cut

    result = xp.where(result < c.smallest, 0, result)
    result = xp.where(result > xp.where(negative, c.lowest, c.highest), xp.where(negative, c.below, c.above), result)
    special = xp.where(magnitude == word.infinity, xp.where(negative, c.minus_infinity, c.infinity), word.nan)
    result = xp.where(magnitude >= word.infinity, special, result)
    signed = negative if c.negative_zero else negative & (result != 0)
    return cast(xp, xp.where(signed, result | word.sign_bit, result), integer).view(real)


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
