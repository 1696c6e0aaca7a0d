"""Exercise 05.3: an update whose expected step is the wanted one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal, sequence_text
from lplab.exercises.checks.stochastic_rounding import (
    DEVIATIONS,
    SAMPLES,
    elements_are_independent,
    for_each_case,
    uses_the_generator,
)
from lplab.exercises.isolation import Seeded
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
MANTISSA_BITS = 2
CASES = ((1.0, 0.025), (1.0, -0.0375), (-6.0, 0.1), (3.5, 0.45), (0.125, -0.004), (48.0, 0.8), (-0.875, -0.0125), (2.0, -0.6))


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


def steps(wanted: np.ndarray, mantissa_bits: int) -> np.ndarray:
    """The step of the format at each number: that of its own octave."""
    return 2.0 ** (np.frexp(wanted)[1] - 1 - mantissa_bits)


def check_neighbours(args: Args, result: Any) -> str:
    """Whether every weight went to one of the two neighbours of weight plus update; "" if so."""
    w, delta, mantissa_bits, _ = args
    wanted = w + delta
    step = steps(wanted, mantissa_bits)
    low, result = np.floor(wanted / step) * step, np.asarray(result, dtype=float)
    good = (result == low) | ((result == low + step) & (wanted != low))
    if good.all():
        return ""
    i = int(np.flatnonzero(~good.ravel())[0])
    target, yours, below, gap = (float(np.ravel(v)[i]) for v in (wanted, result, low, step))
    sought = f"{decimal(w.ravel()[i])} + {decimal(delta.ravel()[i])} = {decimal(target)}"
    if target == below:
        return f"{sought} is a number of the format: it must stay, whatever the coin says; yours is {decimal(yours)}."
    between = f"{sought} lies between {decimal(below)} and {decimal(below + gap)}"
    return f"{between} (step {decimal(gap)}); yours is {decimal(yours)}, neither of the two."


def repeated_values(seed: int = 1) -> list[Args]:
    """Many equal weights and updates for each case."""
    shape = (SAMPLES // 100, 100)
    return [(np.full(shape, w), np.full(shape, delta), MANTISSA_BITS, Seeded(seed)) for w, delta in CASES]


def _share(case: tuple[float, float]) -> tuple[float, float, float]:
    """The exact value, the step there, and the probability of rounding up."""
    wanted = case[0] + case[1]
    step = float(steps(np.array(wanted), MANTISSA_BITS))
    return wanted, step, wanted / step - math.floor(wanted / step)


def mean_is_right(case: tuple[float, float], result: np.ndarray) -> str:
    """Whether the mean movement over all results is the update, to within six standard errors."""
    _, step, share = _share(case)
    error = DEVIATIONS * math.sqrt(share * (1 - share) / result.size) * step
    moved = float(result.mean()) - case[0]
    if abs(moved - case[1]) <= error:
        return ""
    made = f"A weight of {decimal(case[0])} and an update of {decimal(case[1])}: over {SAMPLES:,} draws it moves by "
    return f"{made}{decimal(round(moved, 5))} on average; wanted are {decimal(case[1])} ± {error:.5f} (six standard errors)."


def weights_are_independent(case: tuple[float, float], result: np.ndarray) -> str:
    """Whether equal weights are rounded independently."""
    wanted, step, _ = _share(case)
    return elements_are_independent(wanted / step, result / step / 4)


def two_seeds() -> list[Args]:
    """Weights and updates with one seed twice, and with another."""
    w, delta = np.repeat([1.0, -3.0, 0.25, 14.0], 100), np.tile(np.linspace(-0.02, 0.02, 100), 4)
    return [(w, delta, MANTISSA_BITS, Seeded(seed)) for seed in (5, 5, 6)]


UPDATE = Exercise(
    id="05.3",
    version=1,
    title="An update that is right on average",
    goal="Goal 3: update weights without a bias",
    minutes=15,
    difficulty=3,
    statement=r"""
        Write `unbiased_update(w, delta, mantissa_bits, rng)`. The weights `w` are floating-point numbers with $m$ = `mantissa_bits` mantissa bits, and the new weights must be such numbers, too. Each new weight is one of the two neighbours of `w + delta`, chosen at random so that the **expected** new
        weight is `w + delta`. If `w + delta` lies in the octave from $2^k$ to $2^{k+1}$, its neighbours are $2^{k-m}$ apart. For a negative sum, the octave is that of its magnitude. Where `w + delta` is itself a number of the format, as 0 is, it stays. Take one draw of `rng.random(w.shape)` for all weights. The exponent has no limits.
    """,
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
        "Try w + delta = 1.1 with two mantissa bits: k is 0, the step 0.25, and 1.1 is 4.4 steps. The neighbours are 4 and 5 steps, and 5 must come up in 0.4 of all draws. Where do you compare the draw with this fraction, and where do steps become a weight again?",
    ),
)
