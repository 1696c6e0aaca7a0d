"""Exercise 07.1: radix-4 rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab import formats as F
from lplab.exercises.checks.numbers import decimal
from lplab.exercises.lab07.phases import THRESHOLDS, VALUES, agrees_with_the_library, spread
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake, wrong
from lplab.exercises.model.forms import SameShape


def radix4(x):
    """Every element of x in the even phase of radix-4 FP4: 0 or a power of four from 1/64 to 64, with its sign."""
    saturated = np.clip(x, -64, 64)
    exponent = (np.frexp(1.6 * saturated)[1] - 1) // 2
    return np.where((exponent < -3) | (x == 0), 0.0, np.copysign(4.0**exponent, x))


CLIP, STEP, SIZE = "np.clip(x, -64, 64)", "(np.frexp(1.6 * saturated)[1] - 1) // 2", "4.0**exponent"
LOGARITHM = "a logarithm, which rounds the last step to a threshold away"
ZERO, SIGN = "(exponent < -3) | (x == 0)", "np.copysign(4.0**exponent, x)"
TOP = float(np.finfo(np.float64).max)  # 1.6 times this is infinite


def cases() -> list[Args]:
    """All values, thresholds, other midpoints and neighbours of each, both signs, and far beyond both ends."""
    points = np.concatenate([VALUES, THRESHOLDS, VALUES * 2, VALUES / 2, VALUES * 1.6]).astype(np.float32)
    points = np.concatenate([points, *(np.nextafter(points, np.float32(end)) for end in (0, np.inf))]).astype(np.float64)
    beyond = np.array([0.0, 1e-30, 1e-6, 65.0, 100.0, 1e6, 1e30, TOP])
    points = np.unique(np.concatenate([points, beyond]))
    return [(points,), (-points,)]


def closest() -> list[Args]:
    """The float64 next to each threshold, below and above."""
    return [(np.nextafter(THRESHOLDS, end),) for end in (0.0, np.inf)]


def no_step_is_lost(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether numbers that no eye can tell from a threshold fall on their own side of it."""
    sides = (np.array([0.0, *VALUES[:-1]]), VALUES)
    for (x,), yours, expected in zip(calls, results, sides, strict=True):
        wrong = np.flatnonzero(np.asarray(yours, np.float64) != expected)
        if wrong.size:
            i = int(wrong[0])
            numbers = [decimal(float(each)) for each in (x[i], THRESHOLDS[i], np.asarray(yours)[i], expected[i])]
            text = "{} is one rounding step from the threshold {}: yours is {}, expected {}".format(*numbers)
            return Finding(f"{text}. A logarithm rounds the step away.", (x[i : i + 1],), yours, LOGARITHM)
    return None


def kind(args: Args) -> str:
    """What kind of case an element is."""
    size = abs(args[0])
    if size in THRESHOLDS:
        return "ties"
    if size > 64:
        return "values beyond the largest number"
    if size < THRESHOLDS[0]:
        return "values below the smallest threshold"
    return "numbers of the format itself" if size in VALUES else ""


def why(args: Args, expected: float) -> str:
    """Between which values an element lies, and where the threshold is."""
    size = abs(args[0])
    if size > 64:
        overflow = " 1.6·x would be more than float64 can hold, and overflows to ∞."
        return f"Nothing lies beyond 64.{overflow if size > TOP / 1.6 else ''}"
    if size < THRESHOLDS[0]:
        return "Below 4⁻³/1.6 = 0.009765625 everything becomes 0."
    if size in VALUES:
        return "x is a power of four already."
    above = int(np.searchsorted(VALUES, size))
    low = float(VALUES[above - 1]) if above else 0.0
    between = f"between {decimal(low)} and {decimal(float(VALUES[above]))}"
    return f"|x| lies {between}; the threshold there is {decimal(float(THRESHOLDS[above]))}."


RADIX4 = Exercise(
    id="07.1",
    version=3,
    title="Radix-4 rounding",
    goal="Goal 1: round a gradient to four bits",
    minutes=15,
    difficulty=2,
    statement=r"""
        Write `radix4(x)` for an array `x` of finite numbers. The magnitudes are 0 and the seven powers of four from $4^{-3}$ to $4^3$, the sign stays. Between $4^{n-1}$ and $4^n$ the threshold is $4^n/1.6$; the same rule holds below the smallest value,
        so that everything below $4^{-3}/1.6$ becomes 0. Everything beyond 64 becomes 64. A value exactly on a threshold may go up or down, but always the same way.
    """,
    reference=radix4,
    form=SameShape(0),
    elements=0,
    signed_zero=False,
    number_line_format=lambda args: F.get("radix4_fp4_even"),
    kind=kind,
    why=why,
    examples=(
        Example((np.array([1.0, 4.0, 0.0625]),), "Powers of four stay."),
        Example((np.array([2.4, 2.6]),), "The threshold between 1 and 4 is 2.5, their arithmetic middle, not 2."),
        Example((np.array([0.2, -0.2]),), "0.15625 is the threshold between 1/16 and 1/4; the sign stays."),
        Example((np.array([39.0, 41.0, 1000.0]),), "40 is the threshold below 64, and beyond 64 is nothing."),
        Example((np.array([0.0098, 0.0097, 0.008]),), "Zero begins below 4⁻³/1.6 = 0.009765625, not at half of 1/64, which is 0.0078125."),
        Example((np.array([0.0, 1e-12]),), "Zero is zero, although it has no exponent."),
        Example((np.array([1.7e308, -1.7e308]),), "Beyond 64 is nothing, however large x is. Here 1.6·x would be more than float64 can hold: it overflows to ∞, which has no exponent."),
        Example((np.array([[0.5, 3.9], [-9.99, 10.1]]),), "Any shape: here two by two."),
    ),
    boundary=cases,
    properties=(
        Property("it is what lplab.quantizers.Radix4 gives, bit for bit", spread, agrees_with_the_library),
        Property("one rounding step from a threshold a number falls on its own side", closest, no_step_is_lost),
    ),
    conventions=(
        mistake("ties go up, as in the paper's procedure"),
        mistake("ties go down, as in the paper's equation", STEP, "(np.frexp(np.nextafter(1.6 * saturated, 0))[1] - 1) // 2"),
    ),
    mistakes=(
        mistake("the threshold is the middle of the exponents, 2·4ⁿ⁻¹: nearest on a logarithmic scale", "1.6 * saturated", "2 * saturated"),
        mistake("the next power of four below: nothing is rounded up", "1.6 * saturated", "saturated"),
        mistake("the next power of four above", "1.6 * saturated", "4 * np.nextafter(saturated, 0)"),
        mistake("the multiplier of radix 2, 4/3", "1.6 * saturated", "saturated / 0.75"),
        mistake("divided by 1.6 instead of multiplied", "1.6 * saturated", "saturated / 1.6"),
        mistake("powers of two: one exponent bit too many is kept", STEP, "np.frexp(saturated / 0.75)[1] - 1", SIZE, "2.0**exponent", "exponent < -3", "exponent < -6"),
        mistake("zero begins at half of the smallest value, as nearest rounding would have it", ZERO, "abs(x) < 4.0**-3 / 2", SIZE, "4.0 ** np.maximum(exponent, -3)"),
        mistake("zero begins below the smallest value itself", ZERO, "abs(x) < 4.0**-3"),
        mistake("nothing becomes zero: small values are kept at the smallest", ZERO, "x == 0", SIZE, "4.0 ** np.maximum(exponent, -3)"),
        mistake("powers of four go on below: nothing becomes zero", ZERO, "x == 0"),
        mistake("nothing saturates", CLIP, "x"),
        mistake("1.6·x is taken before saturating: where it overflows, the power of the largest numbers is lost", CLIP, "x", SIZE, "4.0 ** np.minimum(exponent, 3)"),
        mistake("values beyond 64 become zero", ZERO, "(exponent < -3) | (abs(x) > 64) | (x == 0)"),
        wrong("the nearest of the eight magnitudes: zero begins at half of the smallest", """
            import numpy as np


            def radix4(x):
                sizes = np.array([0, *4.0 ** np.arange(-3, 4)])
                return np.copysign(sizes[abs(sizes - abs(x)[..., None]).argmin(axis=-1)], x)
        """),
        mistake("the sign is lost", SIGN, "4.0**exponent"),
        mistake("zero has an exponent, too, and becomes 1/4", " | (x == 0)", ""),
        mistake("the octave is one too high: np.frexp gives a mantissa from 1/2 to 1", "[1] - 1) // 2", "[1]) // 2"),
        mistake("the exponent is halved toward zero, not down", STEP, "np.trunc((np.frexp(1.6 * saturated)[1] - 1) / 2)"),
        mistake(LOGARITHM, STEP, "np.floor(np.log2(1.6 * np.abs(saturated) + (x == 0)) / 2)"),
        mistake("the odd phase: half of each value", STEP, "(np.frexp(1.6 * 2 * saturated)[1] - 1) // 2", SIZE, "4.0**exponent / 2"),
    ),
    hints=(
        "Take x = 2.6: times 1.6 it is 4.16, whose whole power of four is 4¹. Take 2.4: 3.84, and the power is 4⁰. Multiplying by 1.6 moves every threshold 4ⁿ/1.6 to 4ⁿ.",
        "np.frexp(y)[1] − 1 is the exponent of y to the base 2, exactly, and its half, rounded down with // 2, the one to the base 4. Logarithms go wrong next to powers. Below −3 is zero. Zero itself has no exponent. Cut x off at ±64 before you multiply: 1.6·x can overflow.",
        "The skeleton: saturated = np.clip(x, −64, 64); exponent = (np.frexp(1.6 × saturated)[1] − 1) // 2; 0 where exponent < −3 or x is 0, otherwise 4.0 ** exponent with the sign of x (np.copysign).",
    ),
)
