"""What an accumulator does with one number, in one text for arrays of numpy and torch, for numba and for Triton.

The functions take numbers or arrays of them. A function is bound to a compiler as those of :mod:`lplab.formats.words`
are: its names in capital letters and the functions that it does not define come from a namespace. Beside the names that
are explained there, these are

===================  ================================================================================================
rounded              (numbers, draws, constants) → the numbers rounded to the format of the register
round_product        the same for products
TOP_BIT              the number of the sign bit: 31 or 63
EXACT_SUMS           flag: whether what the addition of the word loses is recovered
ROUNDS_PRODUCTS      flag: whether products are rounded
===================  ================================================================================================

Draws are the random integers of stochastic rounding. Constants are whatever ``rounded`` needs to know of a format.
"""

# mypy: ignore-errors
# ruff: noqa: F821
# (names come from the namespace; the tests compare every bit)

from __future__ import annotations


def add_to_odd(total, summand):
    """The sum rounded to odd: exact, or the one of its two neighbours in the word whose last bit is odd.

    What the addition loses is recovered (Knuth's two-sum). A later rounding to fewer bits gives the same from this sum
    as from the exact one (Boldo, Melquiond 2008).
    """
    near = total + summand
    virtual = near - total
    lost = (total - (near - virtual)) + (summand - virtual)  # NaN next to infinity: neither comparison holds
    bits = as_bits(near)
    back = (bits ^ as_bits(lost)) >> TOP_BIT  # −1 where the sum was rounded away from zero
    return as_real(where((lost > 0) | (lost < 0), (bits + back) | 1, bits))


def add_rounded(total, summand, draw, constants):
    """The sum of a register and a number, rounded once."""
    return rounded(add_to_odd(total, summand) if EXACT_SUMS else total + summand, draw, constants)


def accumulate(total, x, y, draw, constants, product_draw, product_constants):
    """The register after the product x · y has been added."""
    product = round_product(x * y, product_draw, product_constants) if ROUNDS_PRODUCTS else x * y
    return add_rounded(total, product, draw, constants)


def compensate(total, lost, x, draw_1, draw_2, draw_3, draw_4, constants):
    """Both registers of Kahan's sum, the total and what it has lost so far, after x has been added."""
    summand = add_rounded(x, -lost, draw_1, constants)
    after = add_rounded(total, summand, draw_2, constants)
    gained = add_rounded(after, -total, draw_3, constants)
    return after, add_rounded(gained, -summand, draw_4, constants)


def last_bit(magnitude):
    """The exponents of numbers that are neither zero nor special, and the zeros at the end of their fraction fields.

    Args:
        magnitude: patterns without sign; subnormal numbers have the exponent of the smallest normal one.
    """
    exponent = maximum((magnitude >> FRACTION) - BIAS, -BIAS + 1)
    hidden = where(magnitude >= MIN_NORMAL, MIN_NORMAL, 0)
    significand = (magnitude & (MIN_NORMAL - 1)) | hidden
    lowest = as_bits(to_real(significand & -significand))  # its exponent is the number of zeros
    return exponent, (lowest >> FRACTION) - BIAS


WORDS = ("add_to_odd", "add_rounded", "accumulate", "compensate", "last_bit")
