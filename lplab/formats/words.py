"""Each rounding rule once: functions of bit patterns, which numpy, torch, numba and Triton all take as they are.

A word is float32 or float64. A function here takes the pattern of one number, or an array of patterns, and gives
patterns. It has no loop over numbers and no branch on them. Names in capital letters and a few functions come from the
namespace that :func:`bound` puts under the code:

=======================================  =============================================================================
as_real, as_bits                         a pattern as the number, and the reverse
to_real                                  the number that equals an integer
where, minimum, maximum, floor, rint     as in numpy; the second argument of ``minimum`` and ``maximum`` may be constant
divide                                   a single division
unrolled                                 ``range``, for a loop whose length the compiler knows
apart, together                          neighbours so many places apart, as two arrays; and the reverse
SIGN, MAGNITUDE, INFINITY, NAN           patterns: −0, all bits but the sign, infinity, a quiet NaN
FRACTION, BIAS, MIN_NORMAL, HIDDEN       width of the fraction field, exponent bias, patterns of the smallest normal
                                         number and of the step from a spacing to the first number that has it
=======================================  =============================================================================

Other capital names are *flags*: decided when the loop is made, so that no compiler sees the branches not taken
(``FLAGS`` lists them). Arguments that are called constants are integers of the width of the word: patterns, widths and
exponents; ``lplab.formats.paths.grid_rules`` finds them for a format and a rounding.

Two habits keep the text fit for all compilers. Where a number meets a constant, the number stands first
(``-e + BIAS``). No value is an unsigned word. No step depends on whether the processor flushes subnormal numbers: their
patterns are converted as integers.
"""

# mypy: ignore-errors
# ruff: noqa: F821
# (names come from the namespace; the tests compare every bit)

from types import FunctionType

FLAGS = {
    "AWAY": False,  # ties go away from zero, not to even
    "IN_RANGE": False,  # no sum is subnormal, too large, infinite or NaN
    "PATTERN": False,  # the lowest binade of the grid is that of the word, as bfloat16's is in float32
    "SATURATES": False,  # what is too large becomes the largest number, infinity too, and nothing is flushed
    "ONE_SPACING": False,  # all numbers of the grid have the same spacing
    "NO_MANTISSA": False,  # the last bit of a code is that of the exponent field
    "PLAIN": False,  # nothing is flushed, and infinity becomes what overflow becomes
    "CODE": "nearest_even",  # Rounding.code
    "COMPARISONS": 0,  # magnitudes of a small table
    "ROUNDS": 0,  # of sums and differences in a Hadamard transform: log2 of its size
}


def bound(namespace, compiled=lambda function: function, functions=None):
    """The functions of this module over a namespace; it is changed, and holds them in the end.

    Args:
        namespace: the names that the module's docstring lists, and flags (those left out are as in ``FLAGS``).
        compiled: what a compiler makes of each function before the others see it.
        functions: which functions, by name; those of this module, unless others are given.

    Returns:
        The namespace.
    """
    namespace.update(FLAGS | {"__builtins__": __builtins__} | namespace)
    for name, function in (functions or {name: globals()[name] for name in WORDS}).items():
        namespace[name] = compiled(FunctionType(function.__code__, namespace, name))
    return namespace


# ---- rounding to a grid ----------------------------------------------------------------------------------------------


def nearest(bits, cut, cap, least, shift, highest, above, smallest, negative_zero):
    """Round to the nearest number of a symmetric grid, in a dozen instructions.

    A number so large that its spacing is that of the grid is added and subtracted again: the addition rounds, ties to
    even. On a grid with the word's own lowest binade the carry of an integer addition rounds.

    Args:
        bits: patterns.
        cut: how many low bits go (PATTERN).
        cap: pattern to which larger magnitudes are cut: so large that it still overflows.
        least: pattern of the power of two below which the spacing stays.
        shift: from a pattern of a power of two to that of its spacing: subtract.
        highest: pattern of the largest number.
        above: pattern of what larger numbers become.
        smallest: pattern below which results become zero.
        negative_zero: whether −0 exists: 1 or 0.
    """
    magnitude = bits & MAGNITUDE
    if PATTERN:
        unit = 1 << cut
        if AWAY:
            rounded = (magnitude + (unit >> 1)) & -unit
        else:
            rounded = (magnitude + (((magnitude >> cut) & 1) + ((unit >> 1) - 1))) & -unit
    else:
        capped = minimum(magnitude, highest if SATURATES else cap)
        spacing = maximum(capped & INFINITY, least) - shift
        huge = as_real(spacing + HIDDEN)
        even = (as_real(capped) + huge) - huge
        if AWAY:  # the addition may have rounded a tie down
            tie = (as_real(capped) - even) == as_real(spacing - MIN_NORMAL)
            rounded = as_bits(where(tie, even + as_real(spacing), even))
        else:
            rounded = as_bits(even)
    if not SATURATES:
        rounded = where(rounded < smallest, 0, rounded)
        rounded = where(rounded > highest, above, rounded)
    return with_sign(where(magnitude > INFINITY, NAN, rounded), bits, negative_zero)


def nearest_sum(bits, cut, push, least, highest, lowest, above, below, smallest, kept_sign):
    """Round a sum to the nearest number of a grid, in fewer instructions than :func:`nearest`.

    No sum may be so large that ``push`` leads out of the word, infinity apart; infinity counts as too large. NaN stays.

    Args:
        bits: patterns.
        cut: how many low bits go (IN_RANGE).
        push: from a pattern of a power of two to that of 1.5 times the number that is added and subtracted.
        least: pattern of the power of two below which the spacing stays.
        highest, lowest: patterns of the bounds, with their signs.
        above, below: patterns of what numbers beyond the bounds become.
        smallest: pattern below which magnitudes become zero.
        kept_sign: SIGN where −0 exists, else 0.
    """
    if IN_RANGE and AWAY:
        unit = 1 << cut
        return (bits + (unit >> 1)) & -unit
    if IN_RANGE:
        huge = as_real((bits & INFINITY) + push)
        return as_bits((as_real(bits) + huge) - huge)
    # A tie ends in zeros. With its last bit set it is more than a tie and goes away from zero; infinity would be NaN.
    pushed = where((bits & MAGNITUDE) == INFINITY, bits, bits | 1) if AWAY else bits
    huge = as_real(maximum(bits & INFINITY, least) + push)
    near = (as_real(pushed) + huge) - huge
    flushed = (as_bits(near) & MAGNITUDE) < smallest
    near = where(near > as_real(highest), as_real(above), near)
    near = where(near < as_real(lowest), as_real(below), near)
    return where(flushed, 0, as_bits(near)) | (bits & kept_sign)


def general(
    bits, draw, cut, cap, least, shift, inverse, from_integer, parity, highest, lowest, above, below,
    infinity, minus_infinity, smallest, negative_zero, levels,
):  # fmt: skip
    """Round to a grid in any mode: split |x| into whole units of the spacing and a fraction, which decides.

    Args:
        bits: patterns.
        draw: for stochastic rounding, the random integer of each number; else not used.
        cut, cap, least, shift, smallest, negative_zero: as for :func:`nearest`.
        inverse: pattern from which a spacing's pattern is subtracted to give that of its inverse.
        from_integer: pattern of the number that turns low bits into a fraction (PATTERN), or the pattern of a
            subnormal number, as an integer, into units of the lowest spacing.
        parity: what turns the exponent field of the word into that of the format, for its last bit (NO_MANTISSA).
        highest, lowest: patterns of the bounds, without sign.
        above, below: patterns of what finite numbers beyond the bounds become.
        infinity, minus_infinity: patterns of what infinity becomes.
        levels: pattern of the number of different draws.
    """
    magnitude = bits & MAGNITUDE
    if PATTERN:
        unit = 1 << cut
        low = magnitude & (unit - 1)
        down = magnitude - low
        away = rounds_away(bits, to_real(low) * as_real(from_integer), low > 0, magnitude & unit, draw, levels)
        result = where(away, down + unit, down)
    else:
        capped = minimum(magnitude, cap)
        exponent = maximum(capped & 0 if ONE_SPACING else capped & INFINITY, least)
        spacing = exponent - shift
        units = as_real(capped) * as_real(-spacing + inverse)
        units = where(magnitude < MIN_NORMAL, to_real(magnitude) * as_real(from_integer), units)
        kept = floor(units)
        fraction = units - kept
        tail = (fraction > 0) | ((units == 0) & (magnitude != 0))  # the product may underflow
        odd = kept - 2.0 * floor(kept * 0.5)
        if NO_MANTISSA:
            odd = where((((exponent >> FRACTION) + parity) & 1) != 0, odd, 0.0)
        kept = where(rounds_away(bits, fraction, tail, odd, draw, levels), kept + 1.0, kept)
        result = as_bits(kept * as_real(spacing))
    if not PLAIN:
        result = where(result < smallest, 0, result)
    result = where(result > where(bits < 0, lowest, highest), where(bits < 0, below, above), result)
    if not PLAIN:
        result = where(magnitude == INFINITY, where(bits < 0, minus_infinity, infinity), result)
    return with_sign(where(magnitude > INFINITY, NAN, result), bits, negative_zero)


def rounds_away(bits, fraction, tail, odd, draw, levels):
    """Whether to go one unit away from zero, in the mode CODE: see :func:`lplab.formats.rounding.rounds_away`.

    Args:
        bits: patterns, for the sign.
        fraction: numbers in [0, 1): what is cut off, in units of the spacing.
        tail: whether anything is cut off, even if ``fraction`` has underflowed.
        odd: not zero where the code of the neighbour nearer to zero is odd.
        draw, levels: as for :func:`general`.
    """
    if CODE == "nearest_even":
        away = (fraction > 0.5) | ((fraction == 0.5) & (odd != 0))
    elif CODE == "nearest_away":
        away = fraction >= 0.5
    elif CODE == "nearest_down":
        away = (fraction > 0.5) | ((fraction == 0.5) & (bits < 0))
    elif CODE == "toward_zero":
        away = fraction < 0  # never
    elif CODE == "up":
        away = tail & (bits >= 0)
    elif CODE == "down":
        away = tail & (bits < 0)
    elif CODE == "to_odd":
        away = tail & (odd == 0)
    else:
        steps = fraction * as_real(levels)
        if CODE == "stochastic_A":
            steps = floor(steps)
        elif CODE == "stochastic_B":
            steps = where(steps - floor(steps) >= 0.5, floor(steps) + 1.0, floor(steps))
        else:
            steps = rint(steps)
        away = steps >= -to_real(draw) + as_real(levels)
    return away


def with_sign(result, bits, negative_zero):
    """Magnitudes with the signs of ``bits``; zeros keep them only where −0 exists (``negative_zero`` is not 0)."""
    signed = result | (bits & SIGN)
    return where(negative_zero != 0, signed, where(result != 0, signed, 0))


def nearest_in_block(bits, exponent, cut, cap, least, shift, highest, above, smallest, negative_zero):
    """Round as :func:`nearest`, on the grid whose numbers are 2 to the power of ``exponent`` as large."""
    up = exponent << FRACTION
    return nearest(bits, cut, up + cap, up + least, shift, up + highest, up + above, smallest, negative_zero)


def evenly_spaced_in_block(bits, exponent, low, high, huge):
    """Round as :func:`evenly_spaced`, on the grid whose numbers are 2 to the power of ``exponent`` as large."""
    up = exponent << FRACTION
    return evenly_spaced(bits, up + low, up + high, up + huge)


def general_in_block(
    bits, draw, exponent, cut, cap, least, shift, inverse, from_integer, parity, highest, lowest, above, below,
    infinity, minus_infinity, smallest, negative_zero, levels,
):  # fmt: skip
    """Round as :func:`general`, on a PLAIN grid whose numbers are 2 to the power of ``exponent`` as large."""
    up = exponent << FRACTION
    return general(
        bits, draw, cut, up + cap, up + least, shift, inverse, from_integer, parity, up + highest, up + lowest,
        up + above, up + below, infinity, minus_infinity, smallest, negative_zero, levels,
    )  # fmt: skip


# ---- evenly spaced numbers, and steps --------------------------------------------------------------------------------


def evenly_spaced(bits, low, high, huge):
    """Round to the nearest of evenly spaced numbers between two bounds, ties to even; zeros have no sign.

    Args:
        bits: patterns.
        low, high: patterns of the bounds.
        huge: pattern of 1.5 times the number that is added and subtracted: in the middle of an octave, for both signs.
    """
    value = as_real(bits)
    bounded = minimum(maximum(value, as_real(low)), as_real(high))
    whole = (bounded + as_real(huge)) - as_real(huge)
    return where(value == value, as_bits(whole), NAN | (bits & SIGN))


def divided(bits, divisor, least):
    """The quotient, a single division, for the mode CODE: see :func:`visible`."""
    return visible(as_bits(divide(as_real(bits), as_real(divisor))), bits, least)


def multiplied(bits, factor):
    """The product, a single multiplication."""
    return as_bits(as_real(bits) * as_real(factor))


def visible(result, bits, least):
    """``bits``, but at least the pattern ``least`` where ``bits`` is not zero, if the mode CODE asks for that.

    A product or quotient may underflow. Modes that are not named here round zero and what is nearly zero alike.
    """
    if CODE == "up" or CODE == "down" or CODE == "to_odd":
        lost = ((result & MAGNITUDE) < least) & ((bits & MAGNITUDE) != 0)
        return where(lost, (bits & SIGN) | least, result)
    return result


# ---- small tables ----------------------------------------------------------------------------------------------------


def power(bits, least, top, lead, mask, negative_zero):
    """Round to magnitudes that grow by one factor, a power of two, such as 4 in radix-4 FP4.

    The exponent field alone decides, once the pattern of |x| has been moved by what lies between a threshold and the
    magnitude above it.

    Args:
        bits: patterns.
        least: pattern of the least magnitude.
        top: from there to the pattern of the largest one.
        lead: what is added to a pattern: it becomes 0 at the threshold below the least magnitude.
        mask: keeps whole distances between magnitudes.
        negative_zero: as for :func:`nearest`.
    """
    magnitude = bits & MAGNITUDE
    above = minimum(magnitude, INFINITY) + lead
    rounded = where(above >= 0, minimum(above & mask, top) + least, 0)
    return with_sign(where(magnitude > INFINITY, NAN, rounded), bits, negative_zero)


def compared(bits, negative_zero, steps):
    """Round to few magnitudes: for each of the thresholds that |x| has reached, the result rises.

    Args:
        bits: patterns.
        negative_zero: as for :func:`nearest`.
        steps: a tuple: for each of COMPARISONS thresholds its pattern, and by what the result rises.
    """
    magnitude = bits & MAGNITUDE
    result = magnitude & 0
    for k in unrolled(COMPARISONS):
        result = where(magnitude >= steps[2 * k], result + steps[2 * k + 1], result)
    return with_sign(where(magnitude > INFINITY, NAN, result), bits, negative_zero)


# ---- scales of blocks ------------------------------------------------------------------------------------------------


def block_exponent(largest, add, limit, element_exponent):
    """The exponent of a block's power-of-two scale, from the pattern of its largest magnitude.

    The three constants make the rules of ``lplab.formats.SCALE_RULES`` out of one text.

    Args:
        largest: patterns, finite and not negative.
        add: what rounds the largest magnitude (rule "even").
        limit: fraction field above which the exponent is one more.
        element_exponent: exponent of the largest element.
    """
    rounded = largest + add
    exponent = (rounded >> FRACTION) - BIAS - element_exponent
    exponent = where((rounded & (MIN_NORMAL - 1)) > limit, exponent + 1, exponent)
    return minimum(maximum(exponent, -127), 127)


def tensor_scales(largest, top):
    """Patterns of the scale that a tensor is multiplied with and of its inverse; of one for a tensor of zeros.

    Args:
        largest: pattern of the largest finite magnitude of the tensor.
        top: pattern of what it becomes: the largest scale times the largest element.
    """
    factor = minimum(divide(as_real(top), as_real(largest)), as_real(INFINITY - 1))
    factor = where(largest > 0, factor, 1.0)
    return as_bits(factor), as_bits(divide(1.0, factor))


def scale_target(largest, per_element, highest):
    """The pattern of what is rounded to a block's scale; 0 for a block with NaN or infinity.

    Args:
        largest: patterns of the largest magnitudes of blocks.
        per_element: pattern of the scale of the tensor over the largest element.
        highest: pattern of the largest scale.
    """
    finite = where(largest < INFINITY, largest, 0)
    return as_bits(minimum(as_real(finite) * as_real(per_element), as_real(highest)))


def block_factor(largest, scale, tensor_scale):
    """The pattern of what a block is multiplied with before rounding; NaN for a block with NaN or infinity.

    Args:
        largest: patterns of the largest magnitudes of blocks.
        scale: patterns of the rounded scales.
        tensor_scale: pattern of the scale of the tensor.
    """
    inverse = divide(1.0, as_real(scale) * as_real(tensor_scale))
    return where(largest < INFINITY, as_bits(minimum(inverse, as_real(INFINITY - 1))), NAN)


# ---- the transform of neighbours before they are rounded -------------------------------------------------------------


def hadamard(numbers, factor):
    """The Hadamard transform of 2^ROUNDS neighbours, for numbers instead of patterns.

    Each round has sums and differences of numbers that are 1, 2, 4, … places apart: the order of additions decides how
    they are rounded.

    Args:
        numbers: not yet multiplied by the signs of the transform, or already.
        factor: 1 / √(2^ROUNDS).
    """
    for k in unrolled(ROUNDS):
        first, second = apart(numbers, 1 << k)
        numbers = together(first + second, first - second, 1 << k)
    return numbers * factor


# ---- the random bits of stochastic rounding --------------------------------------------------------------------------


def random_bits(index, key_1, key_2, shift, mask):
    """The random integers of elements: the hash of :mod:`lplab.formats.counter_rng`, on 32 bits in every word.

    Args:
        index: int32: number of the element, its low 32 bits.
        key_1, key_2: int32: the keys of the seed.
        shift: 32 less the number of random bits.
        mask: 2 to the power of the number of random bits, less 1.
    """
    h = index + key_1
    h = (h ^ ((h >> 16) & 0xFFFF)) * MULTIPLY_1
    h = (h ^ ((h >> 15) & 0x1FFFF)) + key_2
    h = h * MULTIPLY_2
    return ((h ^ ((h >> 16) & 0xFFFF)) >> shift) & mask


WORDS = (
    "with_sign",
    "rounds_away",
    "nearest",
    "nearest_sum",
    "general",
    "evenly_spaced",
    "nearest_in_block",
    "evenly_spaced_in_block",
    "general_in_block",
    "visible",
    "divided",
    "multiplied",
    "power",
    "compared",
    "block_exponent",
    "tensor_scales",
    "scale_target",
    "block_factor",
    "hadamard",
    "random_bits",
)
"""The functions that :func:`bound` binds: each after those that it calls."""
