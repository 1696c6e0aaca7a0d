"""LUQ: the checks hold and fail as they should; bias and error can be measured again."""

import numpy as np
import pytest

from lplab import claims
from lplab.claims.papers import luq_2022
from lplab.claims.papers.luq_2022 import (
    FLOAT,
    LOGNORMAL,
    LUQ_2022,
    NEAREST,
    ONE,
    PHASES,
    TENSORS,
    TWO,
    numbers_of,
    recipe_of,
)
from tests.claims.changed_numbers import but, holds


def roundings(point, seed):
    if "tensor" in point:
        biases = {"one_bias": 0.001, "two_bias": 0.0, "nearest_bias": -0.2}
        return biases | {"one_error": 0.2, "two_error": 0.1, "nearest_error": 0.1}
    return {"loss": {PHASES: 1.0, NEAREST: 0.82}.get(point["rule"], 0.8) + 0.05 * seed}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "one_bias", "value": -0.02, "tensor": LOGNORMAL, "seed": 2}, 0, 0),
    ({"name": "nearest_bias", "value": 0.001}, 0, 0),
    ({"name": "nearest_error", "value": 0.3, "seed": 1}, 0, 1),
    ({"name": "two_error", "value": 0.13, "seed": 0}, 0, 2),
    ({"name": "loss", "value": 0.7, "rule": PHASES, "seed": 2}, 0, 3),
    ({"name": "loss", "value": 0.5, "rule": TWO}, 1, 0),
    ({"name": "loss", "value": 1.2, "rule": NEAREST}, 1, 1),
], ids=["biased", "nearest too", "less variance", "not halved", "no better", "samples help", "bias hurts"])  # fmt: skip
def test_luq_holds_and_can_fail(change, ring, which):
    assert holds(LUQ_2022, roundings) == ([True] * 4, [True] * 2)
    assert not holds(LUQ_2022, but(roundings, **change))[ring][which]


@pytest.mark.parametrize("tensor", TENSORS)
def test_stored_statistics_can_be_measured_again(measured_and_stored, tensor):
    now, kept = measured_and_stored(LUQ_2022, {"tensor": tensor}, 1)
    assert now == kept


def test_rules_differ_in_the_gradients_alone():
    for rule in (ONE, TWO, NEAREST, PHASES):
        recipe = recipe_of(rule)
        assert recipe.weight.is_identity and recipe.activation.is_identity and not recipe.output_gradient_dx.is_identity
    assert recipe_of(TWO).output_gradient_dw.quantizer.samples == 2 and recipe_of(FLOAT).is_identity


def test_one_training_in_short(monkeypatch):
    monkeypatch.setattr(luq_2022, "STEPS", 2)
    assert claims.measure(LUQ_2022, {"rule": TWO}, 0)["steps"] == 2


def test_lognormal_numbers_have_both_signs():
    x = numbers_of(LOGNORMAL, 3)
    assert abs(np.sign(x).mean()) < 0.05 and np.log(np.abs(x)).std() == pytest.approx(2, rel=0.05)
