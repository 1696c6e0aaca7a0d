"""What word functions call, in Triton: small functions, as its interpreter changes ``tl`` inside functions alone."""

# mypy: ignore-errors
# ruff: noqa: F821
# (REAL, INTEGER and TO_WHOLE, the number from which on all are whole, come from the namespace of the word)

import triton.language as tl


def as_real(bits):
    """The numbers with these patterns."""
    return tl.cast(bits, INTEGER).to(REAL, bitcast=True)  # a constant has no method


def as_bits(real):
    """The patterns of numbers."""
    return real.to(INTEGER, bitcast=True)


def to_real(integer):
    """The numbers that equal integers."""
    return integer.to(REAL)


def where(condition, first, second):
    """The first where the condition holds, else the second."""
    return tl.where(condition, first, second)


def minimum(first, second):
    """The smaller one."""
    return tl.where(first < second, first, second)


def maximum(first, second):
    """The larger one."""
    return tl.where(first > second, first, second)


def floor(real):
    """The largest whole number that is not larger."""
    return tl.floor(real)


def rint(real):
    """The nearest whole number, ties to even; of a number that is not negative."""
    return tl.where(real < TO_WHOLE, (real + TO_WHOLE) - TO_WHOLE, real)


def divide(first, second):
    """The quotient, rounded to nearest even: Triton's ``/`` is an approximation in float32, and exact in float64."""
    return first / second if REAL == tl.float64 else tl.div_rn(first, second)  # noqa: SIM300


def apart(numbers, half):
    """The numbers of [rows, size] that are ``half`` places apart, as two tiles [rows, size / (2 · half), half]."""
    pairs = tl.reshape(numbers, (numbers.shape[0], numbers.shape[1] // (2 * half), 2, half))
    return tl.split(tl.permute(pairs, (0, 1, 3, 2)))


def together(first, second, half):
    """The reverse of :func:`apart`."""
    pairs = tl.permute(tl.join(first, second), (0, 1, 3, 2))
    return tl.reshape(pairs, (first.shape[0], first.shape[1] * 2 * half))


def abs(real):
    """Numbers without their signs."""
    return tl.abs(real)
