"""Rounding to nearest in a dozen instructions, compiled by numba; training calls it thousands of times a second.

``numba_kernels.grid_loop`` splits a number into whole units and a fraction, which serves every rounding mode. For
rounding to nearest there is a shorter way: add a number so large that the spacing of float32 there is that of the grid,
and subtract it again; the addition rounds, ties to even. The results are the same, bit for bit.
"""

# mypy: ignore-errors
# (numba gives the types in these loops a stricter meaning than Python's)

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numba import carray, njit

from lplab.formats.paths.array_kernels import FLOAT_LAYOUTS
from lplab.formats.paths.numba_compile import compile_loop, pointer, use_wide_vectors
from lplab.formats.paths.numba_kernels import CONSTANTS

_WORD = FLOAT_LAYOUTS["float32"]
I, F = np.int32, np.float32  # noqa: E741
SIGN, MAGNITUDE, INFINITY, NAN = I(_WORD.sign_bit), I(~_WORD.sign_bit), I(_WORD.infinity), I(_WORD.nan)
OCTAVE = I(_WORD.min_normal)  # what doubles a number, added to its pattern
HIDDEN = I(_WORD.fraction_bits << _WORD.fraction_bits)  # 23 octaves: from a spacing to the first number that has it
ZERO, ONE = I(0), I(1)


@cache
def nearest_loop(away: bool, pattern: bool, saturates: bool) -> Callable:
    """The loop that rounds to a symmetric :class:`~lplab.formats.rounding_spec.Grid`, ties to even or away from zero.

    Args:
        away: whether ties go away from zero, not to even.
        pattern: whether the grid's lowest binade is that of float32 itself, as bfloat16's is: then the carry of an
            integer addition rounds.
        saturates: whether everything too large becomes the largest number, and nothing is flushed: then |x| is cut
            to that number beforehand, and nothing is left to check.

    The loop takes the addresses of contiguous patterns, of results, how many there are, and the address of what
    :func:`~lplab.formats.paths.numba_kernels.grid_constants` makes.
    """

    def loop(x_address, out_address, count, constants):
        use_wide_vectors()
        x, out = carray(pointer(x_address), count, I), carray(pointer(out_address), count, I)
        c = carray(pointer(constants), CONSTANTS, I)
        cut, cap, least, shift, highest, above, smallest = c[0], c[1], c[2], c[3], c[7], c[9], c[13]
        negative_zero = c[14] != ZERO
        unit = I(ONE << cut)
        half, odd_bit = I(unit >> ONE), ZERO if away else ONE
        carry = half if away else I(half - ONE)
        for i in range(count):
            bits = x[i]
            magnitude = I(bits & MAGNITUDE)
            if pattern:
                rounded = I(I(magnitude + I(carry + I(I(magnitude >> cut) & odd_bit))) & I(-unit))
            else:
                capped = I(min(magnitude, highest if saturates else cap))
                spacing = I(I(max(I(capped & INFINITY), least)) - shift)
                huge = I(spacing + HIDDEN).view(F)
                even = F(F(I(capped).view(F) + huge) - huge)
                if away:  # the addition rounded this tie down
                    tie = F(I(capped).view(F) - even) == I(spacing - OCTAVE).view(F)
                    rounded = F(even + (I(spacing).view(F) if tie else F(0))).view(I)
                else:
                    rounded = even.view(I)
            kept = rounded if saturates or rounded >= smallest else ZERO
            bounded = above if not saturates and kept > highest else kept
            result = NAN if magnitude > INFINITY else bounded
            out[i] = I(result | I(bits & SIGN)) if negative_zero or result != ZERO else ZERO

    return compile_loop(loop)


@cache
def integer_loop() -> Callable:
    """The loop that divides by ``step``, rounds to integers between two bounds, ties to even, and multiplies again.

    It takes the arguments of :func:`nearest_loop` and the step. Zeros have no sign.
    """

    def loop(x_address, out_address, count, constants, step):
        use_wide_vectors()
        x, out = carray(pointer(x_address), count, I), carray(pointer(out_address), count, F)
        c = carray(pointer(constants), CONSTANTS, I)
        step = F(step)
        high, low = I(c[7]).view(F), F(-I(c[8]).view(F))
        huge = F(F(1.5) * I(I(c[2] - c[3]) + HIDDEN).view(F))  # for both signs: in the middle of an octave
        for i in range(count):
            out[i] = to_integer_steps(I(x[i]), step, low, high, huge)

    return compile_loop(loop)


@njit(nogil=True, inline="always")
def to_integer_steps(bits, step, low, high, huge):
    """The number with a pattern, divided by ``step``, rounded to an integer of low … high and multiplied again."""
    quotient = F(bits.view(F) / step)
    bounded = min(max(quotient, low), high)
    whole = F(F(bounded + huge) - huge)
    nan = I(NAN | I(bits & SIGN)).view(F)
    return F(whole * step) if quotient == quotient else nan


@cache
def uniform_loop() -> Callable:
    """The loop that rounds to evenly spaced numbers between two bounds, ties to even. Zeros have no sign.

    It takes the arguments of :func:`nearest_loop`.
    """

    def loop(x_address, out_address, count, constants):
        use_wide_vectors()
        x, out = carray(pointer(x_address), count, I), carray(pointer(out_address), count, F)
        c = carray(pointer(constants), CONSTANTS, I)
        high, low = I(c[7]).view(F), F(-I(c[8]).view(F))
        huge = F(F(1.5) * I(I(c[2] - c[3]) + HIDDEN).view(F))  # for both signs: in the middle of an octave
        for i in range(count):
            value = I(x[i]).view(F)
            bounded = min(max(value, low), high)
            whole = F(F(bounded + huge) - huge)
            nan = I(NAN | I(x[i] & SIGN)).view(F)
            out[i] = whole if value == value else nan

    return compile_loop(loop)


@cache
def power_loop(negative_zero: bool) -> Callable:
    """The loop that rounds to powers: magnitudes that grow by one factor, such as 4 in radix-4 FP4.

    The exponent field alone decides, once the pattern of |x| has been moved up by what lies between a cut and the
    magnitude above it. It takes the addresses of float32 patterns and of results, how many there are, and int32: the
    patterns of the least and the largest magnitude, that lead, and a mask that keeps whole distances.
    """

    def loop(x_address, out_address, count, least, largest, lead, mask):
        use_wide_vectors()
        x, out = carray(pointer(x_address), count, I), carray(pointer(out_address), count, I)
        least, top, lead, mask = I(least), I(I(largest) - I(least)), I(I(lead) - I(least)), I(mask)
        for i in range(count):
            result = _to_power(I(x[i] & MAGNITUDE), least, top, lead, mask)
            out[i] = I(result | I(x[i] & SIGN)) if negative_zero or result != ZERO else ZERO

    return compile_loop(loop)


@njit(nogil=True, inline="always")
def _to_power(magnitude, least, top, lead, mask):
    """The pattern of a magnitude rounded; ``top`` and ``lead`` count from the least magnitude."""
    above = I(min(magnitude, INFINITY) + lead)
    whole = I(least + min(I(above & mask), top))
    rounded = whole if above >= ZERO else ZERO
    return NAN if magnitude > INFINITY else rounded


@cache
def two_powers_loop() -> Callable:
    """The loop that rounds the same numbers to powers twice, and finds their largest magnitude on the way.

    It takes the addresses of float32 patterns and of both results, how many there are, and for each result what
    :func:`power_loop` takes; zeros keep their sign. It returns the largest magnitude; NaN exceeds infinity.
    """

    def loop(x_address, a_address, b_address, count, a, b):
        use_wide_vectors()
        x, for_a = carray(pointer(x_address), count, I), carray(pointer(a_address), count, I)
        for_b = carray(pointer(b_address), count, I)
        a_least, a_top, a_lead, a_mask = I(a[0]), I(I(a[1]) - I(a[0])), I(I(a[2]) - I(a[0])), I(a[3])
        b_least, b_top, b_lead, b_mask = I(b[0]), I(I(b[1]) - I(b[0])), I(I(b[2]) - I(b[0])), I(b[3])
        largest = ZERO
        for i in range(count):
            magnitude, sign = I(x[i] & MAGNITUDE), I(x[i] & SIGN)
            largest = I(max(largest, magnitude))
            for_a[i] = I(_to_power(magnitude, a_least, a_top, a_lead, a_mask) | sign)
            for_b[i] = I(_to_power(magnitude, b_least, b_top, b_lead, b_mask) | sign)
        return np.float64(I(largest).view(F))

    return compile_loop(loop)
