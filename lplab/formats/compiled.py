"""The inner loops, compiled by numba: the arithmetic of :mod:`lplab.formats.arrays`, element by element, in one pass.

Serial and without fast-math on purpose: one thread already runs at the speed of memory, results must not depend on contraction, and
numba's parallel layer would change torch's thread count and kill forked workers. Each loop is compiled for one word, one rounding mode and
one way of scaling, given as constants in the enclosing function; numba keeps the machine code on disk.

Integer results are wrapped in ``I(...)`` throughout, as numba would widen them to 64 bits and the loop would not use vector instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from lplab.formats.arrays import WORDS
from lplab.formats.counter import MULTIPLY_1, MULTIPLY_2

# ruff: noqa: N806  (one-letter capitals stand for types here)


def _compile(loop: Callable) -> Callable:
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return njit(loop, cache=True, **options)
    except RuntimeError:  # nowhere to write the machine code to: compile in each process
        return njit(loop, **options)


@cache
def grid_loop(real: str, code: str, kind: str, no_mantissa: bool, scaling: str, size: int) -> Callable:
    """The loop that rounds to a :class:`~lplab.formats.plan.Grid`.

    Args:
        real: "float32" or "float64".
        code: ``Rounding.code``.
        kind: "scaled" or "pattern" (see :mod:`lplab.formats.arrays`).
        no_mantissa: ties look at the exponent field.
        scaling: "" none; "step": divide by ``factors[0]``, then multiply; "shift": the grid of block b is larger by 2^shifts[b];
            "factor": multiply block b by ``factors[b]``, afterwards by ``scales[b]`` and ``scale``.
        size: elements a block, or 0 for one block of everything.
    """
    word = WORDS[real]
    F, I = (np.float32, np.int32) if real == "float32" else (np.float64, np.int64)  # noqa: E741
    U = np.uint32
    BITS = I(word.fraction_bits)
    SIGN = I(word.sign_bit)
    INFINITY, LEAST_NORMAL = I(word.infinity), I(word.least_normal)
    ZERO, ONE, HALF = I(0), I(1), F(0.5)
    M1, M2, S15, S16 = U(MULTIPLY_1), U(MULTIPLY_2), U(15), U(16)
    scaled, rint_suffices = kind == "scaled", code == "nearest_even" and kind == "scaled" and not no_mantissa
    stochastic, variant = code.startswith("stochastic"), code[-1]
    step, shifted, factored = scaling == "step", scaling == "shift", scaling == "factor"

    def loop(
        x, out, cut, cap, least, shift, inverse, from_integer, parity, highest, lowest, above, below, infinity, minus_infinity,
        smallest, negative_zero, random_bits, first, key_1, key_2, shifts, factors, scales, scale,
    ):  # fmt: skip
        block = size if size else x.size
        levels = F(ONE << I(random_bits))
        draw_shift = U(32 - random_bits)
        for start in range(0, x.size, max(block, 1)):
            b = start // max(block, 1)
            if shifted:
                up = I(I(shifts[b]) << BITS)
                block_cap, block_least = I(cap + up), I(least + up)
                high, low, over, under = I(highest + up), I(lowest + up), I(above + up), I(below + up)
            else:
                block_cap, block_least, high, low, over, under = cap, least, highest, lowest, above, below
            for j in range(block):
                i = start + j
                bits = x[i]
                if step:
                    quotient = I(F(I(bits).view(F) / factors[0]).view(I))
                    if I(quotient & ~SIGN) < smallest and I(bits & ~SIGN) != ZERO:
                        quotient = I(I(bits & SIGN) | smallest)
                    bits = quotient
                elif factored:
                    bits = I(F(I(bits).view(F) * factors[b]).view(I))
                magnitude = I(bits & ~SIGN)
                negative = bits < ZERO

                # split |x| into whole units of the spacing and a fraction
                if scaled:
                    capped = I(min(magnitude, block_cap))
                    exponent = I(max(I(capped & INFINITY), block_least))
                    spacing = I(exponent - shift)
                    units = F(I(capped).view(F) * I(inverse - spacing).view(F))
                    if magnitude < LEAST_NORMAL:
                        units = F(F(magnitude) * from_integer)
                    kept = np.rint(units) if rint_suffices else np.floor(units)
                    fraction = F(units - kept)
                    odd = I(I(kept) & ONE) != ZERO
                    if no_mantissa:
                        odd = odd and I(I(I(exponent >> BITS) + parity) & ONE) != ZERO
                else:
                    spacing = ZERO
                    whole = I(magnitude >> cut)
                    kept = F(0)
                    fraction = F(F(I(magnitude - I(whole << cut))) / F(I(ONE << cut)))
                    odd = I(whole & ONE) != ZERO

                # decide; the same lines as rounding.rounds_away
                if rint_suffices or code == "toward_zero":
                    away = False
                elif code == "nearest_even":
                    away = fraction > HALF or (fraction == HALF and odd)
                elif code == "nearest_away":
                    away = fraction >= HALF
                elif code == "nearest_down":
                    away = fraction > HALF or (fraction == HALF and negative)
                elif code == "up":
                    away = fraction > F(0) and not negative
                elif code == "down":
                    away = fraction > F(0) and negative
                elif code == "to_odd":
                    away = fraction > F(0) and not odd
                else:
                    h = U(U(first + U(i)) + key_1)
                    h = U(U(h ^ U(h >> S16)) * M1)
                    h = U(U(h ^ U(h >> S15)) + key_2)
                    h = U(h * M2)
                    draw = F(I(U(U(h ^ U(h >> S16)) >> draw_shift)))
                    steps = F(fraction * levels)
                    if variant == "A":
                        steps = np.floor(steps)
                    elif variant == "B":
                        steps = np.floor(steps) + (F(1) if steps - np.floor(steps) >= HALF else F(0))
                    else:
                        steps = np.rint(steps)
                    away = steps >= F(levels - draw)

                # put together, flush, bound, special values, sign
                if scaled:
                    kept = F(kept + F(1)) if away else kept
                    result = I(F(kept * I(spacing).view(F)).view(I))
                else:
                    result = I(I(whole + ONE) << cut) if away else I(whole << cut)
                if not step and result < smallest:
                    result = ZERO
                if result > (low if negative else high):
                    result = under if negative else over
                if magnitude >= INFINITY:
                    result = minus_infinity if negative else infinity
                    if magnitude > INFINITY:
                        result = I(INFINITY + ONE)
                    elif shifted:
                        result = under if negative else over
                if negative and (negative_zero or result != ZERO):
                    result = I(result | SIGN)
                if step:
                    result = I(F(I(result).view(F) * factors[0]).view(I))
                elif factored:
                    result = I(F(F(I(result).view(F) * scales[b]) * scale).view(I))
                out[i] = result

    del stochastic
    return _compile(loop)


@cache
def largest_loop(size: int) -> Callable:
    """The loop that finds the pattern of the largest magnitude of each block of float32 (NaN above infinity above all)."""
    I, MAGNITUDE = np.int32, np.int32(0x7FFFFFFF)  # noqa: E741

    def loop(x, largest):
        for b in range(largest.size):
            top = I(0)
            for j in range(size):
                top = I(max(top, I(x[b * size + j] & MAGNITUDE)))
            largest[b] = top

    return _compile(loop)


@cache
def exponent_loop(size: int) -> Callable:
    """The loop that finds the exponent of each block's power-of-two scale; 128 marks a block with NaN or infinity."""
    I, MAGNITUDE = np.int32, np.int32(0x7FFFFFFF)  # noqa: E741

    def loop(x, exponents, add, limit, element_exponent):
        for b in range(exponents.size):
            top = I(0)
            for j in range(size):
                top = I(max(top, I(x[b * size + j] & MAGNITUDE)))
            rounded = I(top + add)
            exponent = (rounded >> 23) - 127 - element_exponent
            if (rounded & 0x7FFFFF) > limit:
                exponent += 1
            exponents[b] = min(max(exponent, -127), 127)
            if top == 0:
                exponents[b] = 0  # any scale will do
            elif top >= 0x7F800000:
                exponents[b] = 128

    return _compile(loop)


@cache
def table_loop() -> Callable:
    """The loop that rounds float32 by looking up the upper 16 bits of the pattern; the lower 16 decide between two results."""
    I = np.int32  # noqa: E741

    def loop(x, out, cuts, results):
        for i in range(x.size):
            bucket = I(I(x[i] >> I(16)) & I(0xFFFF))
            past = I(x[i] & I(0xFFFF)) >= cuts[bucket]
            out[i] = results[2 * bucket + (1 if past else 0)]

    return _compile(loop)


def scalars(real: str, values: Any) -> list[Any]:
    """Integers in the integer type of the word, so that every call has the same signature."""
    integer = np.dtype(WORDS[real].integer).type
    return [integer(value) for value in values]
