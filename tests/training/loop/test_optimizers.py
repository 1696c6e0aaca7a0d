"""Rounded updates against torch.optim and against the formulas of the papers, line by line."""

import pytest
import torch
from torch import nn

from lplab import formats
from lplab.training import recipes
from lplab.training.emulation.conversion import quantize_model
from lplab.training.loop.optimizers import SGD, Adam, AdamW, make_optimizer
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import Update

TORCH = {SGD: torch.optim.SGD, Adam: torch.optim.Adam, AdamW: torch.optim.AdamW}


def problem():
    torch.manual_seed(0)
    return nn.Parameter(torch.randn(20, 3)), [torch.randn(20, 3) for _ in range(6)]


def run(make, weight, gradients):
    optimizer = make([weight])
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()
    return weight.detach().clone(), optimizer


@pytest.mark.parametrize("optimizer_class", TORCH)
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}, {"momentum": 0.9, "nesterov": True}, {"amsgrad": True}])
def test_float32_is_torch_optim_bit_for_bit(optimizer_class, options):
    if ("momentum" in options) != (optimizer_class is SGD) and options not in ({}, {"weight_decay": 0.1}):
        options = {}
    (a, gradients), (b, _) = problem(), problem()
    ours, _ = run(lambda p: optimizer_class(p, lr=0.1, **options), a, gradients)
    theirs, _ = run(lambda p: TORCH[optimizer_class](p, lr=0.1, **options), b, gradients)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("optimizer_class", TORCH)
def test_rounding_to_float32_changes_next_to_nothing(optimizer_class):
    """The rounded arithmetic with formats as wide as float32 minus a bit is torch's, to five digits."""
    wide = QuantSpec(formats.FloatFormat(8, 22))
    options = {"weight_decay": 0.1, **({"momentum": 0.9} if optimizer_class is SGD else {})}
    (a, gradients), (b, _) = problem(), problem()
    ours, _ = run(lambda p: optimizer_class(p, lr=0.1, update=Update(wide, wide, wide, wide), **options), a, gradients)
    theirs, _ = run(lambda p: TORCH[optimizer_class](p, lr=0.1, **options), b, gradients)
    assert (ours - theirs).abs().max() < 1e-5


def test_the_three_axpys_of_2018_are_rounded_one_by_one():
    q = lambda x: formats.get("dlfloat16").quantize(x, "nearest_away")  # noqa: E731
    rule = QuantSpec("dlfloat16", "nearest_away")
    weight, gradients = problem()
    with torch.no_grad():
        weight.copy_(q(weight))
    w, v = weight.detach().clone(), None
    result, optimizer = run(lambda p: SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01,
                            update=Update(rule, rule, gradient=rule)), weight, gradients)  # fmt: skip
    for g in gradients:
        g = q(q(g) + 0.01 * w)
        v = q(g if v is None else 0.9 * v + g)
        w = q(w - 0.05 * v)
    assert torch.equal(result, w)
    assert torch.equal(optimizer.state[weight]["momentum_buffer"], v)


def test_velocity_stays_on_the_grid_of_the_weights():
    rule = QuantSpec("q4.12", "nearest_down")
    q = lambda x: formats.get("q4.12").quantize(x, "nearest_down")  # noqa: E731
    weight, gradients = problem()
    with torch.no_grad():
        weight.copy_(q(weight))
    w, v = weight.detach().clone(), torch.zeros_like(weight)
    result, _ = run(lambda p: SGD(p, lr=0.05, momentum=0.5, update=Update(rule, rule, order="velocity")),
                    weight, gradients)  # fmt: skip
    for g in gradients:
        v = q(g.mul(-0.05).add(v, alpha=0.5))
        w = q(w + v)
    assert torch.equal(result, w)


def test_small_updates_are_lost_by_nearest_and_kept_by_stochastic_rounding():
    ends = {}
    for rounding in ("nearest_even", "stochastic"):
        weight = nn.Parameter(torch.ones(2000))
        ends[rounding], _ = run(
            lambda p, r=rounding: SGD(p, lr=1.0, update=Update(weight=QuantSpec("dlfloat16", r)), seed=3),
            weight,
            [torch.full((2000,), 2.0**-13)] * 64,
        )
    assert torch.equal(ends["nearest_even"], torch.ones(2000))
    assert ends["stochastic"].mean() == pytest.approx(1 - 64 * 2.0**-13, abs=2e-4)
    assert len(ends["stochastic"].unique()) > 3


@pytest.mark.parametrize("optimizer_class", TORCH)
def test_a_master_copy_keeps_what_the_model_cannot_hold(optimizer_class):
    weight, _ = problem()
    update = Update(weight="e4m3fn", master_weight=QuantSpec())
    options = {} if optimizer_class is SGD else {"weight_decay": 0.0}
    reference = nn.Parameter(weight.detach().clone())
    gradients = [torch.full_like(weight, 1e-3)] * 50
    result, optimizer = run(lambda p: optimizer_class(p, lr=1e-3, update=update, **options), weight, gradients)
    expected, _ = run(lambda p: TORCH[optimizer_class](p, lr=1e-3, **options), reference, gradients)
    assert torch.allclose(optimizer.state[weight]["master"], expected, atol=1e-6)
    assert torch.equal(result, formats.get("e4m3fn").quantize(optimizer.state[weight]["master"]))


def test_the_second_moment_has_a_rule_of_its_own():
    weight, gradients = problem()
    _, optimizer = run(lambda p: Adam(p, update=Update(momentum="e5m2", variance="bf16")), weight, gradients)
    state, bf16, e5m2 = optimizer.state[weight], formats.get("bf16"), formats.get("e5m2")
    assert torch.equal(state["exp_avg_sq"], bf16.quantize(state["exp_avg_sq"]))
    assert torch.equal(state["exp_avg"], e5m2.quantize(state["exp_avg"]))


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_state_goes_into_checkpoints_and_back(kind):
    model, recipe = nn.Linear(3, 2), recipes.get("fp8_2018")
    more = {"momentum": 0.9} if kind == "sgd" else {}
    gradients = [torch.randn(2, 3) for _ in range(6)]

    def go(model, optimizer, gradients):
        for g in gradients:
            model.weight.grad, model.bias.grad = g.clone(), g.sum(1)
            optimizer.step()

    optimizer = make_optimizer(model, recipe, kind, **more)
    go(model, optimizer, gradients[:3])
    other = nn.Linear(3, 2)
    other.load_state_dict(model.state_dict())
    resumed = make_optimizer(other, recipe, kind, **more)
    other.load_state_dict(model.state_dict())
    resumed.load_state_dict(optimizer.state_dict())
    go(model, optimizer, gradients[3:]), go(other, resumed, gradients[3:])
    assert torch.equal(model.weight, other.weight) and torch.equal(model.bias, other.bias)


def test_make_optimizer_takes_the_name_of_a_recipe():
    weights = []
    for recipe in ("fp8_2018", recipes.get("fp8_2018")):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = make_optimizer(model, recipe, lr=0.1)
        assert optimizer.update == recipes.get("fp8_2018").update
        model(torch.ones(3)).sum().backward()
        optimizer.step()
        weights.append(model.weight.detach())
    assert torch.equal(*weights)
    with pytest.raises(ValueError, match="there is no recipe 'fp8_2019'; did you mean hfp8_2019 or fp8_2018"):
        make_optimizer(nn.Linear(1, 1), "fp8_2019")
    with pytest.raises(TypeError, match="recipe must be a Recipe, the name of one or None, got 8"):
        make_optimizer(nn.Linear(1, 1), 8)
    with pytest.raises(ValueError, match="not quantized; call quantize_model"):
        make_optimizer(nn.Linear(1, 1))


def test_make_optimizer_rounds_stored_weights_and_keeps_clips_apart():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    make_optimizer(model, recipes.get("fp8_2018"))
    assert torch.equal(formats.get("dlfloat16").quantize(model[0].weight), model[0].weight)
    quantized = quantize_model(model, "pact_sawb_2019")
    groups = make_optimizer(quantized, weight_decay=0.1, clip_decay=0.01).param_groups
    assert [(len(g["params"]), g["weight_decay"]) for g in groups] == [(6, 0.1), (1, 0.01)]


def test_bad_arguments_are_explained():
    with pytest.raises(ValueError, match="unknown optimizer 'lion'; allowed: sgd, adam, adamw"):
        make_optimizer(nn.Linear(1, 1), recipes.get("fp32"), "lion")
    with pytest.raises(ValueError, match="a rounded SGD has no nesterov; allowed: maximize"):
        SGD([nn.Parameter(torch.ones(1))], momentum=0.9, nesterov=True, update=Update(weight="bf16"))
    with pytest.raises(ValueError, match="order must be 'axpy' or 'velocity'"):
        Update(order="random")
    with pytest.raises(ValueError, match="no layer, so no scale of a layer"):
        from lplab.training.recipe.quant_spec import LearnedClip

        Update(weight=QuantSpec(scaling=LearnedClip()))
