"""Exercise 00.2: find the input that exposes a mistake."""

from __future__ import annotations

import math
from typing import Any

from lplab.exercises.checks.numbers import decimal
from lplab.exercises.model.exercise import Example, Exercise, wrong
from lplab.exercises.model.forms import Number


def exposing_input():
    """A number for which the colleague's clip is wrong."""
    return -128.0


def right_clip(x: float) -> float:
    """What an int8 can hold: −128 to 127."""
    return max(-128.0, min(127.0, x))


def buggy_clip(x: float) -> float:
    """A colleague's version, which takes the range for symmetric."""
    return math.copysign(min(abs(x), 127.0), x)


def judge_input(args: Any, result: Any) -> str:
    """Whether the input tells the two apart; "" if it does."""
    x = float(result)
    right, buggy = right_clip(x), buggy_clip(x)
    if math.isnan(x):
        return "NaN is no number of the range: choose one that int8 could meet."
    if right != buggy:
        return ""
    return f"For {decimal(x)} the colleague's clip gives {decimal(buggy)}, and so does the right one: nothing is exposed."


EXPOSE = Exercise(
    id="00.2",
    version=1,
    title="Expose a mistake",
    goal="Goal 2: choose inputs that can fail",
    minutes=5,
    difficulty=1,
    statement="""
        An 8-bit integer holds the numbers from −128 to 127. A colleague clips to this range with `math.copysign(min(abs(x), 127), x)`, and has tested it with 0, 1.5, 100, −100, 127 and 1000. Return one input for which the answer
        differs from `max(-128, min(127, x))`.
    """,
    reference=exposing_input,
    form=Number(),
    examples=(Example((), "Look at the two ends of the range: they are not the same distance from zero."),),
    accept=judge_input,
    mistakes=tuple(
        wrong(text, f"def exposing_input():\n    return {value}")
        for text, value in (
            ("a number in the middle of the range", "1.5"),
            ("zero", "0"),
            ("the upper end", "127"),
            ("beyond the upper end", "1000.0"),
            ("just inside the lower end", "-127"),
            ("infinity", "float('inf')"),
            ("not a number", "float('nan')"),
            ("a negative number far inside", "-100.0"),
        )
    ),
    hints=(
        "Beyond 127 both give 127. What do both give for −127? And one further?",
        "The range has 256 numbers, one of them is 0, so the two sides cannot be equally long.",
        "On which side of 0 is there one number more? Take the number at the end of that side.",
    ),
)
