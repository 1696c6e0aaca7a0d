"""Rounding one number inside a compiled loop: the arithmetic of :mod:`lplab.formats.arrays`, for numba to inline.

A mode is an integer that the loop knows when it is compiled, so of all the lines below only those of one mode remain.
"""

# mypy: ignore-errors
# (numba gives the types in these functions a stricter meaning than Python's)

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from lplab.formats.arrays import WORDS, Constants
from lplab.formats.counter import MULTIPLY_1, MULTIPLY_2

CODES = (
    "nearest_even_alone",  # nothing special can happen: no overflow, no subnormal numbers
    "nearest_away_alone",
    "nearest_even",
    "nearest_even_without_mantissa",  # ties look at the exponent
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


def constants(c: Constants, random_bits: int, real: str) -> tuple[Any, ...]:
    """What :func:`rounded` needs of a grid, as integers of the width of the word."""
    word = WORDS[real]
    # 1.5 times the number whose last bit is worth one spacing: adding it pushes all further bits out.
    push = (word.fraction_bits << word.fraction_bits) + (word.least_normal >> 1) - c.shift
    before = (c.least, push, c.shift, c.cap, c.inverse, c.parity, c.highest, c.lowest, c.above, c.below)
    integers = (*before, c.infinity, c.minus_infinity, c.smallest, word.sign_bit if c.negative_zero else 0, random_bits)
    integer = np.dtype(word.integer).type
    return tuple(integer(value) for value in integers)


def rounded(x: Any, mode: int, c: Any, index: Any, key_1: Any, key_2: Any) -> Any:
    """Round x (float32 or float64, not subnormal) to the grid behind the constants ``c``.

    Args:
        x: a number, in compiled code.
        mode: of ``MODES``; a constant.
        c: from :func:`constants`.
        index, key_1, key_2: the number of the element and the keys of the step (uint32), for stochastic rounding.
    """
    raise NotImplementedError("rounded() exists in compiled code alone; see lplab.formats.Format.quantize")


def goes_away(fraction: Any, mode: int, random_bits: int, index: Any, key_1: Any, key_2: Any) -> Any:
    """Whether stochastic rounding goes away from zero; compiled code alone."""
    raise NotImplementedError("goes_away() exists in compiled code alone; see lplab.formats.rounding.rounds_away")


def _names(x: Any) -> tuple[Any, Any, Any]:
    if x == types.float32:
        return WORDS["float32"], np.float32, np.int32
    return WORDS["float64"], np.float64, np.int64


@overload(goes_away, jit_options={"forceinline": True, "error_model": "numpy"})
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
    """Push the bits after the spacing out of the word: its own rounding, to nearest even, does the work."""
    INFINITY = I(word.infinity)

    def implementation(x, mode, c, index, key_1, key_2):
        big = I(I(F(x).view(I) & INFINITY) + c[1]).view(F)
        return F(F(x + big) - big)

    return implementation


def _away_alone(word, F, I):  # noqa: E741
    """Add half a unit to the pattern, then cut: the carry may reach the exponent, as it should."""
    BITS, ONE = I(word.fraction_bits), I(1)

    def implementation(x, mode, c, index, key_1, key_2):
        unit = I(ONE << I(BITS - I(c[2] >> BITS)))
        return I(I(F(x).view(I) + I(unit >> ONE)) & I(-unit)).view(F)

    return implementation


def _nearest(ties_go_away, word, F, I):  # noqa: E741
    """As :func:`_even_alone`, with subnormal numbers, what is flushed, both bounds and the sign of zero.

    A tie ends in zeros: with a last bit of one it is a little more than a tie, and goes away from zero.
    """
    SIGN, INFINITY, MORE = I(word.sign_bit), I(word.infinity), I(1 if ties_go_away else 0)

    def implementation(x, mode, c, index, key_1, key_2):
        least, push, _, _, _, _, highest, lowest, above, below, _, _, smallest, sign_of_zero, _ = c
        bits = F(x).view(I)
        big = I(I(max(I(bits & INFINITY), least)) + push).view(F)
        near = F(F(I(bits | MORE).view(F) + big) - big)
        if ties_go_away and I(bits & ~SIGN) == INFINITY:
            near = x  # infinity with a last bit of one would be NaN
        flushed = I(F(near).view(I) & ~SIGN) < smallest
        if near > I(highest).view(F):  # not if it is NaN
            near = I(above).view(F)
        if near < I(lowest | SIGN).view(F):
            near = I(below | SIGN).view(F)
        return I((I(0) if flushed else F(near).view(I)) | I(bits & sign_of_zero)).view(F)

    return implementation


def _general(code, word, F, I):  # noqa: E741
    """Any mode: whole units, a fraction, a decision."""
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
        kept = np.floor(units)
        fraction = F(units - kept)
        tail = fraction > F(0) or (units == F(0) and magnitude != ZERO)  # the product may underflow
        odd = F(kept - F(F(2) * np.floor(F(kept * HALF)))) != F(0)
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
            away = goes_away(fraction, mode, random_bits, index, key_1, key_2)
        kept = F(kept + F(1)) if away else kept
        result = F(kept * I(spacing).view(F)).view(I)
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
