"""Exercise 07.3: where the threshold between two powers belongs, and that the best place is not the unbiased one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lplab.exercises.checks.close import distinct_texts
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Numbers


def multipliers(radix):
    """Multipliers c of the threshold radix/c between 1 and radix: least squared error; mean kept (x log-uniform)."""
    least_error = 2 * radix / (1 + radix)
    threshold = math.exp(radix * math.log(radix) / (radix - 1) - 1)
    return least_error, radix / threshold


TOLERANCE = 1e-5  # relative: all that is right to six digits, as the statement asks for, lies within half of it
RADICES = (2, 3, 4, 5, 8, 10, 16)


def wanted(radix: float) -> tuple[float, float]:
    """The two multipliers, in closed form."""
    return 2 * radix / (1 + radix), radix * math.e * radix ** (-radix / (radix - 1))


def six_digits(args: Args, result: Any) -> str:
    """What is wrong with two multipliers, in one sentence, or ""."""
    radix, names = args[0], ("with the least squared error", "that keeps the mean")
    for value, right, name in zip(result, wanted(radix), names, strict=True):
        if not abs(float(value) - right) <= TOLERANCE * right:
            yours, expected = distinct_texts(value, right)
            return f"For radix {radix} the multiplier {name} is {expected}, yours is {yours}"
    return ""


def balanced(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether the second multiplier keeps the mean, by the integrals themselves."""
    for args, result in zip(calls, results, strict=True):
        r, t = float(args[0]), args[0] / float(result[1])
        drift = (math.log(t) + r * math.log(r / t)) / (r - 1) - 1
        if abs(drift) > 10 * TOLERANCE:
            return Finding(f"With radix {args[0]} your second multiplier changes the mean by {drift:+.2%}.", args, result)
    return None


FIRST, SECOND = "least_error = 2 * radix / (1 + radix)", "threshold = math.exp(radix * math.log(radix) / (radix - 1) - 1)"

THRESHOLD = Exercise(
    id="07.3",
    version=2,
    title="Where the threshold belongs",
    goal="Goal 2: tell a small error from an unbiased one",
    minutes=15,
    difficulty=3,
    statement=r"""
        Numbers between 1 and the radix $r$ become 1 below a threshold $r/c$, and $r$ above it. Write `multipliers(radix)` that returns two multipliers $c$, right to six digits: the one with the least mean squared error (for radix 4 the paper found 1.6), and the one for which rounding keeps the **mean** of the numbers,
        $\mathbb E[q]=\mathbb E[x]$, if all octaves are equally full, that is with a density proportional to $1/x$. By hand or by a search, as you like.
    """,
    reference=multipliers,
    form=Numbers(count=2),
    accept=six_digits,
    tolerance=TOLERANCE,
    examples=(
        Example((4,), "The squared error is least where both neighbours are equally far: 2.5 = 4/1.6. More numbers lie below it than above, so this threshold shrinks the mean; 2.336 does not."),
        Example((2,), "1.5 = 2/(4/3), which LUQ uses, too; and 4/e = 1.4715."),
        Example((8,), "4.5 = 8/(16/9)."),
        Example((3,), "2 = 3/1.5."),
        Example((16,), "8.5 = 16/(32/17)."),
    ),
    boundary=lambda: [(radix,) for radix in RADICES],
    properties=(Property("the second multiplier keeps the mean", lambda: [(radix,) for radix in RADICES], balanced),),
    mistakes=(
        mistake("the middle of the exponents, √r, taken for the best threshold", FIRST, "least_error = radix ** 0.5"),
        mistake("1.6, whatever the radix", FIRST, "least_error = 1.6"),
        mistake("half of the upper value: the lower one is taken for 0", FIRST, "least_error = 2.0"),
        mistake("the threshold itself instead of the multiplier", FIRST, "least_error = (1 + radix) / 2", "radix / threshold", "threshold"),
        mistake("the reciprocal of the multiplier", FIRST, "least_error = (1 + radix) / 2 / radix", "radix / threshold", "threshold / radix"),
        mistake("the order of the two is exchanged", "return least_error, radix / threshold", "return radix / threshold, least_error"),
        mistake("the least error is taken to be unbiased (it is for evenly spread numbers, not for evenly filled octaves)", "radix / threshold", "least_error"),
        mistake("the mean of the exponents is kept, not that of the numbers: as many go up as down", SECOND, "threshold = radix ** 0.5"),
        mistake("the mean of the relative errors is zero, not that of the errors", SECOND, "threshold = (radix - 1) / math.log(radix)"),
        mistake("a logarithm to the base 2 among natural ones", SECOND, "threshold = math.exp(radix * math.log2(radix) / (radix - 1) - 1)"),
        mistake("three digits of a search are not enough", "return least_error, radix / threshold", "return round(least_error, 3), round(radix / threshold, 3)"),
    ),
    hints=(
        "A number x costs (x − 1)² if it becomes 1 and (r − x)² if it becomes r. Which is smaller depends on x alone, not on how often it comes: the first answer needs no density.",
        "For the second one write down both means with the density 1/x: ∫x·dx/x from 1 to r is r − 1; the rounded ones give 1·ln t + r·(ln r − ln t).",
        "The skeleton: c₁ = r / ((1 + r)/2). From ln t + r·(ln r − ln t) = r − 1 follows ln t = r·ln r/(r − 1) − 1, and c₂ = r/t.",
    ),
)
