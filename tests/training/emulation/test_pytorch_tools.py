"""A quantized model under PyTorch's own tools: they work with the same bits, or say in one line what to do."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from lplab.formats import Rounding
from lplab.training import float32, quantize_model
from lplab.training.emulation.conversion import emulation_of
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import Recipe

STOCHASTIC = QuantSpec("e4m3", rounding=Rounding("stochastic"))
ALL_RANDOM = Recipe(
    weight=STOCHASTIC, activation=STOCHASTIC, output=STOCHASTIC, output_gradient_dx=STOCHASTIC, output_gradient_dw=STOCHASTIC,
    weight_gradient=STOCHASTIC, input_gradient=STOCHASTIC,
)  # fmt: skip
RECIPES = {"all random": ALL_RANDOM, "luq_2022": "luq_2022", "int4_fp4_2020": "int4_fp4_2020", "pact": "pact_sawb_2019"}


# ---- activation checkpointing ----------------------------------------------------------------------------------------


class Heads(nn.Module):
    """Two layers that take the same input, and products without a module of their own."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(6, 6), nn.Linear(6, 6)
        self.mix = nn.Parameter(torch.randn(6, 6) / 3)

    def forward(self, x):
        return functional.gelu(self.query(x) @ self.key(x).mT) @ functional.linear(x, self.mix)


class Net(nn.Module):
    """Every part may be computed again in the backward pass: modules, functions, parts inside parts.

    No weight is used in two parts: PyTorch's reentrant checkpoints would add its gradients in another order.
    """

    def __init__(self, how=None):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.heads, self.last = nn.Linear(5, 6), Heads(), nn.Linear(6, 3)
        self.query, self.key, self.inner, self.middle = (nn.Linear(6, 6) for _ in range(4))
        self.table, self.other = (nn.Parameter(torch.randn(6, 6) / 3) for _ in range(2))
        self.how = how

    def part(self, function, *args):
        return function(*args) if self.how is None else checkpoint(function, *args, **self.how)

    def raw(self, x, table):
        return torch.tanh(functional.linear(x, table) @ table)

    def outer(self, x):
        return self.part(self.heads, functional.silu(self.inner(x))) + self.part(self.raw, x, self.table)

    def shared(self, x, y):
        return self.key(x) * y

    def forward(self, x):
        x = torch.tanh(self.first(x))
        x = self.part(self.outer, x)
        x = self.part(self.shared, x, self.query(x))
        x = self.part(self.raw, self.part(self.middle, functional.dropout(x, 0.3)), self.other)
        return self.last(x)


HOW: dict[str, dict] = {
    "reentrant": {"use_reentrant": True},
    "not reentrant": {"use_reentrant": False},
    "without early stop": {"use_reentrant": False, "early_stop": False},
}


def trained(how, recipe, whole=False, steps=2):
    """Losses and gradients of a few steps of two parts each, and how many random numbers each op has drawn."""
    model, seen = quantize_model(Net(None if whole else how), recipe), []
    torch.manual_seed(1)
    for _ in range(steps):
        model.zero_grad()
        inputs = [torch.randn(2, 4, 5, requires_grad=True) for _ in range(2)]
        outputs = [checkpoint(model, x, **how) if whole and how else model(x) for x in inputs]
        losses = [y.square().sum() for y in outputs]
        for loss in losses:  # both parts have gone forward before one goes back
            loss.backward()
        seen += losses + [p.grad for p in (*inputs, *model.parameters()) if p.grad is not None]
    return seen, [dict(op.calls) for _, op in sorted(emulation_of(model).ops.items())]


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # of a part inside a part
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recomputation_gives_the_bits_of_the_forward_pass(recipe):
    (expected, calls), wrong = trained(None, RECIPES[recipe]), []
    for name, how in HOW.items():
        for whole in (False, True):
            found, found_calls = trained(how, RECIPES[recipe], whole)
            assert len(found) == len(expected)
            if calls != found_calls or not all(map(torch.equal, expected, found)):
                wrong.append((name, "whole model" if whole else "parts"))
    assert not wrong


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_a_part_that_ran_in_float32_is_recomputed_in_float32():
    gradients = []
    for how in (None, *HOW.values()):
        model = quantize_model(Net(how), "int4_fp4_2020")
        with float32(model):
            loss = model(torch.ones(2, 4, 5)).sum()
        loss.backward()
        gradients.append(model.heads.query.weight.grad)
    assert all(torch.allclose(gradients[0], each, rtol=1e-5) for each in gradients)


def test_a_recomputation_on_another_path_is_refused():
    model, runs = quantize_model(nn.Linear(4, 4), ALL_RANDOM, first=None, last=None), []

    def twice_when_recomputed(x):
        runs.append(1)
        return model(model(x)) if len(runs) > 1 else torch.relu(model(x))

    y = checkpoint(twice_when_recomputed, torch.ones(2, 4, requires_grad=True), use_reentrant=True)
    with pytest.raises(RuntimeError, match="takes another path than the forward pass did"):
        y.sum().backward()
    assert model(torch.ones(2, 4)).isfinite().all() and not emulation_of(model).thread.again
