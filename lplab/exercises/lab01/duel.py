"""Exercise 01.4: where one sixteen-bit format beats the other, and the reverse."""

from __future__ import annotations

import math
from typing import Any

from lplab import formats as F
from lplab.exercises.checks.numbers import decimal
from lplab.exercises.model.exercise import Example, Exercise, wrong
from lplab.exercises.model.forms import Numbers


def duel():
    """A number at which fp16 is closer than bf16, and one at which bf16 is closer than fp16."""
    return 1 / 3, 1e6


HALF, BRAIN = F.get("fp16"), F.get("bf16")


def loser(x: float) -> tuple[float, float]:
    """Errors of fp16 and of bf16 at x."""
    return abs(float(HALF.quantize(x)) - x), abs(float(BRAIN.quantize(x)) - x)


def judge_duel(args: Any, result: Any) -> str:
    """What is wrong with a pair of inputs; "" if each format wins once."""
    first, second = map(float, result)
    for x in (first, second):
        if not math.isfinite(x):
            return f"{decimal(x)} is no number to compare errors at: choose finite ones."
    for x, better, worse, order in ((first, "fp16", "bf16", 1), (second, "bf16", "fp16", -1)):
        ours, theirs = loser(x)[::order]
        values = f"At {decimal(x)} fp16 gives {decimal(float(HALF.quantize(x)))} and bf16 gives {decimal(float(BRAIN.quantize(x)))}"
        if ours == theirs == 0:
            return f"{values}: both are exact, so neither beats the other."
        if ours >= theirs:
            return f"{values}: {better} is not closer there; {'they are equally far' if ours == theirs else worse + ' is'}."
    return ""


DUEL = Exercise(
    id="01.4",
    version=1,
    title="Where fp16 beats bf16, and the reverse",
    goal="Goal 3: choose between range and precision",
    minutes=5,
    difficulty=1,
    statement="""
        Both have sixteen bits. Find two finite numbers: the first one at which fp16 (1-5-10) is closer to the truth than bf16 (1-8-7), the second one at which bf16 is closer. Return both. There are many right answers.
    """,
    reference=duel,
    form=Numbers(count=2),
    examples=(Example((), "What decides is the range for one and the number of mantissa bits for the other."),),
    accept=judge_duel,
    mistakes=(
        wrong("the pair is the wrong way round", "def duel():\n    return 1e6, 1 / 3"),
        wrong("both formats are exact at powers of two", "def duel():\n    return 0.5, 1e6"),
        wrong("65504 is the largest number of fp16, not beyond it", "def duel():\n    return 0.1, 65504.0"),
        wrong("small numbers always favour bf16, also those that fp16 still holds", "def duel():\n    return 0.1, 1.1e-4"),
        wrong("at the end of their range both overflow", "def duel():\n    return 0.1, 1e39"),
        wrong("fp16 is the more precise everywhere, also beyond its range", "def duel():\n    return 1e5, 1e-8"),
        wrong("numbers that both flush to zero", "def duel():\n    return 0.1, 1e-45"),
        wrong("compares at infinity", "def duel():\n    return 0.1, float('inf')"),
        wrong("compares at NaN", "def duel():\n    return float('nan'), 1e6"),
        wrong("integers are exact in both formats", "def duel():\n    return 256, 1e6"),
    ),
    hints=(
        "In the explorer above, choose first the preset fp16 and then bf16, and compare: which one reaches farther, which one has finer steps where both reach?",
        "Three mantissa bits more make fp16 closer nearly everywhere in its range; beyond 65,504 it has only infinity, and below 2⁻²⁵ only zero. bf16 goes on to 3.4 × 10³⁸ and 10⁻⁴⁰.",
        "For the first take any number near 1 with many digits, such as a third. For the second take one that fp16 cannot reach but bf16 can, such as a million.",
    ),
)
