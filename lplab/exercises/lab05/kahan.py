"""Exercise 05.4: Kahan's sum, every operation rounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab import arithmetic
from lplab.exercises.checks.numbers import decimal
from lplab.exercises.lab05.rounding_169 import numbers_169, to_169
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Number


def kahan_sum(x):
    """The sum of x in 1-6-9 with Kahan's compensation."""
    s = c = 0.0
    for value in x:
        y = to_169(value - c)
        t = to_169(s + y)
        c = to_169(to_169(t - s) - y)
        s = t
    return s


Y, T, C = "y = to_169(value - c)", "t = to_169(s + y)", "c = to_169(to_169(t - s) - y)"
ORDER = f"{C}\n        s = t"
LISTED = 8  # numbers of a sum that are all shown


def sum_cases() -> list[Args]:
    """Numbers of 1-6-9 of mean 1, 0 and −2, and lists in which large and small ones take turns."""
    mixed = [np.array(v, dtype=float) for v in ([1, 1024, 1, -1024], [0.001, 512, 0.001, -512, 1], [3, -1024, 5, 1023, 0.5])]
    random = [(numbers_169(n, seed, mean),) for seed, n in enumerate((1, 2, 5, 20, 90)) for mean in (1.0, 0.0, -2.0)]
    sizes = [(numbers_169(40, seed) * 2.0 ** np.random.default_rng(seed).integers(-8, 9, 40),) for seed in range(20, 28)]
    return [*random, *[(v,) for v in mixed], *sizes, (np.zeros(0),)]


def agrees_with_the_library(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether long sums are those of lplab.arithmetic, bit for bit."""
    for args, yours in zip(calls, results, strict=True):
        expected = float(arithmetic.kahan_sum(args[0], "dlfloat16"))
        if yours != expected:
            text = f"For {len(args[0]):,} numbers yours is {decimal(yours)}, expected {decimal(expected)}"
            return Finding(f"{text}; their exact sum is {decimal(float(args[0].sum()))}.", args, yours)
    return None


def show_sum(args: Args) -> str:
    """The numbers; of many, how many."""
    listed = len(args[0]) <= LISTED
    return "x = [" + ", ".join(map(decimal, args[0].tolist())) + "]" if listed else f"{len(args[0])} numbers"


def why_sum(args: Args, expected: Any) -> str:
    """Every step of a short sum; of a long one the first step that loses something, and the one that takes it off."""
    s, c, steps, lossy = 0.0, 0.0, [], []
    for value in args[0]:
        y = to_169(value - c)
        t = to_169(s + y)
        s, c = t, to_169(to_169(t - s) - y)
        steps.append(f"y = {decimal(y)}, t = {decimal(t)}, c = {decimal(c)}")
        lossy.append(c != 0)
    if not steps:
        return "Nothing is added: s stays at 0."
    if len(steps) <= LISTED:
        return f"The right steps, number by number: {'; '.join(steps)}."
    if not any(lossy):
        return "No addition loses anything: c stays at 0."
    first = lossy.index(True)
    after = f"; at number {first + 2}: {steps[first + 1]}" if first + 1 < len(steps) else ""
    return f"In the right steps, the first addition that is not exact is that of number {first + 1}: {steps[first]}{after}."


KAHAN = Exercise(
    id="05.4",
    version=1,
    title="Remember what was lost",
    goal="Goal 2: choose how to sum",
    minutes=10,
    difficulty=2,
    statement=r"""
        Kahan (1965) keeps a second register $c$. It holds by how much the last addition was too large, and this is taken off the next number. Start with $s=c=0$. For each number, compute $y = x_i - c$, then $t = s + y$, then $c = (t - s) - y$, and then set $s = t$. Write `kahan_sum(x)`, which
        returns $s$ at the end. **Each** of the four additions and subtractions is rounded to 1-6-9.
    """,
    provided=(to_169,),
    reference=kahan_sum,
    form=Number(),
    signed_zero=False,
    show=show_sum,
    why=why_sum,
    examples=(
        Example((np.array([1.0, 2, 3]),), "Nothing is rounded, nothing is compensated."),
        Example((np.array([1024.0, 1, 1]),), "1024 + 1 becomes 1024, and c remembers −1. The next 1 becomes 2, and 1026 is a number of 1-6-9."),
        Example((np.array([1024.0, 1, 1, 1]),), "The last 1 is lost again, and still in c: the sum is 1026, not 1027, which 1-6-9 lacks."),
        Example((np.ones(3000),), "A plain sum stops at 1024. This one does not stop."),
        Example((np.array([1024.0, 3]),), "1027 is a tie and goes to 1028: too much this time, and c is +1."),
        Example((np.array([1.0, 1024, 1, -1024]),), "Kahan is not exact: the large number comes after the small one, and the steps say what is left."),
        Example((np.array([-1024.0, -1, -1]),), "Negative numbers mirror the positive ones."),
    ),
    boundary=sum_cases,
    properties=(Property("long sums agree with the library's, bit for bit", lambda: [(numbers_169(5000, seed),) for seed in (7, 8)], agrees_with_the_library),),
    mistakes=(
        mistake("the correction has the wrong sign", "value - c", "value + c"),
        mistake("the correction is computed and never used", Y, "y = value"),
        mistake("the correction is taken after s has moved: t − s is zero", ORDER, f"s = t\n        {C}"),
        mistake("y is added in the correction instead of subtracted: what is taken off grows, to infinity in long sums", "to_169(t - s) - y", "to_169(t - s) + y", raises="OverflowError"),
        mistake("the correction uses the number itself, not y", "to_169(t - s) - y", "to_169(t - s) - value"),
        mistake("the corrected number is not rounded", Y, "y = value - c"),
        mistake("the sum is not rounded", T, "t = s + y"),
        mistake("corrections pile up: c is added to, not replaced", C, "c = to_169(c + to_169(to_169(t - s) - y))"),
        mistake("the correction is taken off once more at the end", "return s", "return to_169(s - c)"),
        mistake("the result is not a number of the format: the correction is taken off in full precision", "return s", "return s - c"),
        mistake("a full-precision sum, rounded once", T, "t = s + y", "return s", "return to_169(s)"),
        mistake("t − s is not rounded", "to_169(t - s) - y", "(t - s) - y"),
        mistake("the numbers are added from last to first", "in x:", "in x[::-1]:"),
        mistake("the numbers are sorted by size first", "in x:", "in sorted(x, key=abs):"),
        mistake("digits are cut off instead of rounded", "round(m * 1024)", "int(m * 1024)"),
    ),
    hints=(
        "Follow 1024, 1, 1 with a pencil: y = 1, t = 1024 (rounded), c = (1024 − 1024) − 1 = −1. For the second 1: y = 1 − (−1) = 2.",
        "(t − s) is what really arrived in the sum, y what should have. Their difference is what is too much; it comes off the next number. s moves last.",
        "Count the calls of to_169 in your loop: one for y, one for t and two for c, as (t − s) − y is two subtractions, one after the other. And the old s is still needed when c is computed.",
    ),
)
