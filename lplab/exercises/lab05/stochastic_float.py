"""Tests of stochastic rounding of updates in floating point: neighbours, means, independence. Seeds are fixed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal
from lplab.exercises.checks.stochastic_rounding import DEVIATIONS, SAMPLES, elements_are_independent
from lplab.exercises.isolation import Seeded
from lplab.exercises.model.exercise import Args

MANTISSA_BITS = 2
CASES = ((1.0, 0.025), (1.0, -0.0375), (-6.0, 0.1), (3.5, 0.45), (0.125, -0.004), (48.0, 0.8), (-0.875, -0.0125), (2.0, -0.6))


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
    """The same weights and updates with one seed twice, and with another."""
    w, delta = np.repeat([1.0, -3.0, 0.25, 14.0], 100), np.tile(np.linspace(-0.02, 0.02, 100), 4)
    return [(w, delta, MANTISSA_BITS, Seeded(seed)) for seed in (5, 5, 6)]
