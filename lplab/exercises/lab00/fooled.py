"""Exercise 00.3: a wrong function that passes three random tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, wrong
from lplab.exercises.model.forms import Number


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
    reference=fooled,
    form=Number(),
    examples=(
        Example((2.3,), "The first of the three tests."),
        Example((-0.7,), "The second."),
        Example((4.9,), "The third."),
    ),
    properties=(Property("at least half of 320 numbers between −10 and 10 are answered wrongly", lambda: [(x,) for x in RANDOM_LOOKING], is_mostly_wrong),),
    mistakes=(
        wrong("the function rounds well, and this exercise asks for one that does not", "def fooled(x):\n    return round(x)"),
        wrong("the function rounds well but for the ties, and this exercise asks for one that does not", "def fooled(x):\n    return math.floor(x + 0.5)"),
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
)
