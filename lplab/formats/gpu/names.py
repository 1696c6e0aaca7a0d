"""What word functions call, in Triton: small functions, as its interpreter changes ``tl`` inside functions alone."""

# mypy: ignore-errors
# ruff: noqa: F821, D103
# (REAL, INTEGER and TO_WHOLE, the number from which on all are whole, come from the namespace of the word)

import triton.language as tl


def as_real(bits):
    return bits.to(REAL, bitcast=True)


def as_bits(real):
    return real.to(INTEGER, bitcast=True)


def to_real(integer):
    return integer.to(REAL)


def where(condition, first, second):
    return tl.where(condition, first, second)


def minimum(first, second):
    return tl.where(first < second, first, second)


def maximum(first, second):
    return tl.where(first > second, first, second)


def floor(real):
    return tl.floor(real)


def rint(real):
    """Of numbers that are not negative."""
    return tl.where(real < TO_WHOLE, (real + TO_WHOLE) - TO_WHOLE, real)


def divide(first, second):
    return tl.div_rn(first, second)  # Triton's / is an approximation


KERNELS = ("as_real", "as_bits", "to_real", "where", "minimum", "maximum", "floor", "rint", "divide")
