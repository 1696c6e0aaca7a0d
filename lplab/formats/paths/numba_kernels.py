"""The inner loops, compiled by numba: the arithmetic of ``array_kernels``, element by element, in one pass.

Serial and without fast-math on purpose: one thread already runs at the speed of memory, results must not depend on
contraction, and numba's parallel layer would change torch's thread count and kill forked workers. Each loop is
compiled for one word, one rounding mode and one way of scaling, given as constants in the enclosing function; numba
keeps the machine code on disk.

Integer results are wrapped in ``I(...)`` throughout, as numba would widen them to 64 bits and the loop would not use
vector instructions.
"""

# mypy: ignore-errors
# (numba gives the types in these loops a stricter meaning than Python's)

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numba import carray

from lplab.formats.counter_rng import MULTIPLY_1, MULTIPLY_2
from lplab.formats.paths.array_kernels import FLOAT_LAYOUTS, GridConstants
from lplab.formats.paths.numba_compile import compile_loop, pointer, use_wide_vectors

SMALLEST, CONSTANTS = 13, 16  # the index of ``smallest`` in grid_constants(), and the number of constants


def grid_constants(c: GridConstants, random_bits: int, real: str) -> np.ndarray:
    """The constants of a grid as :func:`grid_loop` reads them: an array of the integer type of the float layout."""
    before = (c.cut, c.cap, c.least, c.shift, c.inverse, FLOAT_LAYOUTS[real].pattern(c.from_integer), c.parity)
    bounds = (c.highest, c.lowest, c.above, c.below, c.infinity, c.minus_infinity, c.smallest)
    return np.array([*before, *bounds, c.negative_zero, random_bits], FLOAT_LAYOUTS[real].integer)


@cache
def grid_loop(real: str, code: str, kind: str, no_mantissa: bool, plain: bool, scaling: str, size: int) -> Callable:
    """The loop that rounds to a :class:`~lplab.formats.rounding_spec.Grid`.

    Args:
        real: "float32" or "float64".
        code: ``Rounding.code``.
        kind: "scaled" or "pattern" (see ``array_kernels``), or "even": scaled, with one spacing throughout.
        no_mantissa: ties look at the exponent field.
        plain: nothing is flushed, and infinity becomes what overflow becomes; this saves a few instructions.
        scaling: "" none; "step": divide by ``scale``, then multiply; "shift": the grid of block b is larger by
            2^shifts[b]; "factor": multiply block b by ``factors[b]``, afterwards by ``scales[b]`` and ``scale``.
        size: elements a block: a constant lets the compiler unroll; 0 for blocks of any length.

    The loop takes the addresses of contiguous patterns [blocks, length] (an index that counts from zero needs no check
    for being negative), of results, of what :func:`grid_constants` makes, and of shifts (int32), factors and scales;
    and the number of the first element with the keys of the random bits. Where there are several blocks of any length,
    it first reads one word of each cache line of a block: the processor then fetches many lines at once, and does not
    wait for them while it computes.
    """
    word = FLOAT_LAYOUTS[real]
    F, I = (np.float32, np.int32) if real == "float32" else (np.float64, np.int64)  # noqa: E741
    U = np.uint32
    BITS = I(word.fraction_bits)
    SIGN = I(word.sign_bit)
    INFINITY, NAN, MIN_NORMAL = I(word.infinity), I(word.nan), I(word.min_normal)
    ZERO, ONE, HALF = I(0), I(1), F(0.5)
    PER_LINE = 64 // np.dtype(real).itemsize
    M1, M2, S15, S16 = U(MULTIPLY_1), U(MULTIPLY_2), U(15), U(16)
    scaled, even = kind != "pattern", kind == "even"
    rint_suffices = code == "nearest_even" and scaled and not no_mantissa
    adds_half = code == "nearest_even" and not scaled
    keeps_tiny = code in ("up", "down", "to_odd")  # modes that see a quotient however small
    variant = code[-1]
    step, shifted, factored = scaling == "step", scaling == "shift", scaling == "factor"

    # fmt: off
    def loop(
        x_address, out_address, blocks, length, constants, first, key_1, key_2, shifts_at, factors_at, scales_at, scale,
    ):
        # fmt: on
        use_wide_vectors()
        c, shifts = carray(pointer(constants), CONSTANTS, I), carray(pointer(shifts_at), blocks, np.int32)
        factors, scales = carray(pointer(factors_at), blocks, F), carray(pointer(scales_at), blocks, F)
        block = size if size else length
        x = carray(pointer(x_address), (blocks, block), I)
        out = carray(pointer(out_address), (blocks, block), I)
        cut, cap, least, shift, inverse, from_integer = I(c[0]), I(c[1]), I(c[2]), I(c[3]), I(c[4]), I(c[5]).view(F)
        parity, highest, lowest, above, below = I(c[6]), I(c[7]), I(c[8]), I(c[9]), I(c[10])
        infinity, minus_infinity, smallest, negative_zero = I(c[11]), I(c[12]), I(c[13]), c[14] != ZERO
        random_bits, first, key_1, key_2 = I(c[15]), U(first), U(key_1), U(key_2)
        levels = F(ONE << random_bits)
        draw_shift = U(32 - random_bits)
        unit = I(ONE << cut)  # pattern: the last bit that is kept
        odd_bit = ONE if cut > ZERO else ZERO
        half_unit, per_low_bit = I(ONE << I(max(cut - ONE, ZERO))), F(F(1) / F(unit))
        for b in range(blocks):
            if not size and blocks > 1:
                touched = ZERO
                for j in range(0, block, PER_LINE):
                    touched = I(touched | x[b, j])
                out[b, 0] = touched
            if shifted:
                up = I(I(shifts[b]) << BITS)
                block_cap, block_least = I(cap + up), I(least + up)
                high, low, over, under = I(highest + up), I(lowest + up), I(above + up), I(below + up)
            else:
                block_cap, block_least, high, low, over, under = cap, least, highest, lowest, above, below
            for j in range(block):
                bits = x[b, j]
                if step:
                    quotient = I(F(I(bits).view(F) / scale).view(I))
                    if keeps_tiny and I(quotient & ~SIGN) < smallest and I(bits & ~SIGN) != ZERO:
                        quotient = I(I(bits & SIGN) | smallest)
                    bits = quotient
                elif factored:
                    product = I(F(I(bits).view(F) * factors[b]).view(I))
                    if keeps_tiny and I(product & ~SIGN) < MIN_NORMAL and I(bits & ~SIGN) != ZERO:
                        product = I(I(bits & SIGN) | MIN_NORMAL)
                    bits = product
                magnitude = I(bits & ~SIGN)
                negative = bits < ZERO

                # split |x| into whole units of the spacing and a fraction
                if scaled:
                    capped = I(min(magnitude, block_cap))
                    exponent = block_least if even else I(max(I(capped & INFINITY), block_least))
                    spacing = I(exponent - shift)
                    units = F(I(capped).view(F) * I(inverse - spacing).view(F))
                    if magnitude < MIN_NORMAL:
                        units = F(F(magnitude) * from_integer)
                    kept = np.rint(units) if rint_suffices else np.floor(units)
                    fraction = F(units - kept)
                    tail = fraction > F(0) or (units == F(0) and magnitude != ZERO)  # the product may underflow
                    more, tie = fraction > HALF, fraction == HALF
                    odd = I(I(kept) & ONE) != ZERO
                    if no_mantissa:
                        odd = odd and I(I(I(exponent >> BITS) + parity) & ONE) != ZERO
                else:
                    spacing, kept = ZERO, F(0)
                    low_bits = I(magnitude & I(unit - ONE))
                    fraction = F(F(low_bits) * per_low_bit)
                    tail, more, tie = low_bits > ZERO, low_bits > half_unit, low_bits == half_unit
                    odd = I(magnitude & unit) != ZERO

                # decide; the same lines as rounding.rounds_away
                if rint_suffices or adds_half or code == "toward_zero":
                    away = False
                elif code == "nearest_even":
                    away = more or (tie and odd)
                elif code == "nearest_away":
                    away = more or tie
                elif code == "nearest_down":
                    away = more or (tie and negative)
                elif code == "up":
                    away = tail and not negative
                elif code == "down":
                    away = tail and negative
                elif code == "to_odd":
                    away = tail and not odd
                else:
                    h = U(U(first + U(b * block + j)) + key_1)
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
                elif adds_half:  # the carry compares: just under half a unit, and one more where the last kept bit is 1
                    carry = I(I(half_unit - ONE) + I(I(magnitude >> cut) & odd_bit))
                    result = I(I(magnitude + carry) & I(-unit))
                else:
                    result = I(I(magnitude - low_bits) + (unit if away else ZERO))
                if not plain and not step and result < smallest:
                    result = ZERO
                if result > (low if negative else high):
                    result = under if negative else over
                if not plain and magnitude == INFINITY:
                    result = minus_infinity if negative else infinity
                if magnitude > INFINITY:
                    result = NAN
                if negative and (negative_zero or result != ZERO):
                    result = I(result | SIGN)
                if step:
                    result = I(F(I(result).view(F) * scale).view(I))
                elif factored:
                    result = I(F(F(I(result).view(F) * scales[b]) * scale).view(I))
                out[b, j] = result

    return compile_loop(loop)


@cache
def largest_loop() -> Callable:
    """The loop that finds the pattern of the largest magnitude in each block; NaN exceeds infinity.

    It takes the addresses of float32 patterns and of results (int32 [blocks]), the number of blocks and their size. It
    returns the largest finite pattern. The size is an argument, not a constant: LLVM would unroll a short loop of known
    length and not vectorize it.
    """
    I, MAGNITUDE, INFINITY = np.int32, np.int32(0x7FFFFFFF), np.int32(0x7F800000)  # noqa: E741

    def loop(x_address, largest_address, blocks, size):
        x = carray(pointer(x_address), (blocks, size), I)
        largest = carray(pointer(largest_address), blocks, I)
        finite = I(0)
        for b in range(blocks):
            top = I(0)
            for j in range(size):
                top = I(max(top, I(x[b, j] & MAGNITUDE)))
            largest[b] = top
            if top < INFINITY:
                finite = I(max(finite, top))
        return finite

    return compile_loop(loop)


@cache
def target_loop() -> Callable:
    """The loop that finds what is rounded to a block's scale, as in :func:`block_rounding.rounded_scales`.

    It takes the addresses of the patterns of largest magnitudes (int32) and of results (float32), the number of blocks,
    the factor and the largest scale. Blocks with NaN or infinity get 0.
    """
    I, F, INFINITY = np.int32, np.float32, np.int32(0x7F800000)  # noqa: E741

    def loop(largest_address, target_address, blocks, factor, highest):
        largest, target = carray(pointer(largest_address), blocks, I), carray(pointer(target_address), blocks, F)
        factor, highest = F(factor), F(highest)
        for b in range(blocks):
            finite = largest[b] if largest[b] < INFINITY else I(0)
            target[b] = min(F(I(finite).view(F) * factor), highest)

    return compile_loop(loop)


@cache
def factor_loop() -> Callable:
    """The loop that finds what a block is multiplied with, as in :func:`block_rounding.rounded_scales`.

    It takes the addresses of the patterns of largest magnitudes (int32), of rounded scales and of results (float32),
    the number of blocks and the scale of the tensor. Blocks with NaN or infinity get NaN.
    """
    I, F, INFINITY = np.int32, np.float32, np.int32(0x7F800000)  # noqa: E741
    MOST, NAN = F(np.finfo(F).max), F(np.nan)

    def loop(largest_address, scale_address, factor_address, blocks, tensor_scale):
        largest, scales = carray(pointer(largest_address), blocks, I), carray(pointer(scale_address), blocks, F)
        factors, tensor_scale = carray(pointer(factor_address), blocks, F), F(tensor_scale)
        for b in range(blocks):
            inverse = F(F(1) / F(scales[b] * tensor_scale))
            factors[b] = min(inverse, MOST) if largest[b] < INFINITY else NAN

    return compile_loop(loop)


@cache
def exponent_loop() -> Callable:
    """The loop that finds the exponent of each block's power-of-two scale; 128 marks a block with NaN or infinity.

    It takes the addresses of float32 patterns and of results (int32 [blocks]), the number of blocks, their size, the
    three numbers of the scale rule, and two bounds. It returns whether an exponent lies outside these bounds.
    """
    I, MAGNITUDE = np.int32, np.int32(0x7FFFFFFF)  # noqa: E741

    def loop(x_address, exponent_address, blocks, size, add, limit, element_exponent, least, most):
        x = carray(pointer(x_address), (blocks, size), I)
        exponents = carray(pointer(exponent_address), blocks, I)
        add, limit, element_exponent = I(add), I(limit), I(element_exponent)
        outside = False
        for b in range(blocks):
            top = I(0)
            for j in range(size):
                top = I(max(top, I(x[b, j] & MAGNITUDE)))
            rounded = I(top + add)
            exponent = (rounded >> 23) - 127 - element_exponent
            if (rounded & 0x7FFFFF) > limit:
                exponent += 1
            exponent = min(max(exponent, -127), 127)
            if top == 0:
                exponent = 0  # the scale of a block of zeros does not matter
            elif top >= 0x7F800000:
                exponent = 128
            exponents[b] = exponent
            outside = outside or exponent < least or exponent > most
        return outside

    return compile_loop(loop)


@cache
def lookup_loop() -> Callable:
    """The loop that looks results up by the upper bits of a float32 pattern; the lower bits decide between two.

    It takes the addresses of the patterns and of the results, and how many there are.
    """
    I, U = np.int32, np.uint32  # unsigned: an index needs no check for being negative  # noqa: E741

    def loop(x_address, out_address, count, low_bits, cuts, results):
        x, out = carray(pointer(x_address), count, I), carray(pointer(out_address), count, I)
        mask = U(U(U(1) << low_bits) - U(1))
        for i in range(count):
            bits = U(x[i])
            bucket = U(bits >> low_bits)
            past = U(bits & mask) >= cuts[bucket]
            out[i] = results[U(U(bucket << U(1)) + U(past))]

    return compile_loop(loop)


@cache
def comparison_loop(comparisons: int) -> Callable:
    """The loop that adds ``rises[k]`` for each of the few ``cuts[k]`` that a magnitude has reached.

    It takes the addresses of float32 patterns and of results, their number, and two tuples of int32 [comparisons].
    """
    I = np.int32  # noqa: E741
    MAGNITUDE, INFINITY, NAN, ZERO = I(0x7FFFFFFF), I(0x7F800000), I(0x7FC00000), I(0)

    def loop(x_address, out_address, count, cuts, rises, negative_zero):
        x, out = carray(pointer(x_address), count, I), carray(pointer(out_address), count, I)
        for i in range(count):
            magnitude = I(x[i] & MAGNITUDE)
            result = ZERO
            for k in range(comparisons):
                result = I(result + (rises[k] if magnitude >= cuts[k] else ZERO))
            if magnitude > INFINITY:
                result = NAN
            out[i] = I(result | I(x[i] & ~MAGNITUDE)) if negative_zero or result != ZERO else ZERO

    return compile_loop(loop)
