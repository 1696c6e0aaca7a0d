"""Exercise 11.2: how much faster a step gets if only some of its parts do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.close import TOLERANCE, close_to
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Numbers


def step_speedup(seconds, narrow, factor, rounding):
    """How many times as fast the step gets, and the bound that no factor passes."""
    before = seconds.sum()
    faster, rest = seconds[narrow].sum(), seconds[~narrow].sum()
    after = faster / factor + rest + rounding
    return before / after, before / (rest + rounding)


AFTER, BOUND = "faster / factor + rest + rounding", "before / (rest + rounding)"


def step_cases() -> list[Args]:
    """Steps with one part, all parts or none narrow; with free and with dear rounding."""
    rng = np.random.default_rng(11)
    cases = []
    for parts in (2, 3, 5, 8):
        seconds = rng.uniform(0.1, 4.0, parts)
        for narrow in (np.arange(parts) == 0, np.arange(parts) > 0, np.arange(parts) % 2 == 0):
            cases += [(seconds, narrow, factor, r) for factor in (1.0, 2.0, 4.0, 7.3) for r in (0.0, 0.25, 2.0)]
    return [*cases, (np.array([3.0, 1.0]), np.array([False, False]), 4.0, 0.0), (np.array([3.0]), np.array([True]), 4.0, 0.5)]


def ladders() -> list[Args]:
    """One step, faster and faster."""
    seconds, narrow = np.array([6.0, 2.0, 1.0]), np.array([True, False, False])
    return [(seconds, narrow, float(2**power), 0.5) for power in range(0, 24)]


def stays_below(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether the speedup grows with the factor, towards the bound and never past it."""
    last = 0.0
    for args, (gain, bound) in zip(calls, results, strict=True):
        if not last <= float(gain) < float(bound):
            text = f"With a factor of {args[2]:,.0f} the step is {float(gain):.4g} times as fast"
            return Finding(f"{text}: it must grow with the factor, and stay below its bound of {float(bound):.4g}.", args)
        last = float(gain)
    if abs(last / float(results[-1][1]) - 1) > 1e-4:
        return Finding(f"With a factor of 8 million the speedup, {last:.4g}, must be at its bound.", calls[-1])
    return None


def show_step(args: Args) -> str:
    """The parts in words."""
    seconds, narrow, factor, rounding = args
    parts = ", ".join(f"{s:.3g} s{' (narrow)' if n else ''}" for s, n in zip(seconds, narrow, strict=True))
    return f"parts of {parts}; factor = {factor:g}, rounding = {rounding:g} s"


TIMES = np.array([60.0, 25.0, 15.0])
SPEEDUP = Exercise(
    id="11.2",
    version=1,
    title="Amdahl, with parts that stay wide",
    goal="Goal 2: say what narrower numbers can save, and what not",
    minutes=10,
    difficulty=2,
    statement=r"""
        A training step has parts that take `seconds` (an array). Where `narrow` (an array of True and False) is True, the numbers have fewer bits and the part becomes `factor` times as fast. The other parts (norms, softmax, first and last layer, the update) stay as they are. Rounding to fewer bits is
        work, too: the new step has `rounding` seconds of it that the old one had not. Write `step_speedup(seconds, narrow, factor, rounding)`. It returns two numbers: how many times as fast the step gets, and the **bound** that it would reach if the narrow parts took no time at all. There is always
        some part that stays, or some rounding.
    """,
    reference=step_speedup,
    form=Numbers(count=2),
    accept=close_to(step_speedup, ("speedup", "bound")),
    tolerance=TOLERANCE,
    show=show_step,
    examples=(
        Example((TIMES, np.array([True, False, False]), 4.0, 0.0), "60 of 100 s become 15: 100 / 55. And even for nothing they would leave 40 s."),
        Example((TIMES, np.array([True, False, False]), 4.0, 10.0), "Rounding takes 10 s that were not there before, however fast the products get."),
        Example((np.array([50.0, 50.0]), np.array([True, False]), 2.0, 0.0), "Half the time twice as fast is not 1.5 times as fast: 100 / 75."),
        Example((np.array([80.0, 20.0]), np.array([True, False]), 1.0, 10.0), "Narrow numbers on a chip that is not faster with them: the step gets slower."),
        Example((np.array([90.0, 5.0, 5.0]), np.array([True, True, False]), 8.0, 0.0), "Two parts are narrow. A twentieth that stays bounds everything at 20."),
        Example((np.array([10.0]), np.array([True]), 4.0, 2.5), "Everything is narrow, and rounding eats half of the gain."),
    ),
    boundary=lambda: [args for args in step_cases() if (~args[1]).any() or args[3] > 0],
    properties=(Property("the speedup grows with the factor and stays below the bound", ladders, stays_below),),
    mistakes=(
        mistake("the factors are averaged, not the times", "before / after,", "(faster * factor + rest) / before,"),
        mistake("rounding is taken to be free", AFTER, "faster / factor + rest", BOUND, "before / rest if rest else math.inf"),
        mistake("rounding is free as far as the bound goes", BOUND, "before / rest if rest else math.inf"),
        mistake("rounding gets faster with the products", AFTER, "faster / factor + rest + rounding / factor"),
        mistake("rounding was there before as well", "before = seconds.sum()", "before = seconds.sum() + rounding"),
        mistake("parts are counted, not their seconds", "seconds[narrow].sum(), seconds[~narrow].sum()", "before * narrow.mean(), before * (1 - narrow.mean())"),
        mistake("everything gets faster", AFTER, "(faster + rest) / factor + rounding"),
        mistake("the wrong parts get faster", "seconds[narrow].sum(), seconds[~narrow].sum()", "seconds[~narrow].sum(), seconds[narrow].sum()"),
        mistake("the bound is the factor of the narrow parts", BOUND, "factor"),
        mistake("the bound is 1 over the share of the narrow parts", BOUND, "before / (faster + rounding)"),
        mistake("the time that is left instead of the speedup", "before / after,", "after / before,"),
        mistake("both numbers are upside down: the share of the time that is left", "before / after,", "after / before,", BOUND, "(rest + rounding) / before"),
        mistake("rounding was there before as well, in the speedup alone", "before / after,", "(before + rounding) / after,"),
        mistake("the gain in percent instead of the ratio", "before / after,", "100 * (before / after - 1),"),
        mistake("narrow parts take the factor longer", "faster / factor", "faster * factor"),
        mistake("parts run at the same time, the longest decides", AFTER, "max(faster / factor, rest) + rounding"),
        mistake("bits instead of a rate: the time falls with the square of the factor", "faster / factor", "faster / factor**2"),
    ),
    hints=(
        "Times can be added, rates cannot. Write down how many seconds each part takes before and after, and add up twice.",
        "seconds[narrow] picks the narrow parts, seconds[~narrow] the others. For the bound the narrow ones take 0 seconds; the rest and the rounding remain.",
        "Parts of 60, 25 and 15 s, of which the first is narrow, a factor of 4 and 10 s of rounding: the new step takes 15 + 40 + 10 = 65 s, and without the narrow part 50 s. Which two numbers do you return?",
    ),
)
