"""Projection of rounded gradients: 1 in float32 and with stochastic rounding, less where rounding shrinks them."""

import numpy as np
import pytest

from lplab.training import recipes, tasks
from lplab.training.loop.gradient_projection import gradient_projection, gradients_only

TASK = tasks.get("transformer")


@pytest.fixture(scope="module")
def batch():
    return TASK.data(4, 0)(0)


def gains(recipe, batch):
    return gradient_projection(TASK.model(0), recipe, *batch)


def test_float32_loses_nothing_and_the_model_stays_as_it_is(batch):
    model = TASK.model(0)
    found = gradient_projection(model, "fp32", *batch)
    assert set(found.values()) == {1.0} and len(found) == 15 and all(p.grad is None for p in model.parameters())


def test_radix_4_shrinks_more_the_further_back_and_a_coin_does_not(batch):
    radix4 = gains(gradients_only(recipes.get("int4_fp4_2020")), batch)
    luq = gains(gradients_only(recipes.get("luq_2022")), batch)
    blocks = [np.mean([v for name, v in radix4.items() if name.startswith(f"blocks.{k}.")]) for k in range(3)]
    assert blocks[0] < blocks[1] < blocks[2] < 0.95
    assert abs(np.mean(list(luq.values())) - 1) < 0.05


def test_gradients_only_keeps_the_rules_of_gradients():
    recipe = recipes.get("int4_fp4_2020", scale=2.0**10)
    only = gradients_only(recipe)
    assert only.output_gradient_dw == recipe.output_gradient_dw and only.weight.is_identity
    assert only.loss_scale == 2.0**10 and not only.exceptions
