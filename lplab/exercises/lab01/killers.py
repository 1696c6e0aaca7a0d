"""Exercise 01.3: inputs that expose three wrong roundings."""

from __future__ import annotations

import math
from typing import Any

from lplab.exercises.checks.variants import compiled
from lplab.exercises.lab01.round_e4m3 import ROUND, round_e4m3
from lplab.exercises.model.exercise import Example, Exercise, wrong
from lplab.exercises.model.forms import Numbers


def killers():
    """At most three inputs that expose the roundings away, flush and wide."""
    return [1.0625, 2.0**-9, 500.0]


SUSPECTS = {
    "away": "ties go away from zero",
    "flush": "subnormals are flushed to zero",
    "wide": "the largest number is 480, whose code is NaN",
}
WHERE = {
    "away": "on ties whose even neighbour is the one nearer to zero",
    "flush": "on numbers that round to something between 0 and 2⁻⁶",
    "wide": "beyond 464, where 480 is nearer than 448",
}
BUGGY = {name: next(m for m in ROUND.mistakes if m.name == text) for name, text in SUSPECTS.items()}


def judge_killers(args: Any, result: Any) -> str:
    """Which suspects survive a list of inputs; "" if none does."""
    inputs = [float(x) for x in result]
    survivors = [name for name, suspect in BUGGY.items() if not _exposed(suspect, inputs)]
    if not survivors:
        return ""
    killed = ", ".join(name for name in BUGGY if name not in survivors)
    unexposed = f"Not exposed yet: {', '.join(survivors)}. " + (f"Exposed: {killed}. " if killed else "")
    return unexposed + " ".join(f"{name} differs only {WHERE[name]}." for name in survivors)


def _exposed(suspect: Any, inputs: list[float]) -> bool:
    buggy = compiled(suspect.apply(ROUND.solution), "round_e4m3")
    return any(not _equal(buggy(x), round_e4m3(x)) for x in inputs)


def _equal(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


KILL = Exercise(
    id="01.3",
    version=1,
    title="Inputs that expose three wrong roundings",
    goal="Goal 2: name what goes wrong",
    minutes=10,
    difficulty=2,
    statement="""
        Three colleagues wrote `round_e4m3`, and all three pass a thousand random tests. **away** sends ties away from zero; **flush** has no subnormals: results below 2⁻⁶ become zero; **wide** takes 480 for the largest
        number. Return a list of at most three inputs that exposes all three: for each colleague at least one input at which the answer differs from the right one.
    """,
    reference=killers,
    form=Numbers(most=3),
    examples=(Example((), ""),),
    accept=judge_killers,
    mistakes=(
        wrong("three random numbers", "def killers():\n    return [0.3, -1.7, 12.4]"),
        wrong("a tie whose even neighbour lies outward exposes nothing", "def killers():\n    return [1.1875, 2.0**-9, 500.0]"),
        wrong("a normal number is not flushed", "def killers():\n    return [1.0625, 2.0**-6, 500.0]"),
        wrong("what rounds to zero anyway is no proof of flushing", "def killers():\n    return [1.0625, 2.0**-11, 500.0]"),
        wrong("between 448 and 464 both saturate at 448", "def killers():\n    return [1.0625, 2.0**-9, 460.0]"),
        wrong("exactly representable numbers", "def killers():\n    return [1.0, 0.5, 448.0]"),
        wrong("zeros and NaN", "def killers():\n    return [0.0, -0.0, float('nan')]"),
        wrong("only overflow", "def killers():\n    return [500.0, 1e6, float('inf')]"),
        wrong("only ties", "def killers():\n    return [1.0625, 1.3125, 2.125]"),
    ),
    hints=(
        "Take the colleagues one by one. Where does the rule of *away* differ from ties to even? Only on ties, and only on those whose even neighbour is the inner one.",
        "*flush* is exposed by any number that rounds to something between 0 and 2⁻⁶. *wide* is exposed where the right answer is 448 but 480 is nearer.",
        "1.0625 is a tie between 1 and 1.125. 2⁻⁹ is the smallest subnormal. Any number above 464 is nearer to 480 than to 448.",
    ),
)
