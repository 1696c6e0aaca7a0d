"""A factor of a product is a weight if it was computed from parameters alone, whatever holds it."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint

from lplab.training import quantize_model, recipes
from lplab.training.emulation.conversion import emulation_of
from lplab.training.emulation.layer_kinds import kinds_of
from lplab.training.recipe.recipe import Recipe

APART = Recipe(weight="int4", activation="e4m3fn", weight_gradient="bf16", input_gradient="e5m2")
DIFFERENT = [
    name
    for name in recipes.names()
    if any(
        (rules.weight, rules.output_gradient_dx, rules.weight_gradient)
        != (rules.activation, rules.output_gradient_dw, rules.input_gradient)
        for rules in (recipes.get(name), *recipes.get(name).exceptions.values())
    )
]
X = 0.7 * torch.randn(4, 8, generator=torch.Generator().manual_seed(1))


class Own(nn.Module):
    """A product that ``forward`` writes itself."""

    def __init__(self, product=lambda module, x: x @ module.w):
        super().__init__()
        torch.manual_seed(0)
        self.w, self.product = nn.Parameter(torch.randn(8, 8) * 3), product
        self.left, self.right = nn.Parameter(torch.randn(8, 2)), nn.Parameter(torch.randn(2, 8))
        self.register_buffer("mask", (torch.randn(8, 8) > 0).float())

    def forward(self, x):
        return self.product(self, x)


class Same(nn.Module):
    """A parametrization that computes, and changes nothing."""

    def forward(self, w):
        return w * 1


def roles_of(call, model, x=X):
    """The roles of the operands of all products, with gradients and without; they must be the same."""
    found = []
    for grad in (True, False):
        seen = []
        emulation_of(model).watch = lambda op, role, before, after, seen=seen: seen.append((op.name, role))
        with torch.set_grad_enabled(grad):
            call(x)
        found.append([(name, role) for name, role in seen if role in ("weight", "activation")])
    assert found[0] == found[1]
    return found[0]


def changed_in_place(x, data):
    x[0] = data
    return x


WEIGHTS = {
    "transposed": lambda m, x: x @ m.w.T,
    "scaled": lambda m, x: x @ (2 * m.w),
    "masked": lambda m, x: x @ (m.mask * m.w),
    "chosen": lambda m, x: x @ torch.where(m.mask > 0, m.w, torch.zeros(())),
    "residual": lambda m, x: x @ (torch.eye(8) + m.w),
    "joined": lambda m, x: x @ torch.cat([m.w, m.w], 1),
    "parts": lambda m, x: x @ m.w.repeat(1, 2).chunk(2, 1)[0],
    "normalized": lambda m, x: x @ functional.normalize(m.w),
    "copied": lambda m, x: x @ m.w.t().contiguous(),
    "by keyword": lambda m, x: x @ torch.mul(input=m.w, other=m.mask),
    "cast": lambda m, x: x @ m.w.double().float(),
    "in place": lambda m, x: x @ changed_in_place(m.w.clone(), 0.0),
    "addmm": lambda m, x: torch.addmm(m.w[0], x, m.w * 1),
    "operator": lambda m, x: torch.ops.aten.mm(x, torch.ops.aten.mul(m.w, 2)),
    "left": lambda m, x: (m.w * 1) @ x.T,
    "einsum": lambda m, x: torch.einsum("bi,oi->bo", x, m.w.tanh()),
    "checkpoint": lambda m, x: checkpoint(torch.matmul, x, m.w * 2, use_reentrant=False),
    "checkpoint, reentrant": lambda m, x: checkpoint(torch.matmul, x, m.w * 2, use_reentrant=True),
}
ACTIVATIONS = {
    "scores": lambda m, x: x @ x.T,
    "scaled by a parameter": lambda m, x: (x * m.w[0]) @ (x + m.w[1]).T,
    "of a learned query": lambda m, x: functional.linear(m.w[:4], m.w) @ x.T,
    "a buffer": lambda m, x: x @ m.mask,
    "a constant": lambda m, x: x @ torch.eye(8),
    "shaped like a weight": lambda m, x: x @ torch.zeros_like(m.w),
    "memory of a parameter's type": lambda m, x: x @ changed_in_place(m.w.new_zeros(8, 8), x[0]),
    "an activation written into a copy": lambda m, x: x @ changed_in_place(m.w.clone(), x[0]),
    "an activation added in place": lambda m, x: x @ (m.w * 1).add_(x[0]),
    "a weight from data": lambda m, x: x @ (m.w * x.mean()),
    "a lookup": lambda m, x: x @ functional.embedding(torch.arange(8), m.w),
}


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("name", [*WEIGHTS, *ACTIVATIONS])
def test_the_rule_for_each_way_to_compute_a_factor(name):
    model = quantize_model(Own(WEIGHTS.get(name) or ACTIVATIONS[name]), APART, first=None, last=None)
    (_, first), (_, second) = roles_of(model, model)[-2:]
    assert {first, second} == ({"activation", "weight"} if name in WEIGHTS else {"activation"})


def test_a_sum_with_a_product_of_weights_is_a_weight():
    model = quantize_model(Own(lambda m, x: x @ (m.w + m.left @ m.right)), APART, first=None, last=None)
    assert [role for _, role in roles_of(model, model)] == ["activation", "weight"] * 2


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad", "ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("reentrant", [True, False])
def test_a_recomputation_knows_the_weights_of_the_forward_pass(reentrant):
    def gradient(part):
        model = quantize_model(
            Own(lambda m, x: part(torch.matmul, x, m.w * 1).square()), "luq_2022", first=None, last=None
        )
        model(X.clone().requires_grad_()).sum().backward()
        return model.w.grad

    expected = gradient(lambda function, *args: function(*args))
    assert torch.equal(gradient(lambda function, *args: checkpoint(function, *args, use_reentrant=reentrant)), expected)


def pruned(model):
    return prune.custom_from_mask(model, "w", torch.ones(8, 8)) and model


def parametrized(model):
    parametrize.register_parametrization(model, "w", Same())
    return model


def replica(model):
    """What nn.DataParallel makes of a module: its parameters are plain tensors."""
    copied = model._replicate_for_data_parallel()
    copied._former_parameters = {name: p * 1 for name, p in model._parameters.items()}
    for name, x in copied._former_parameters.items():
        setattr(copied, name, x)
    return copied


def given(model):
    weights = {name: p * 1 for name, p in model.named_parameters()}
    return lambda x: torch.func.functional_call(model, weights, x)


HOW = {
    "computed": lambda recipe: quantize_model(Own(lambda m, x: x @ (m.w * 1)), recipe, first=None, last=None),
    "pruned": lambda recipe: quantize_model(pruned(Own()), recipe, first=None, last=None),
    "pruned later": lambda recipe: pruned(quantize_model(Own(), recipe, first=None, last=None)),
    "parametrized": lambda recipe: quantize_model(parametrized(Own()), recipe, first=None, last=None),
    "parametrized later": lambda recipe: parametrized(quantize_model(Own(), recipe, first=None, last=None)),
    "functional_call": lambda recipe: given(quantize_model(Own(), recipe, first=None, last=None)),
    "replica": lambda recipe: replica(quantize_model(Own(), recipe, first=None, last=None)),
}


def bits_of(call):
    x = X.clone().requires_grad_()
    y = call(x)
    (2.0**-6 * y.square()).sum().backward()
    return y.detach(), x.grad


@pytest.mark.parametrize("recipe", DIFFERENT)
def test_computed_weights_have_the_bits_of_parameters_under_every_recipe(recipe):
    expected = bits_of(quantize_model(Own(), recipe, first=None, last=None))
    wrong = [name for name, how in HOW.items() if not all(map(torch.equal, bits_of(how(recipe)), expected))]
    assert not wrong


def test_there_are_recipes_in_which_it_matters():
    def differs(recipe):
        weight, activation = (
            bits_of(quantize_model(Own(product), recipe, first=None, last=None))
            for product in (lambda m, x: x @ m.w, lambda m, x: x @ (m.w + 0 * x.mean()))
        )
        return not all(map(torch.equal, weight, activation))

    found = set(filter(differs, DIFFERENT))
    assert "pact_sawb_2019" in found and len(found) >= 3


@pytest.mark.filterwarnings("ignore:.*:FutureWarning", "ignore:.*:DeprecationWarning")
@pytest.mark.parametrize(
    "norm",
    [
        torch.nn.utils.weight_norm,
        torch.nn.utils.spectral_norm,
        parametrizations.weight_norm,
        parametrizations.spectral_norm,
    ],
)
def test_norms_of_weights_give_weights_and_leave_the_layer_its_name(norm):
    model = quantize_model(nn.Sequential(norm(Own(), "w"), nn.Linear(8, 2)), APART)
    assert roles_of(model, model)[-4:] == [("0", "activation"), ("0", "weight"), ("1", "activation"), ("1", "weight")]


def test_a_cached_weight_is_a_weight_in_each_call():
    model = quantize_model(parametrized(Own()), APART, first=None, last=None)
    with parametrize.cached():
        assert model.w.shape == (8, 8)  # computed outside of the model
        assert [role for _, role in roles_of(model, model)] == ["activation", "weight"]


def test_modules_that_compute_weights_are_no_layers():
    class LowRank(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(8, 2)), nn.Parameter(torch.ones(2, 8))

        def forward(self, w):
            return w + self.a @ self.b

    model = nn.Sequential(Own(), nn.Linear(8, 8), nn.Linear(8, 8))
    plain = kinds_of(copy.deepcopy(model))
    for layer, name in ((model[0], "w"), (model[1], "weight"), (model[2], "weight")):
        parametrize.register_parametrization(layer, name, LowRank())
    assert kinds_of(model) == plain == {"0": {"first"}, "1": set(), "2": {"last"}}
