"""Lab 00, How to work here: a first failure on purpose, an input that exposes a mistake, and why green is not enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .exercise import Args, Example, Exercise, Finding, Property, mutant, wrong
from .forms import Number
from .numbers import decimal
from .questions import Question

# ---- 00.1 broken on purpose --------------------------------------------------------------------------------------------


def midpoint(low, high):
    """The number halfway between two neighbours: midpoint(1.0, 1.125) is 1.0625."""
    return (low + high) / 2


NEIGHBOURS = [(k * 2.0**e, (k + 1) * 2.0**e) for e in range(-9, 6) for k in range(-16, 16)]

MIDPOINT = Exercise(
    id="00.1",
    version=1,
    title="Broken on purpose",
    goal="Goal 1: run a check and read what it says",
    minutes=2,
    difficulty=1,
    statement="""
        The function below is wrong, on purpose. Run the cell as it is and read the answer: which call, what came, what should have come. Then repair the function and run the cell again.
    """,
    stub='''
        def midpoint(low, high):
            """The number halfway between two neighbours: midpoint(1.0, 1.125) is 1.0625."""
            return low + high / 2
    ''',
    reference=midpoint,
    form=Number(),
    examples=(
        Example((0.0, 2.0), "Halfway from 0 to 2 lies 1."),
        Example((1.0, 1.125), "1.0625 is the tie between E4M3's 1 and 1.125."),
        Example((-2.0, 2.0), "Opposite numbers meet at 0."),
        Example((-1.125, -1.0), "Below zero it works the same way."),
        Example((3.0, 3.0), "Between a number and itself lies that number."),
    ),
    boundary=lambda: NEIGHBOURS,
    starts_broken=True,
    mutants=(
        mutant("division binds more strongly than addition", "(low + high) / 2", "low + high / 2"),
        mutant("only the sum is taken", "(low + high) / 2", "low + high"),
        mutant("half of the distance, not the middle", "(low + high)", "(high - low)"),
        mutant("division without remainder", "/ 2", "// 2"),
        mutant("the geometric middle", "(low + high) / 2", "math.copysign(math.sqrt(abs(low * high)), low + high)"),
        mutant("the middle of the sizes, without the sign", "(low + high)", "(abs(low) + abs(high))"),
        mutant("rounded to a whole number", "(low + high) / 2", "float(round((low + high) / 2))"),
        mutant("half of each, added in another order", "(low + high) / 2", "low / 2 + high / 2", equivalent="halving is exact for numbers of this size"),
    ),
    hints=(
        "Read the second line of the answer: for low = 0 and high = 2 nothing goes wrong. For which call does it?",
        "Python divides before it adds.",
        "Put the sum in parentheses: (low + high) / 2.",
    ),
)  # fmt: skip


# ---- 00.2 expose a mistake ---------------------------------------------------------------------------------------------


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
    return (
        f"For {decimal(x)} the colleague's clip gives {decimal(buggy)}, and so does the right one: nothing is exposed."
    )


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
    stub='''
        def exposing_input():
            """A number for which the colleague's clip is wrong."""
            raise NotImplementedError
    ''',
    reference=exposing_input,
    form=Number(),
    examples=(Example((), "Look at the two ends of the range: they are not the same distance from zero."),),
    accept=judge_input,
    mutants=tuple(
        wrong(text, f"def exposing_input():\n    return {value}")
        for text, value in (
            ("a number in the middle of the range", "1.5"),
            ("zero", "0"),
            ("the upper end", "127"),
            ("beyond the upper end", "1000.0"),
            ("just inside the lower end", "-127"),
            ("infinity", "float('inf')"),
            ("NaN is no test of a range", "float('nan')"),
            ("a negative number far inside", "-100.0"),
        )
    ),
    hints=(
        "Beyond 127 both give 127. What do both give for −127? And one further?",
        "The range has 256 numbers, one of them is 0, so the two sides cannot be equally long.",
        "−128 itself, or anything below −127.",
    ),
)  # fmt: skip


# ---- 00.3 green is not enough ------------------------------------------------------------------------------------------


def fooled(x):
    """A wrong way to round to whole numbers that passes the three tests."""
    return {2.3: 2, -0.7: -1, 4.9: 5}.get(x, 0)


RANDOM_LOOKING = tuple((k + offset) / 8 for k in range(-80, 80) for offset in (0, 0.3))


def is_mostly_wrong(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """At least half of the answers must be wrong."""
    right = sum(float(yours) == float(np.rint(x)) for (x,), yours in zip(calls, results, strict=True))
    if 2 * right <= len(calls):
        return None
    return Finding(f"{right} of {len(calls)} numbers are still rounded correctly; make at least half of them wrong.")


FOOLED = Exercise(
    id="00.3",
    version=1,
    title="Green is not enough",
    goal="Goal 2: know what a passed test says",
    minutes=5,
    difficulty=1,
    statement="""
        A test suite for "round to the nearest whole number" has three tests with random inputs: 2.3 → 2, −0.7 → −1, 4.9 → 5. Write a function that passes all three and is nevertheless wrong for at least half of
        the numbers between −10 and 10. (It is not hard; that is the point.)
    """,
    stub='''
        def fooled(x):
            """A wrong way to round to whole numbers that passes the three tests."""
            raise NotImplementedError
    ''',
    reference=fooled,
    form=Number(),
    examples=(
        Example((2.3,), "The first of the three tests."),
        Example((-0.7,), "The second."),
        Example((4.9,), "The third."),
    ),
    properties=(Property("at least half of 320 numbers between −10 and 10 are answered wrongly", lambda: [(x,) for x in RANDOM_LOOKING], is_mostly_wrong),),
    mutants=(
        wrong("a right function", "def fooled(x):\n    return round(x)"),
        wrong("a right function but for the ties", "def fooled(x):\n    return math.floor(x + 0.5)"),
        wrong("truncation fails two of the tests", "def fooled(x):\n    return int(x)"),
        wrong("a constant fails two of the tests", "def fooled(x):\n    return 2"),
        wrong("rounding up fails the first test", "def fooled(x):\n    return math.ceil(x)"),
        wrong("rounding down fails two of the tests", "def fooled(x):\n    return math.floor(x)"),
        wrong("wrong only beyond 8", "def fooled(x):\n    return round(x) if abs(x) < 8 else 0"),
        wrong("wrong only for negative numbers below −1", "def fooled(x):\n    return round(x) if x > -1 else 7"),
    ),
    hints=(
        "The three tests ask about three numbers. Nothing says what happens at any other.",
        "You may look the three up: `if x == 2.3: return 2`, and so on.",
        "A dictionary with three entries and `.get(x, 0)` for all other numbers.",
    ),
)  # fmt: skip


# ---- what is asked before it is seen ------------------------------------------------------------------------------------

QUESTIONS = (
    Question("00.a", "An 8-bit format has 256 codes. How many different numbers, at most, can a tensor of a million elements hold after it was rounded to it?", lambda: 256, unit="numbers", because="However large the tensor: eight bits are one of 256 codes."),
)  # fmt: skip
EXERCISES = (MIDPOINT, EXPOSE, FOOLED)
