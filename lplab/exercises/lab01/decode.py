"""Exercise 01.1: decode the bits of a number."""

from __future__ import annotations

import math
from typing import Any

from lplab.exercises.model.exercise import Example, Exercise, mistake
from lplab.exercises.model.forms import Number


def decode(code, exponent_bits, mantissa_bits, bias):
    """Value of an IEEE code; with 4, 3 and bias 7, 0b0_0111_100 is 1.5."""
    field = (code >> mantissa_bits) & (2**exponent_bits - 1)
    fraction = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    if field == 2**exponent_bits - 1:
        return math.nan if fraction else sign * math.inf
    if field == 0:
        return sign * fraction * 2.0 ** (1 - bias)
    return sign * (1 + fraction) * 2.0 ** (field - bias)


SPLITS = ((4, 3, 7), (5, 2, 15), (3, 4, 3), (2, 1, 1), (4, 3, 11), (3, 2, 3))  # exponent bits, mantissa bits, bias


def show_code(args: Any) -> str:
    """The arguments of ``decode``, the code in bits."""
    code, exponent_bits, mantissa_bits, bias = args
    text = f"{code:0{1 + exponent_bits + mantissa_bits}b}"
    fields = f"{text[0]} {text[1 : 1 + exponent_bits]} {text[1 + exponent_bits :]}"
    return f"code = {code} (bits {fields}), exponent_bits = {exponent_bits}, mantissa_bits = {mantissa_bits}, bias = {bias}"


def kind_of_code(args: Any) -> str:
    """Which of the four kinds of code this is."""
    code, exponent_bits, mantissa_bits, _ = args
    field = (code >> mantissa_bits) % 2**exponent_bits
    if field == 2**exponent_bits - 1:
        return "NaNs" if code % 2**mantissa_bits else "infinities"
    if field == 0:
        return "subnormal values" if code % 2**mantissa_bits else "zeros"
    return "negative values" if code >> (exponent_bits + mantissa_bits) else "normal values"


CODE_REASONS = {
    "NaNs": "The exponent field is all ones and the mantissa is not zero: not a number.",
    "infinities": "The exponent field is all ones and the mantissa is zero: infinity, with its sign.",
    "subnormal values": "The exponent field is 0: there is no leading 1, and the exponent is 1 − bias, the same as for field 1.",
    "zeros": "All bits but the sign are 0: zero, with its sign.",
    "negative values": "The leading bit is the sign.",
    "normal values": "An ordinary number: a leading 1, the mantissa behind the point, the exponent field less the bias.",
}

DECODE = Exercise(
    id="01.1",
    version=1,
    title="Decode",
    goal="Goal 1: decode any floating-point number",
    minutes=15,
    difficulty=1,
    statement=r"""
        Write `decode(code, exponent_bits, mantissa_bits, bias)`. It returns the value of a code as IEEE 754 reads it, for any split of the bits. `code` is an integer. Its highest bit is the sign, then comes the exponent field $e$, then the mantissa field $f$.

        - The formula above holds for the ordinary codes.
        - If the exponent field is all zeros, the code is zero or subnormal, $2^{1-\text{bias}}\cdot f/2^m$.
        - If the exponent field is all ones, the code is infinity where $f=0$, and NaN where $f\neq0$.

        Zero and infinity have signs, too. `math.copysign(a, b)` gives `a` the sign of `b`, also where `a` is 0.
    """,
    stub='''
        import math


        def decode(code, exponent_bits, mantissa_bits, bias):
            """Value of an IEEE code; with 4, 3 and bias 7, 0b0_0111_100 is 1.5."""
            raise NotImplementedError
    ''',
    reference=decode,
    form=Number(),
    examples=(
        Example((0b0_0111_000, 4, 3, 7), "The exponent field equals the bias and the mantissa is 0: this is 1."),
        Example((0b0_0111_100, 4, 3, 7), "The highest mantissa bit is worth one half: 1.5."),
        Example((0b1_1000_010, 4, 3, 7), "The sign is 1, the exponent 1, the mantissa 2/8: −1.25 × 2."),
        Example((0b0_0000_001, 4, 3, 7), "The smallest subnormal: no leading 1, one eighth of 2⁻⁶."),
        Example((0b0_0001_000, 4, 3, 7), "The smallest normal number, 2⁻⁶: the subnormals end just below it, in equal steps."),
        Example((0b0_11110_11, 5, 2, 15), "The largest finite number of E5M2: 1.75 × 2¹⁵."),
        Example((0b1_11111_00, 5, 2, 15), CODE_REASONS["infinities"]),
        Example((0b0_11111_10, 5, 2, 15), CODE_REASONS["NaNs"]),
    ),
    boundary=lambda: [(code, e, m, bias) for e, m, bias in SPLITS for code in range(2 ** (1 + e + m))],
    show=show_code,
    kind=kind_of_code,
    why=lambda args, expected: CODE_REASONS[kind_of_code(args)],
    mistakes=(
        mistake("every code has a leading 1, also the subnormals", "    if field == 0:\n        return sign * fraction * 2.0 ** (1 - bias)\n", ""),
        mistake("the formula of the ordinary codes is used for all codes", "    if field == 2**exponent_bits - 1:\n        return math.nan if fraction else sign * math.inf\n    if field == 0:\n        return sign * fraction * 2.0 ** (1 - bias)\n", ""),
        mistake("subnormals have the exponent −bias instead of 1 − bias", "2.0 ** (1 - bias)", "2.0 ** (-bias)"),
        mistake("subnormals are zero", "sign * fraction * 2.0 ** (1 - bias)", "sign * 0.0"),
        mistake("the bias is one too large", "(field - bias)", "(field - bias - 1)"),
        mistake("the bias is added", "(field - bias)", "(field + bias)"),
        mistake("the bias is always 2^(e−1) − 1, whatever is asked for", "    field =", "    bias = 2 ** (exponent_bits - 1) - 1\n    field ="),
        mistake("the sign is ignored", "-1.0 if", "1.0 if"),
        mistake("−0 becomes 0, as it does where −1 is multiplied by the integer 0", "return sign * fraction *", "return 0.0 if fraction == 0 else sign * fraction *"),
        mistake("infinity has no sign", "sign * math.inf", "math.inf"),
        mistake("the exponent field of all ones is an ordinary one", "    if field == 2**exponent_bits - 1:\n        return math.nan if fraction else sign * math.inf\n", ""),
        mistake("every code with an exponent field of all ones is NaN", "math.nan if fraction else sign * math.inf", "math.nan"),
        mistake("every code with an exponent field of all ones is infinite", "math.nan if fraction else sign * math.inf", "sign * math.inf"),
        mistake("only the last code is NaN, as in E4M3", "math.nan if fraction else sign * math.inf", "math.nan if fraction == 1 - 2.0**-mantissa_bits else sign * (1 + fraction) * 2.0 ** (field - bias)"),
        mistake("the mantissa is read as an integer, not as a fraction", "/ 2**mantissa_bits", "/ 1"),
        mistake("the exponent field is read as two's complement", "(field - bias)", "(field - 2**exponent_bits if field >= 2 ** (exponent_bits - 1) else field)"),
    ),
    hints=(
        "Look at the smallest code that is missed and at its exponent field: all zeros, all ones, or between? Each of the three is read by a rule of its own.",
        "Cut the code into three integers first: `code >> mantissa_bits` drops the mantissa; `& (2**exponent_bits - 1)` keeps the exponent field. Then the cases: `field == 0`, `field == 2**exponent_bits - 1`, all others.",
        "What does each case do with f/2**m? In the ordinary codes a 1 is added to it; which code of E4M3 is 1.5? With a field of 0 nothing is added, and the exponent is that of field 1, so that 0.875 × 2^(1 − bias) is followed by 1 × 2^(1 − bias). With a field of ones only one question is left: is f 0?",
    ),
)
