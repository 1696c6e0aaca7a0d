"""Rounding of one number for numba to inline: the arithmetic of :mod:`lplab.formats.paths.array_kernels`.

A mode is an integer constant at compile time, so the compiled loop holds the code of one mode only.
"""

# mypy: ignore-errors
# (numba gives the types in these functions a stricter meaning than Python's)

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from lplab.formats.counter_rng import MULTIPLY_1, MULTIPLY_2
from lplab.formats.paths.array_kernels import FLOAT_LAYOUTS, GridConstants

CODES = (
    "nearest_even_alone",  # without range checks: no overflow, no subnormal numbers are possible
    "nearest_away_alone",
    "nearest_even",
    "nearest_even_without_mantissa",  # without a mantissa the parity of a tie is that of the exponent
    "nearest_away",
    "nearest_away_without_mantissa",
    "nearest_down",
    "toward_zero",
    "up",
    "down",
    "to_odd",
    "to_odd_without_mantissa",
    "stochastic_A",
    "stochastic_B",
    "stochastic_C",
)
MODES = {code: number for number, code in enumerate(CODES)}
FIRST_STOCHASTIC = MODES["stochastic_A"]


def constants(c: GridConstants, random_bits: int, real: str) -> tuple[Any, ...]:
    """The constants of a grid for :func:`rounded`, as integers of the width of the word."""
    word = FLOAT_LAYOUTS[real]
    # 1.5 times the number whose last bit is worth one spacing: adding it rounds away all lower bits.
    push = (word.fraction_bits << word.fraction_bits) + (word.min_normal >> 1) - c.shift
    before = (c.least, push, c.shift, c.cap, c.inverse, c.parity, c.highest, c.lowest, c.above, c.below)
    integers = (*before, c.infinity, c.minus_infinity, c.smallest, word.sign_bit if c.negative_zero else 0, random_bits)
    integer = np.dtype(word.integer).type
    return tuple(integer(value) for value in integers)


def rounded(x: Any, mode: int, c: Any, index: Any, key_1: Any, key_2: Any) -> Any:
    """Round x (float32 or float64, not subnormal) to the grid of the constants ``c``.

    Args:
        x: a number, in compiled code.
        mode: of ``MODES``; a constant.
        c: from :func:`constants`.
        index, key_1, key_2: index of the element and keys of the step (uint32), for stochastic rounding.
    """
    raise NotImplementedError("rounded() exists in compiled code only; see lplab.formats.Format.quantize")


def rounds_away(fraction: Any, mode: int, random_bits: int, index: Any, key_1: Any, key_2: Any) -> Any:
    """Whether stochastic rounding goes away from zero; in compiled code only."""
    raise NotImplementedError("rounds_away() exists in compiled code only; see lplab.formats.rounding.rounds_away")


def _names(x: Any) -> tuple[Any, Any, Any]:
    if x == types.float32:
        return FLOAT_LAYOUTS["float32"], np.float32, np.int32
    return FLOAT_LAYOUTS["float64"], np.float64, np.int64


@overload(rounds_away, jit_options={"forceinline": True, "error_model": "numpy"})
def _goes_away(fraction, mode, random_bits, index, key_1, key_2):
    _, F, I = _names(fraction)  # noqa: E741
    U = np.uint32
    M1, M2, S15, S16 = U(MULTIPLY_1), U(MULTIPLY_2), U(15), U(16)
    A, B = MODES["stochastic_A"], MODES["stochastic_B"]

    def implementation(fraction, mode, random_bits, index, key_1, key_2):
        h = U(U(index) + U(key_1))
        h = U(U(h ^ U(h >> S16)) * M1)
        h = U(U(h ^ U(h >> S15)) + U(key_2))
        h = U(h * M2)
        draw = F(I(U(U(h ^ U(h >> S16)) >> U(I(32) - random_bits))))
        levels = F(I(I(1) << random_bits))
        steps = F(fraction * levels)
        if mode == A:
            steps = np.floor(steps)
        elif mode == B:
            steps = np.floor(steps) + (F(1) if F(steps - np.floor(steps)) >= F(0.5) else F(0))
        else:
            steps = np.rint(steps)
        return steps >= F(levels - draw)

    return implementation


@overload(rounded, prefer_literal=True, jit_options={"forceinline": True, "error_model": "numpy"})
def _rounded(x, mode, c, index, key_1, key_2):
    if not isinstance(mode, types.IntegerLiteral):
        return None  # numba asks again with the literal
    code = CODES[mode.literal_value]
    if code.endswith("alone"):
        return (_even_alone if code == "nearest_even_alone" else _away_alone)(*_names(x))
    if code in ("nearest_even", "nearest_away"):
        return _nearest(code == "nearest_away", *_names(x))
    return _general(code, *_names(x))


def _even_alone(word, F, I):  # noqa: E741
    """Add and subtract a large number: the word's own rounding to nearest even removes the bits below the spacing."""
    INFINITY = I(word.infinity)

    def implementation(x, mode, c, index, key_1, key_2):
        big = I(I(F(x).view(I) & INFINITY) + c[1]).view(F)
        return F(F(x + big) - big)

    return implementation


def _away_alone(word, F, I):  # noqa: E741
    """Add half a unit to the bit pattern, then truncate; a carry into the exponent is correct."""
    BITS, ONE = I(word.fraction_bits), I(1)

    def implementation(x, mode, c, index, key_1, key_2):
        unit = I(ONE << I(BITS - I(c[2] >> BITS)))
        return I(I(F(x).view(I) + I(unit >> ONE)) & I(-unit)).view(F)

    return implementation


def _nearest(ties_go_away, word, F, I):  # noqa: E741
    """As :func:`_even_alone`, with subnormal numbers, flush to zero, both bounds and the sign of zero.

    A tie ends in zeros. With its last bit set it is slightly more than a tie, so it goes away from zero.
    """
    SIGN, INFINITY, MORE = I(word.sign_bit), I(word.infinity), I(1 if ties_go_away else 0)

    def implementation(x, mode, c, index, key_1, key_2):
        least, push, _, _, _, _, highest, lowest, above, below, _, _, smallest, sign_of_zero, _ = c
        bits = F(x).view(I)
        big = I(I(max(I(bits & INFINITY), least)) + push).view(F)
        near = F(F(I(bits | MORE).view(F) + big) - big)
        if ties_go_away and I(bits & ~SIGN) == INFINITY:
            near = x  # infinity with its last bit set would be NaN
        flushed = I(F(near).view(I) & ~SIGN) < smallest
        if near > I(highest).view(F):  # false for NaN
            near = I(above).view(F)
        if near < I(lowest | SIGN).view(F):
            near = I(below | SIGN).view(F)
        return I((I(0) if flushed else F(near).view(I)) | I(bits & sign_of_zero)).view(F)

    return implementation


def _general(code, word, F, I):  # noqa: E741
    """Any mode: split into whole units and a fraction, then decide whether to go away from zero."""
    BITS, SIGN, INFINITY, NAN = I(word.fraction_bits), I(word.sign_bit), I(word.infinity), I(word.nan)
    ZERO, ONE, HALF = I(0), I(1), F(0.5)
    no_mantissa = code.endswith("without_mantissa")

    def implementation(x, mode, c, index, key_1, key_2):
        least, _, shift, cap, inverse, parity, highest, lowest, above, below = c[:10]
        infinity, minus_infinity, smallest, sign_of_zero, random_bits = c[10:]
        bits = F(x).view(I)
        magnitude = I(bits & ~SIGN)
        negative = bits < ZERO
        capped = I(min(magnitude, cap))
        exponent = I(max(I(capped & INFINITY), least))
        spacing = I(exponent - shift)
        units = F(I(capped).view(F) * I(inverse - spacing).view(F))
        whole = np.floor(units)
        fraction = F(units - whole)
        tail = fraction > F(0) or (units == F(0) and magnitude != ZERO)  # the product may underflow
        odd = F(whole - F(F(2) * np.floor(F(whole * HALF)))) != F(0)
        if no_mantissa:
            odd = odd and I(I(I(exponent >> BITS) + parity) & ONE) != ZERO
        if code == "nearest_even_without_mantissa":
            away = fraction > HALF or (fraction == HALF and odd)
        elif code == "nearest_away_without_mantissa":
            away = fraction >= HALF
        elif code == "nearest_down":
            away = fraction > HALF or (fraction == HALF and negative)
        elif code == "toward_zero":
            away = False
        elif code == "up":
            away = tail and not negative
        elif code == "down":
            away = tail and negative
        elif code == "to_odd" or code == "to_odd_without_mantissa":
            away = tail and not odd
        else:
            away = rounds_away(fraction, mode, random_bits, index, key_1, key_2)
        whole = F(whole + F(1)) if away else whole
        result = F(whole * I(spacing).view(F)).view(I)
        if result < smallest:
            result = ZERO
        if result > (lowest if negative else highest):
            result = below if negative else above
        if magnitude == INFINITY:
            result = minus_infinity if negative else infinity
        if magnitude > INFINITY:
            result = NAN
        if negative and (sign_of_zero != ZERO or result != ZERO):
            result = I(result | SIGN)
        return I(result).view(F)

    return implementation
