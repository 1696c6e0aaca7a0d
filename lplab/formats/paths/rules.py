"""Which function of :mod:`lplab.formats.words` rounds which format, and with which constants."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from lplab.formats.counter_rng import MULTIPLY_1, MULTIPLY_2
from lplab.formats.reference import overflow_result
from lplab.formats.rounding import Rounding
from lplab.formats.rounding_spec import BlockSpec, Grid


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

    def constants(self) -> dict[str, int]:
        """The constants that :mod:`lplab.formats.words` takes from its namespace, by name."""
        return {
            "SIGN": self.sign_bit,
            "MAGNITUDE": ~self.sign_bit,
            "INFINITY": self.infinity,
            "NAN": self.nan,
            "FRACTION": self.fraction_bits,
            "BIAS": self.bias,
            "MIN_NORMAL": self.min_normal,
            "HIDDEN": self.fraction_bits << self.fraction_bits,
            "MULTIPLY_1": MULTIPLY_1,
            "MULTIPLY_2": MULTIPLY_2 - 2**32,  # as int32
        }


FLOAT_LAYOUTS = {
    "float32": FloatLayout("float32", "int32", 23, 127),
    "float64": FloatLayout("float64", "int64", 52, 1023),
}


@dataclass(frozen=True)
class Rule:
    """A function of :mod:`lplab.formats.words` with its flags and constants.

    Attributes:
        word: the name of the function.
        flags: what differs from ``words.FLAGS``, as pairs of name and value.
        constants: what the function takes after the numbers, and after the draws if it is "general": integers.
        random_bits: of each number; 0 where the rounding is not stochastic.
    """

    word: str
    flags: tuple[tuple[str, Any], ...]
    constants: tuple[Any, ...]
    random_bits: int = 0


class GridConstants(NamedTuple):
    """A grid and a rounding mode as integers of the width of a word: what :func:`lplab.formats.words.general` takes."""

    cut: int
    cap: int
    least: int
    shift: int
    inverse: int
    from_integer: int
    parity: int
    highest: int
    lowest: int
    above: int
    below: int
    infinity: int
    minus_infinity: int
    smallest: int
    negative_zero: int
    levels: int


def rounding_strategy(grid: Grid, word: FloatLayout) -> str:
    """How numbers of a float layout are rounded to a grid.

    Returns:
        "scaled": every spacing is a power of two that is a normal number. "pattern": the lowest binade of the grid is
        that of the word itself (bfloat16, tf32). "wide": in float64.
    """
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
    word, m = FLOAT_LAYOUTS[real], grid.mantissa_bits
    fraction_bits, spacing, cut = word.fraction_bits, grid.min_exponent - m, word.fraction_bits - m
    # Below 2^-120 it only matters that x / spacing is not zero.
    units = 2.0 ** max(1 - word.bias - fraction_bits - spacing, 20 - word.bias)
    bounds = grid.bound(False), grid.bound(True)
    results = *bounds, *(overflow_result(grid, rounding, sign) for sign in (False, True))
    results = *results, grid.infinite(False), grid.infinite(True)
    patterns = (word.pattern(magnitude) & ~word.sign_bit for magnitude in results)
    highest, lowest, above, below, infinity, minus_infinity = patterns
    return GridConstants(
        cut=cut,
        cap=min(word.pattern(4 * max(grid.highest, -grid.lowest)), word.infinity - 1),
        least=(grid.min_exponent + word.bias) << fraction_bits,
        shift=m << fraction_bits,
        inverse=2 * word.bias << fraction_bits,
        from_integer=word.pattern(2.0**-cut if rounding_strategy(grid, word) == "pattern" else units),
        parity=grid.parity - word.bias,
        highest=highest,
        lowest=lowest,
        above=above,
        below=below,
        infinity=infinity,
        minus_infinity=minus_infinity,
        smallest=word.pattern(grid.smallest),
        negative_zero=int(grid.negative_zero),
        levels=word.pattern(2.0**rounding.random_bits),
    )


@lru_cache(maxsize=1024)
def grid_rule(grid: Grid, rounding: Rounding, real: str) -> Rule | None:
    """How float32 or float64 (``real``) is rounded to a grid; None where it is done in float64.

    The step of the grid is left out: whoever calls divides before and multiplies afterwards.

    >>> from lplab.formats import get
    >>> e4m3fn, int8 = get("e4m3fn").rounding_spec, get("int8").rounding_spec
    >>> [grid_rule(e4m3fn, Rounding(mode), "float32").word for mode in ("nearest_even", "up")]
    ['nearest', 'general']
    >>> grid_rule(int8, Rounding(), "float64").word
    'evenly_spaced'
    """
    word = FLOAT_LAYOUTS[real]
    kind = rounding_strategy(grid, word)
    if kind == "wide":
        return None
    c = constants(grid, rounding, real)
    one_spacing = max(grid.highest, -grid.lowest) < 2.0 ** (grid.min_exponent - 1)
    if rounding.code in ("nearest_even", "nearest_away"):
        rule = _evenly_spaced_rule(grid, c, word) if one_spacing and rounding.code == "nearest_even" else None
        rule = rule or _nearest_rule(grid, c, word, rounding.code == "nearest_away", kind == "pattern")
        if rule is not None:
            return rule
    flags = {
        "CODE": rounding.code,
        "PATTERN": kind == "pattern",
        "NO_MANTISSA": grid.mantissa_bits == 0,
        "PLAIN": c.smallest == 0 and (c.above, c.below) == (c.infinity, c.minus_infinity),
        "ONE_SPACING": kind == "scaled" and one_spacing,
    }
    return Rule("general", tuple(flags.items()), c, rounding.random_bits if rounding.is_stochastic else 0)


def _evenly_spaced_rule(grid: Grid, c: GridConstants, word: FloatLayout) -> Rule | None:
    """Ties to even on a grid whose numbers share one spacing and saturate: in float32 at most 2^20 of them."""
    spacing = grid.min_exponent - grid.mantissa_bits
    in_reach = -word.bias + 1 < spacing and spacing + word.fraction_bits + 1 < word.bias
    plain = grid.overflow == "saturate" and not grid.negative_zero and not grid.smallest
    if grid.mantissa_bits > word.fraction_bits - 3 or not (in_reach and plain):
        return None
    huge = word.pattern(1.5 * 2.0 ** (spacing + word.fraction_bits))
    return Rule("evenly_spaced", (), (word.sign_bit | c.lowest, c.highest, huge))


def _nearest_rule(grid: Grid, c: GridConstants, word: FloatLayout, away: bool, pattern: bool) -> Rule | None:
    """The short way to the nearest number, where a grid has one: it treats infinity as any number that is too large."""
    if not pattern:  # half of the smallest spacing, and what is added to the largest numbers, are normal
        highest = math.frexp(grid.highest)[1] + 1 - grid.mantissa_bits  # numbers are cut to four times the largest
        least = grid.min_exponent - grid.mantissa_bits
        fits = least > -word.bias + 1 and highest + word.fraction_bits + 1 < word.bias
    else:
        fits = grid.mantissa_bits < word.fraction_bits
    # Without a mantissa ties look at the exponent field.
    fits = fits and (grid.mantissa_bits > 0 or away)
    if not fits or grid.highest != -grid.lowest or grid.overflow == "propagate":
        return None
    saturates = not pattern and grid.overflow == "saturate" and not grid.smallest
    flags = ("AWAY", away), ("PATTERN", pattern), ("SATURATES", saturates)
    return Rule("nearest", flags, (*c[:4], c.highest, c.above, c.smallest, c.negative_zero))


def sum_rule(grid: Grid, rounding: Rounding, real: str, in_range: bool) -> Rule | None:
    """How sums are rounded to the nearest number of a grid, ties to even or away; None where ties look at the exponent.

    Args:
        grid, rounding, real: as for :func:`grid_rule`.
        in_range: whether no sum is subnormal, too large, infinite or NaN.
    """
    word, away = FLOAT_LAYOUTS[real], rounding.code == "nearest_away"
    cut, least = word.fraction_bits - grid.mantissa_bits, grid.min_exponent + word.bias
    push = (cut << word.fraction_bits) + (word.min_normal >> 1)
    if in_range:
        return Rule("nearest_sum", (("AWAY", away), ("IN_RANGE", True)), (cut, push, *[0] * 7))
    if grid.mantissa_bits == 0 or grid.overflow == "propagate":
        return None
    c, sign = constants(grid, rounding, real), word.sign_bit
    bounds = c.highest, c.lowest | sign, c.above, c.below | sign, c.smallest, sign if c.negative_zero else 0
    return Rule("nearest_sum", (("AWAY", away),), (cut, push, least << word.fraction_bits, *bounds))


@dataclass(frozen=True)
class BlockRule:
    """How float32 is rounded block by block.

    Attributes:
        element: rounds the numbers: of a word that ends in "_in_block" where scales are powers of two.
        scale: rounds the scales; None where they are powers of two.
        least, most: the exponents of power-of-two scales that ``element`` can do; other blocks are done in float64.
    """

    element: Rule
    scale: Rule | None
    least: int = 0
    most: int = 0


@lru_cache(maxsize=512)
def block_rule(spec: BlockSpec, rounding: Rounding) -> BlockRule | None:
    """How float32 is rounded to a block format; None where float64 must be used throughout.

    >>> from lplab.formats import get
    >>> block_rule(get("mxfp4").rounding_spec, Rounding()).element.word
    'nearest_in_block'
    """
    grid, element = spec.element, grid_rule(spec.element, rounding, "float32")
    if grid.mantissa_bits == 0 or spec.element_exponent < 0 or element is None:
        return None
    if spec.scale is not None:
        scale = grid_rule(spec.scale, Rounding(), "float32")
        return None if scale is None else BlockRule(element, scale)
    # Scales near the ends of float32 are left out: what the words compute with must be normal numbers.
    least, most = -100 - grid.min_exponent + grid.mantissa_bits, 123 - spec.element_exponent
    if element.word == "general":  # a subnormal number is far below the spacing in all blocks that are done
        c = constants(grid, rounding, "float32")._replace(from_integer=FLOAT_LAYOUTS["float32"].pattern(2.0**-107))
        element = replace(element, constants=c)
    else:  # 2^23 times the spacing of the largest numbers is added
        most = min(most, 101 - max(spec.element_exponent, grid.min_exponent) + grid.mantissa_bits)
    return BlockRule(replace(element, word=f"{element.word}_in_block"), None, least, most)


def scale_constants(spec: BlockSpec, word: FloatLayout) -> tuple[int, int, int]:
    """The constants of :func:`lplab.formats.words.block_exponent`: what a scale rule adds, its limit, the exponent."""
    unit, (exponent, threshold) = word.min_normal, spec.nearest_threshold
    limits = {"ceil": 0, "rceil": int((spec.element_fraction - 1) * unit), "nearest": int((threshold - 1) * unit) - 1}
    add = unit >> (spec.mantissa_bits + 1) if spec.rule == "even" else 0
    return add, limits.get(spec.rule, unit), exponent if spec.rule == "nearest" else spec.element_exponent
