"""A recipe that switches in the course of a training: when, what changes, and that it can be resumed around it."""

import copy

import pytest
import torch
from torch import nn

from lplab.quantizers import Amax
from lplab.training import Batches, QuantSpec, Recipe, Switch, Trainer, quantize_model, recipes, switch_recipe
from lplab.training.emulation.conversion import emulation_of

WIDE = Recipe(name="wide")
NARROW = Recipe(name="narrow", weight="e4m3fn", activation="e4m3fn", output_gradient_dw="e5m2")


def trainer(recipe, **options):
    torch.manual_seed(0)
    x = torch.randn(64, 8)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    return Trainer(net, Batches(x, (x[:, 0] > 0).long(), batch=16), recipe, lr=0.1, **options)


def losses(steps):
    return [step.loss for step in steps]


@pytest.mark.parametrize("at", [4, 0.4])
def test_steps_before_are_those_of_the_one_recipe_and_later_ones_go_on_under_the_other(at):
    run = trainer(NARROW.replace(switch=Switch(at, WIDE)))
    found, names = [], []
    for step in run.steps(10):
        found.append(step.loss)
        names.append(emulation_of(run.model).recipe.name)
    assert names == ["narrow"] * 4 + ["wide"] * 6
    by_hand = trainer(NARROW)
    want = losses(by_hand.steps(4))
    switch_recipe(by_hand.model, WIDE)
    assert found == want + losses(by_hand.steps(6))
    assert found != losses(trainer(NARROW).steps(10))


def test_the_forward_pass_alone():
    """Under the wide forward pass y is that of float32, and gradients are rounded as before."""
    recipe = recipes.get("mxfp8_2025").replace(exceptions={})
    layer, x = nn.Linear(70, 40), torch.randn(9, 70)
    model = quantize_model(copy.deepcopy(layer), recipe)
    model(x).sum().backward()
    before = model.weight.grad.clone()
    assert not torch.equal(model(x), layer(x))
    switch_recipe(model, recipe.with_forward(Recipe()))
    model.zero_grad()
    y = model(x)
    y.sum().backward()
    torch.testing.assert_close(y, layer(x), rtol=1e-6, atol=1e-6)
    assert torch.equal(model.weight.grad, before)


@pytest.mark.parametrize("saved", [3, 8])
def test_resuming_before_and_after_the_switch_is_bit_for_bit(saved):
    recipe = recipes.get("nvfp4_2025", switch=0.5)
    whole = trainer(recipe)
    expected = losses(whole.steps(10))
    first, second = trainer(recipe, total_steps=10), trainer(recipe)
    got = losses(first.steps(saved))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert second.total_steps == 10
    assert emulation_of(second.model).recipe.name == emulation_of(first.model).recipe.name
    assert got + losses(second.steps(10 - saved)) == expected


def test_a_checkpoint_from_before_the_switch_takes_the_first_recipe_again():
    run = trainer(NARROW.replace(switch=Switch(4, WIDE)))
    list(run.steps(3))
    state = copy.deepcopy(run.state_dict())
    later = losses(run.steps(4))
    assert emulation_of(run.model).recipe.name == "wide"
    run.load_state_dict(state)
    assert losses(run.steps(4)) == later


def test_overrides_stay():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model = quantize_model(model, NARROW, overrides={"1": "bf16"})
    model(torch.ones(2, 4))
    switch_recipe(model, "hfp8_2019")
    labels = [emulation_of(model).ops[name].rules.weight.format.label for name in ("0", "1")]
    assert labels == ["dlfloat16", "bf16"]  # the first layer of hfp8_2019 is wide


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: Switch(1.5, WIDE), ValueError, "at must be the number of a step or a share above 0 and below 1, got 1.5"),
    (lambda: Switch(-1, WIDE), ValueError, "at must be the number of a step"),
    (lambda: Switch(3, "fp32"), TypeError, "to must be a Recipe, got 'fp32'"),
    (lambda: Switch(3, NARROW.replace(switch=Switch(5, WIDE))), ValueError, "cannot switch again"),
    (lambda: NARROW.replace(switch=Switch(3, Recipe(loss_scale=8.0))), ValueError, "neither the update of weights nor"),
    (lambda: NARROW.replace(switch=3), TypeError, "switch must be a Switch or None"),
    (lambda: switch_recipe(nn.Linear(2, 2), "fp32"), ValueError, "the model is not quantized"),
    (lambda: switch_recipe(quantize_model(nn.Linear(2, 2), "bf16"), "pact_sawb_2019"), ValueError, "trains clips"),
    (lambda: switch_recipe(quantize_model(nn.Linear(2, 2), "bf16"), 3), TypeError, "expected a recipe or its name"),
    (lambda: trainer(NARROW.replace(switch=Switch(0.5, WIDE))).one_step(), ValueError, "pass total_steps to Trainer"),
])  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_late_layers_of_the_other_recipe_are_found_anew():
    net = nn.Sequential(*(nn.Linear(32, 32) for _ in range(4)))
    recipe = recipes.get("nvfp4_2025", late=0.25)
    model = quantize_model(copy.deepcopy(net), NARROW)
    model(torch.randn(2, 32)).sum().backward()  # its ops are there before the switch
    switch_recipe(model, recipe)
    at_once = emulation_of(quantize_model(copy.deepcopy(net), recipe))
    switched = emulation_of(model)
    assert switched.kinds == at_once.kinds and any("late" in kinds for kinds in switched.kinds.values())
    assert {name: op.rules for name, op in switched.ops.items()} == {
        name: at_once.rules_of(name, at_once.kinds[name]) for name in switched.ops
    }
    switch_recipe(model, NARROW)
    assert not any("late" in kinds for kinds in switched.kinds.values())


@pytest.mark.parametrize(
    "rules",
    [
        {"weight": "mxfp4", "weight_dx": "e4m3fn"},
        {"weight": QuantSpec("int8", scaling=Amax(), axis=0), "weight_dx": "e4m3fn"},
        {"activation": "mxfp4", "activation_dw": "bf16"},
    ],
)
def test_axes_that_only_the_forward_product_knows_are_refused(rules):
    """Blocks lie along an axis of the tensor, and each product has its operands in another order."""
    with pytest.raises(ValueError, match="needs axis='contraction', or no axis"):
        Recipe(**rules)


def test_blocks_of_a_backward_pass_that_stays_need_the_axis_of_the_sum():
    with pytest.raises(ValueError, match="needs axis='contraction', or no axis"):
        Recipe(weight="mxfp4", activation="mxfp4").with_forward(Recipe())
