"""Exercise 02.3: count what saturates and what is lost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab.exercises.checks.grids import boundary_values
from lplab.exercises.checks.numbers import decimal
from lplab.exercises.lab02.fixed_point import fixed
from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import Numbers


def count_losses(x, integer_bits, fraction_bits):
    """How many elements of x saturate in <IL, FL>, and how many non-zero ones become zero (to nearest, ties down)."""
    step = 2.0**-fraction_bits
    top = 2.0 ** (integer_bits - 1)
    saturated = (x > top - step) | (x < -top)
    lost = (x != 0) & (x > -step / 2) & (x <= step / 2)
    return int(saturated.sum()), int(lost.sum())


def loss_cases() -> list[Args]:
    """One element at a time: every number, midpoint and neighbour of three formats, and values beyond both ends."""
    formats = [fixed((None, *split)) for split in ((2, 2), (1, 4), (3, 1))]
    edges = np.array([0.0, -0.0, 5e-324, -5e-324, 1e6, -1e6, math.inf, -math.inf])
    return [
        (np.array([value]), fmt.integer_bits, fmt.fraction_bits)
        for fmt in formats
        for value in [*boundary_values(fmt, specials=False, dtype=np.float32), *edges]
    ]


def why_lost(args: Args, expected: Any) -> str:
    """The outcome for the element, in words."""
    x, integer_bits, fraction_bits = args
    if len(x) != 1:
        return ""
    value, step, top = float(x[0]), 2.0**-fraction_bits, 2.0 ** (integer_bits - 1)
    ends = f"The range is {decimal(-top)} to {decimal(top - step)}, both included; the step is {decimal(step)}"
    outcome = {(1, 0): "saturates", (0, 1): "becomes zero though it was none", (0, 0): "is neither saturated nor lost"}[tuple(expected)]
    return f"{ends}: {decimal(value)} {outcome}."


LOSSES = Exercise(
    id="02.3",
    version=1,
    title="Count what is lost",
    goal="Goal 3: explain why both ends of the curve fail",
    minutes=10,
    difficulty=2,
    statement=r"""
        With too few fraction bits small updates become zero. With too many of the sixteen, large values saturate. Write `count_losses(x, integer_bits, fraction_bits)`. It returns two counts for an array:

        1. the elements outside the range of ⟨IL, FL⟩ (its ends belong to it);
        2. the elements that are **not** zero but become zero when rounded to nearest, ties down.
    """,
    stub='''
        def count_losses(x, integer_bits, fraction_bits):
            """How many elements of x saturate in <IL, FL>, and how many non-zero ones become zero."""
            raise NotImplementedError
    ''',
    reference=count_losses,
    form=Numbers(count=2),
    examples=(
        Example((np.array([9.0, -9.0, 1.0]), 4, 12), "9 and −9 lie outside −8 … 8 − 2⁻¹²."),
        Example((np.array([0.0, 1e-5, 1e-4, -1e-5]), 4, 12), "10⁻⁵ and −10⁻⁵ are nearer to 0 than to 2⁻¹²; the zero was zero before."),
        Example((np.array([-8.0, 8.0 - 2**-12]), 4, 12), "The two ends are numbers of the format: nothing is lost."),
        Example((np.array([0.5, -0.5]) * 2**-12, 4, 12), "Half a step goes down: to 0 from above, to −1 step from below."),
        Example((np.zeros((3, 4)), 4, 12), "Zeros are not lost: they were zero before. Any shape."),
    ),
    boundary=loss_cases,
    why=why_lost,
    mistakes=(
        mistake("zeros count as lost", "(x != 0) & ", ""),
        mistake("the ends count as saturated", "(x > top - step) | (x < -top)", "(x >= top - step) | (x <= -top)"),
        mistake("the upper end is top itself", "(x > top - step)", "(x >= top)"),
        mistake("the range is symmetric", "(x < -top)", "(x < step - top)"),
        mistake("only positive values saturate", " | (x < -top)", ""),
        mistake("everything below one step is lost", "(x > -step / 2) & (x <= step / 2)", "(abs(x) < step)"),
        mistake("ties are taken to even: half a step is lost on both sides", "(x > -step / 2)", "(x >= -step / 2)"),
        mistake("half a step is not lost on either side", "(x <= step / 2)", "(x < step / 2)"),
        mistake("ties go up: half a step is lost below zero instead of above", "(x > -step / 2) & (x <= step / 2)", "(x >= -step / 2) & (x < step / 2)"),
        mistake("only positive updates are lost", "(x > -step / 2)", "(x > 0)"),
        mistake("shares instead of counts", "int(saturated.sum()), int(lost.sum())", "float(saturated.mean()), float(lost.mean())"),
        mistake("the two counts are swapped", "int(saturated.sum()), int(lost.sum())", "int(lost.sum()), int(saturated.sum())"),
        mistake("the sign is not counted among the integer bits", "(integer_bits - 1)", "integer_bits"),
        mistake("every value that changes counts as lost", "(x != 0) & (x > -step / 2) & (x <= step / 2)", "(x / step) % 1 != 0"),
    ),
    hints=(
        "Draw the line around zero: which values does round-to-nearest with ties down send to 0? Is −ε/2 among them? Is +ε/2?",
        "Lost: x ≠ 0 and −ε/2 < x ≤ ε/2. Saturated: x above the largest number or below the smallest; mind that the largest is 2^(IL−1) − ε.",
        "Two masks, two sums: saturated = (x > top − step) | (x < −top); lost = (x != 0) & (x > −step/2) & (x <= step/2).",
    ),
)
