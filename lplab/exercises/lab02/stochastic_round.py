"""Exercise 02.2: stochastic rounding."""

from __future__ import annotations

import numpy as np

from lplab.exercises.checks.stochastic_rounding import (
    FRACTIONS,
    check_neighbours,
    elements_are_independent,
    for_each_case,
    mean_is_right,
    repeated_values,
    two_seeds,
    uses_the_generator,
)
from lplab.exercises.isolation import Seeded
from lplab.exercises.model.exercise import Example, Exercise, Property, Variant, mistake
from lplab.exercises.model.forms import SameShape


def stochastic_round(x, fraction_bits, rng):
    """x on the grid of step 2**-fraction_bits, up with a probability equal to the fraction cut off."""
    steps = x * 2.0**fraction_bits
    low = np.floor(steps)
    up = rng.random(x.shape) < steps - low
    return (low + up) * 2.0**-fraction_bits


LINE = np.concatenate([np.arange(-12, 13) / 4, np.arange(-12, 13) / 4 + 0.1, [1e-9, -1e-9, 0.24999, -0.24999]])

STOCHASTIC_ROUND = Exercise(
    id="02.2",
    version=1,
    title="Stochastic rounding",
    goal="Goal 2: round with a coin, without a bias",
    minutes=15,
    difficulty=2,
    statement=r"""
        Write `stochastic_round(x, fraction_bits, rng)` for an array `x`. Every element goes to the multiple of $2^{-FL}$ below it or above it, up with a probability equal to the fraction that is cut off. Multiples stay, and nothing saturates here.

        Each element needs a draw of its own. Take it from `rng`, a `numpy.random.Generator`: `rng.random(x.shape)` is uniform in [0, 1).
    """,
    reference=stochastic_round,
    form=SameShape(0),
    accept=check_neighbours,
    examples=(
        Example((np.array([0.25, -1.5, 3.0]), 2, Seeded(1)), "Multiples of the step stay, whatever the coin says."),
        Example((np.array([0.3, 0.3, 0.3, 0.3]), 2, Seeded(2)), "0.3 lies between 0.25 and 0.5."),
        Example((np.array([-0.3, -0.3, -0.3]), 2, Seeded(3)), "Below zero: −0.3 lies between −0.5 and −0.25."),
        Example((np.array([[0.1], [0.9]]), 0, Seeded(4)), "Whole numbers: a step of 1; any shape."),
        Example((np.zeros(4), 3, Seeded(5)), "Zero is a multiple of every step."),
    ),
    boundary=lambda: [(LINE, bits, Seeded(seed)) for bits in (0, 2, 5) for seed in (7, 8)],
    properties=(
        Property("every element has a draw of its own", lambda: repeated_values(2), for_each_case(FRACTIONS, elements_are_independent)),
        Property("the mean of many results is the number itself", repeated_values, for_each_case(FRACTIONS, mean_is_right)),
        Property("the coin comes from the generator that was given", two_seeds, uses_the_generator),
    ),
    conventions=(
        Variant("up when the draw is below the fraction"),
        mistake("the draw is added, and the sum rounded down", "up = rng.random(x.shape) < steps - low", "low, up = np.floor(steps + rng.random(x.shape)), 0"),
    ),
    mistakes=(
        mistake("up and down are exchanged", "< steps - low", "> steps - low"),
        mistake("a coin that knows only heads and tails: half up, half down", "< steps - low", "< 0.5 * (steps > low)"),
        mistake("to nearest: there is no coin", "rng.random(x.shape) < steps - low", "steps - low > 0.5"),
        mistake("to nearest, as np.round does it: there is no coin", "up = rng.random(x.shape) < steps - low", "low, up = np.round(steps), 0"),
        mistake("one draw for the whole array", "rng.random(x.shape)", "rng.random()"),
        mistake("one draw for each row", "rng.random(x.shape)", "rng.random(x.shape[:1] + (1,) * (x.ndim - 1))"),
        mistake("cut off toward zero instead of down", "np.floor(steps)", "np.trunc(steps)"),
        mistake("noise of one step is added and the sum rounded to nearest: two steps away is possible", "up = rng.random(x.shape) < steps - low", "low, up = np.round(steps + rng.random(x.shape) * 2 - 1), 0"),
        mistake("noise from 0 to 1 is added and the sum rounded to nearest: a bias of half a step", "up = rng.random(x.shape) < steps - low", "low, up = np.round(steps + rng.random(x.shape)), 0"),
        mistake("noise from −½ to ½ is added and the sum rounded down: half a step too low", "up = rng.random(x.shape) < steps - low", "low, up = np.floor(steps + rng.random(x.shape) - 0.5), 0"),
        mistake("a generator of one's own, with a fixed seed", "rng.random(x.shape)", "np.random.default_rng(0).random(x.shape)"),
        mistake("the global generator of numpy", "rng.random(x.shape)", "np.random.rand(*x.shape)"),
        mistake("only two random bits", "rng.random(x.shape)", "rng.integers(0, 4, x.shape) / 4"),
        mistake("the result is left in steps", "(low + up) * 2.0**-fraction_bits", "(low + up)"),
        mistake("always up unless exact", "rng.random(x.shape) < steps - low", "steps > low"),
        mistake("normal noise instead of uniform", "rng.random(x.shape)", "abs(rng.normal(size=x.shape))"),
        mistake("a draw equal to the fraction goes up", "< steps - low", "<= (steps - low) - (steps == low)", equivalent="a draw equals the fraction with probability 2⁻⁵³"),
    ),
    hints=(
        "In units of the step: np.floor gives the lower neighbour, what is left is a fraction f in [0, 1). The upper neighbour must come with probability f.",
        "A uniform draw u in [0, 1) is below f with probability exactly f. So `u < f` is the coin, one u for every element. Compare, add the result (True counts as 1), and go back from steps to numbers.",
        "The skeleton: steps = x × 2**FL; low = np.floor(steps); up = rng.random(x.shape) < steps − low; return (low + up) × 2**−FL.",
    ),
)
