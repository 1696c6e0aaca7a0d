"""Tests of a stochastic rounding: where its results lie, their mean, their independence, their generator.

A right answer exceeds six standard errors with a probability of 2e-9, and all seeds are fixed: no false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal
from lplab.exercises.isolation import Seeded
from lplab.exercises.model.exercise import Args, Finding

SAMPLES = 20_000
DEVIATIONS = 6  # standard errors that a mean may be off


def check_neighbours(args: Args, result: Any) -> str:
    """Whether every element went to one of its two neighbours; "" if so."""
    x, fraction_bits, _ = args
    step = 2.0**-fraction_bits
    low, result = np.floor(x / step) * step, np.asarray(result, dtype=float)
    good = (result == low) | ((result == low + step) & (x != low))
    if good.all():
        return ""
    i = int(np.flatnonzero(~good.ravel())[0])
    value, yours, below = float(x.ravel()[i]), float(result.ravel()[i]), float(low.ravel()[i])
    if value == below:
        stays = f"{decimal(value)} is a multiple of {decimal(step)} already and must stay, whatever the coin says"
        return f"{stays}; yours is {decimal(yours)}."
    between = f"{decimal(value)} lies between {decimal(below)} and {decimal(below + step)}"
    return f"{between}; yours is {decimal(yours)}, neither of the two."


def for_each_case(fractions: Sequence[Any], check: Callable[[Any, np.ndarray], str]) -> Callable[..., Finding | None]:
    """A property that checks many results for each case, such as numbers in quarters (fraction_bits = 2)."""

    def check_all(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
        for fraction, args, result in zip(fractions, calls, results, strict=True):
            sentence = check(fraction, np.asarray(result, dtype=float))
            if sentence:
                return Finding(sentence, args[:0], None)
        return None

    return check_all


FRACTIONS = (0.5, 0.1, 0.9, -0.3, 0.02, 5.75, -2.5)


def repeated_values(seed: int = 1) -> list[Args]:
    """Many equal values for each fraction: their mean shows whether the rounding is unbiased."""
    return [(np.full((SAMPLES // 100, 100), fraction / 4), 2, Seeded(seed)) for fraction in FRACTIONS]


def mean_is_right(fraction: float, result: np.ndarray) -> str:
    """Whether the mean of all results is the value, to within six standard errors."""
    share = fraction - math.floor(fraction)
    error = DEVIATIONS * math.sqrt(share * (1 - share) / result.size) / 4
    mean = float(result.mean())
    if abs(mean - fraction / 4) <= error:
        return ""
    made = f"The mean of {SAMPLES:,} results for x = {decimal(fraction / 4)}, FL = 2, is {decimal(round(mean, 5))}"
    return f"{made}; an unbiased coin gives {decimal(fraction / 4)} ± {error:.5f} (six standard errors)."


def elements_are_independent(fraction: float, result: np.ndarray) -> str:
    """Whether the means of rows and of columns scatter as those of independent draws: chi-squared, six deviations.

    They are compared with the mean and the share of ups of this very result: a wrong probability is no shared draw.
    """
    if (result == result.flat[0]).all():
        same = f"All {result.size:,} equal elements x = {decimal(fraction / 4)} became {decimal(result.flat[0])}"
        return f"{same}: each needs a draw of its own, and some of them must go the other way."
    share = 4 * float(result.mean()) - math.floor(fraction)
    for axis, name in ((0, "columns"), (1, "rows")):
        means = 4 * (result.mean(axis) - result.mean())
        scatter = float((means**2).sum() / (share * (1 - share) / result.shape[axis]))
        if abs(scatter - means.size) > DEVIATIONS * math.sqrt(2 * means.size):
            shared = (
                f"the means of the {name} of one array scatter {scatter / means.size:.2f} times as much as independent"
            )
            return f"Equal elements share their luck: {shared} draws would. Every element needs a draw of its own."
    return ""


def two_seeds() -> list[Args]:
    """Values to round with one seed twice, and with another."""
    x = np.linspace(-2, 2, 1001)
    return [(x, 3, Seeded(5)), (x, 3, Seeded(5)), (x, 3, Seeded(6))]


def uses_the_generator(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Same generator, same result; another one, another result."""
    first, again, other = results
    if not np.array_equal(first, again):
        return Finding(
            "The same generator gave two different results: draw from `rng`.", mistake="the global generator of numpy"
        )
    if np.array_equal(first, other):
        return Finding("Two different generators gave the same result: the coin is not drawn from `rng`.")
    return None
