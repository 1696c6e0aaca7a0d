"""A recipe made of ingredients: the published ones are the published recipes, and each helper changes its own part."""

import pytest

from lplab.recordings.ingredient_runs import (
    COMBINATIONS,
    MXFP4_2025,
    MXFP8_2025,
    NVFP4_2025,
    PLAIN,
    SWITCHED,
    Ingredients,
)
from lplab.training import recipes
from lplab.training.recipe.ingredient_recipes import recipe_of


def same(ours, published):
    """Whether all rules agree; names and sources differ."""
    return (ours.layers, ours.exceptions, ours.late_share) == (
        published.layers,
        published.exceptions,
        published.late_share,
    )


@pytest.mark.parametrize(
    ("chosen", "name", "switches"),
    [
        (NVFP4_2025, "nvfp4_2025", {}),
        (MXFP4_2025, "mxfp4_2025", {}),
        (MXFP8_2025, "mxfp8_2025", {}),
        (NVFP4_2025.without("hadamard"), "nvfp4_2025", {"hadamard": 0}),
        (NVFP4_2025.without("stochastic"), "nvfp4_2025", {"rounding": "nearest_even"}),
        (NVFP4_2025.without("tiles"), "nvfp4_2025", {"weight_tile": None}),
        (NVFP4_2025.without("late"), "nvfp4_2025", {"late": 0.0}),
        (MXFP4_2025.without("hadamard"), "mxfp4_2025", {"hadamard": 0}),
        (MXFP4_2025.without("stochastic"), "mxfp4_2025", {"rounding": "nearest_even", "pre_scale": 1.0}),
    ],
)
def test_a_published_recipe_is_the_published_one(chosen, name, switches):
    assert same(recipe_of(chosen), recipes.get(name, **switches))


def test_the_switch_is_that_of_the_published_recipe():
    ours, published = recipe_of(SWITCHED), recipes.get("nvfp4_2025", switch=0.82)
    assert same(ours, published) and same(ours.switch.to, published.switch.to) and ours.switch.at == 0.82
    assert recipe_of(SWITCHED, 582).switch.at == 582


@pytest.mark.parametrize("chosen", COMBINATIONS, ids=lambda each: each.name)
def test_each_pass_has_its_format(chosen):
    made = recipe_of(chosen).layers
    again = made.weight_dx or made.weight
    for rule, kind in ((made.weight, chosen.forward), (made.activation, chosen.forward), (again, chosen.backward)):
        assert rule.grid.startswith(kind), rule
    for rule in (made.output_gradient_dx, made.output_gradient_dw, made.activation_dw or made.activation):
        assert rule.grid.startswith(chosen.backward), rule
    assert (made.weight_dx is None) == chosen.tiles
    assert (made.output_gradient_dw.transform is not None) == chosen.hadamard


def test_bf16_in_both_passes_is_the_recipe_of_bf16_but_for_what_is_wide_anyway():
    made, published = recipe_of(PLAIN["bf16"]).layers, recipes.get("bf16").layers
    assert made.weight == published.weight and made.output_gradient_dx == published.output_gradient_dx


def test_late_layers_are_wide_beside_any_formats():
    made = recipe_of(Ingredients("mxfp4", "mxfp4", late=True))
    assert made.late_share == 0.15 and made.exceptions["late"].weight.grid == "bf16"
