"""The properties of stochastic rounding say what is wrong: the probability, or draws that elements share."""

import numpy as np
import pytest

from lplab.exercises.checks.stochastic_rounding import elements_are_independent, mean_is_right

SHAPE = (200, 100)


def rounded(fraction, probability, draws):
    """Quarters: the lower neighbour of a fraction, and the upper one where a draw is below the probability."""
    return (np.floor(fraction) + (np.broadcast_to(draws, SHAPE) < probability)) / 4


@pytest.mark.parametrize("probability", [0.1, 0.025, 0.9, 0.5])
def test_a_wrong_probability_is_no_shared_draw(probability):
    result = rounded(0.1, probability, np.random.default_rng(3).random(SHAPE))
    assert elements_are_independent(0.1, result) == ""
    assert ("an unbiased coin gives 0.025" in mean_is_right(0.1, result)) == (probability != 0.1)


@pytest.mark.parametrize(("shape", "sentence"), [
    ((200, 1), "Equal elements share their luck"),
    ((1, 100), "Equal elements share their luck"),
    ((1, 1), "equal elements x = 0.125 became"),
])  # fmt: skip
def test_shared_draws_are_found(shape, sentence):
    result = rounded(0.5, 0.5, np.random.default_rng(3).random(shape))
    assert sentence in elements_are_independent(0.5, result)
