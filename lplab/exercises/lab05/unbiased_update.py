"""Exercise 05.3: an update whose expected step is the wanted one."""

from __future__ import annotations

import numpy as np

from lplab.exercises.checks.numbers import sequence_text
from lplab.exercises.checks.stochastic_rounding import for_each_case, uses_the_generator
from lplab.exercises.isolation import Seeded
from lplab.exercises.lab05.stochastic_float import (
    CASES,
    check_neighbours,
    mean_is_right,
    repeated_values,
    two_seeds,
    weights_are_independent,
)
from lplab.exercises.model.exercise import Args, Example, Exercise, Property, mistake
from lplab.exercises.model.forms import SameShape


def unbiased_update(w, delta, mantissa_bits, rng):
    """Weights w after an update delta: on the format's grid, and w + delta on average."""
    wanted = w + delta
    step = 2.0 ** (np.frexp(wanted)[1] - 1 - mantissa_bits)
    low = np.floor(wanted / step)
    up = rng.random(w.shape) < wanted / step - low
    return (low + up) * step


OCTAVE, COIN = "np.frexp(wanted)[1] - 1 - mantissa_bits", "rng.random(w.shape)"
CHANCE, BOTH = "wanted / step - low", "    up = rng.random(w.shape) < wanted / step - low\n    return (low + up) * step"


def update_cases() -> list[Args]:
    """Weights of several octaves with updates of all sizes, into other octaves and through zero."""
    sizes = np.array([0.0, 1e-6, 0.01, 0.0625, 0.1, 0.25, 0.5, 0.9])
    updates = np.concatenate([sizes, -sizes[1:]])
    weights = np.array([0.0, 0.25, 0.5, 0.875, 1.0, 1.75, 2.0, 3.5, 6.0, -0.5, -1.0, -1.75, -2.0, -7.0, 96.0])
    w, delta = np.meshgrid(weights, updates)
    return [(w, delta, bits, Seeded(seed)) for bits in (2, 3, 9) for seed in (7, 8)]


def show_update(args: Args) -> str:
    """Weights, updates and mantissa bits; of many, the first few."""
    return f"w = {sequence_text(args[0])}, delta = {sequence_text(args[1])}, mantissa_bits = {args[2]}"


UPDATE = Exercise(
    id="05.3",
    version=1,
    title="An update that is right on average",
    goal="Goal 3: update weights without a bias",
    minutes=15,
    difficulty=3,
    statement=r"""
        Write `unbiased_update(w, delta, mantissa_bits, rng)`. The weights `w` are floating-point numbers with few mantissa bits, and so must be the new ones: each becomes one of the two neighbours of `w + delta`, such that the **expected** new weight is `w + delta`. The
        neighbours lie $2^{k-m}$ apart in the octave from $2^k$ to $2^{k+1}$ of `w + delta`. Numbers of the format stay. One draw of `rng.random(w.shape)` for each weight; no limits to the exponent.
    """,
    stub='''
        def unbiased_update(w, delta, mantissa_bits, rng):
            """Weights w after an update delta: on the format's grid, and w + delta on average."""
            raise NotImplementedError
    ''',
    reference=unbiased_update,
    form=SameShape(0),
    accept=check_neighbours,
    show=show_update,
    examples=(
        Example((np.array([1.0, -2.0, 3.5]), np.zeros(3), 2, Seeded(1)), "Without an update nothing moves."),
        Example((np.ones(4), np.full(4, 0.1), 2, Seeded(2)), "1.1 lies between 1 and 1.25; to the nearest, the weight would never move."),
        Example((np.full(4, 6.0), np.full(4, 0.1), 2, Seeded(3)), "From 4 to 8 the step is 1, not 1/4: floating point."),
        Example((np.full(4, -1.0), np.full(4, -0.1), 2, Seeded(4)), "Below zero: −1.1 lies between −1.25 and −1."),
        Example((np.full(4, 1.0), np.full(4, -0.05), 2, Seeded(5)), "0.95 lies in the octave below, whose step is 1/8."),
        Example((np.full((2, 3), 1.75), np.full((2, 3), 0.5), 2, Seeded(6)), "2.25 lies in the octave above, whose step is 1/2. Any shape."),
        Example((np.array([0.5, 1.0]), np.array([-0.5, -1.0]), 2, Seeded(7)), "Zero is a number of the format: the sum is exact."),
    ),
    boundary=update_cases,
    properties=(
        Property("the mean movement is the update", repeated_values, for_each_case(CASES, mean_is_right)),
        Property("every weight has a draw of its own", lambda: repeated_values(2), for_each_case(CASES, weights_are_independent)),
        Property("the coin comes from the generator that was given", two_seeds, uses_the_generator),
    ),
    conventions=(
        mistake("up when the draw is below the fraction"),
        mistake("the draw is added, and the sum rounded down", BOTH, "    return np.floor(wanted / step + rng.random(w.shape)) * step"),
    ),
    mistakes=(
        mistake("to nearest: small updates are always lost", f"{COIN} < {CHANCE}", f"{CHANCE} > 0.5"),
        mistake("the step of fixed point: the same in every octave", OCTAVE, "-mantissa_bits + 0 * w"),
        mistake("the step of the old weight's octave, not of the result's", OCTAVE, "np.frexp(w)[1] - 1 - mantissa_bits"),
        mistake("the octave is one too high: np.frexp gives a mantissa from 1/2 to 1", "[1] - 1 - mantissa_bits", "[1] - mantissa_bits"),
        mistake("the octave is found by rounding log2 instead of taking it down", OCTAVE, "np.round(np.log2(np.abs(wanted) + (wanted == 0))) - mantissa_bits"),
        mistake("the update is rounded with a coin and added, the sum is not on the grid", "wanted = w + delta", "wanted = delta", "return (low + up) * step", "return w + (low + up) * step"),
        mistake("half up, half down, whatever the distance", f"< {CHANCE}", "< 0.5 * (wanted / step > low)"),
        mistake("up and down are exchanged", f"< {CHANCE}", f"> {CHANCE}"),
        mistake("cut off toward zero instead of down", "np.floor(wanted / step)", "np.trunc(wanted / step)"),
        mistake("updates smaller than half a step are dropped before the coin", BOTH, BOTH.replace("return (low + up) * step", "return np.where(np.abs(delta) < step / 2, np.round(w / step) * step, (low + up) * step)")),
        mistake("always up unless exact", f"{COIN} < {CHANCE}", "wanted / step > low"),
        mistake("one draw for all weights", COIN, "rng.random()"),
        mistake("a generator of one's own, with a fixed seed", COIN, "np.random.default_rng(0).random(w.shape)"),
        mistake("the global generator of numpy", COIN, "np.random.rand(*w.shape)"),
        mistake("the update is subtracted", "wanted = w + delta", "wanted = w - delta"),
        mistake("the result is left in steps", "return (low + up) * step", "return low + up"),
    ),
    hints=(
        "Which two numbers of the format enclose w + delta? Find its octave first: np.frexp(1.1) gives a mantissa of 0.55 and the exponent 1, so the octave from 1 to 2 is k = 0.",
        "In units of the step 2^(k−m) the neighbours are np.floor(wanted / step) and one more; the fraction that is left is the probability of going up. As in exercise 02.2, with a step for each element.",
        "The skeleton: wanted = w + delta; step = 2.0 ** (np.frexp(wanted)[1] − 1 − mantissa_bits); low = np.floor(wanted / step); return (low + (rng.random(w.shape) < wanted / step − low)) × step.",
    ),
)
