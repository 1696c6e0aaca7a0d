"""A quantized model under PyTorch's own tools: they work with the same bits, or say in one line what to do."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from lplab.formats import Rounding
from lplab.training import quantize_model
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
    """Every part may be computed again in the backward pass: modules, functions, parts inside parts."""

    def __init__(self, how=None):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.heads, self.twice, self.last = nn.Linear(5, 6), Heads(), nn.Linear(6, 6), nn.Linear(6, 3)
        self.table = nn.Parameter(torch.randn(6, 6) / 3)
        self.how = how

    def part(self, function, *args):
        return function(*args) if self.how is None else checkpoint(function, *args, **self.how)

    def raw(self, x):
        return torch.tanh(functional.linear(x, self.table) @ self.table)

    def outer(self, x):
        return self.part(self.heads, functional.silu(self.twice(x))) + self.part(self.raw, x)

    def shared(self, x, y):
        return self.heads.key(x) * y

    def forward(self, x):
        x = torch.tanh(self.first(x))
        x = self.part(self.outer, x)
        x = self.part(self.shared, x, self.heads.query(x))
        x = self.part(self.raw, self.part(self.twice, functional.dropout(x, 0.3)))
        return self.last(x)


HOW = {
    "reentrant": {"use_reentrant": True},
    "not reentrant": {"use_reentrant": False},
    "without early stop": {"use_reentrant": False, "early_stop": False},
}


def trained(how, recipe, steps=3, parts=2, whole=False):
    """Losses and gradients of a few steps, of several parts each."""
    model, seen = quantize_model(Net(how), recipe), []
    torch.manual_seed(1)
    for _ in range(steps):
        model.zero_grad()
        losses = []
        for _ in range(parts):  # all parts go forward before one goes back
            x = torch.randn(2, 4, 5, requires_grad=True)
            y = checkpoint(model, x, **how) if whole and how else model(x)
            losses.append(y.square().sum())
        for loss in losses if not (how and how.get("use_reentrant")) else reversed(losses):
            loss.backward()
        seen += [loss.detach() for loss in losses] + [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return seen, [dict(op.calls) for _, op in sorted(model._lplab_emulation.ops.items())]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("how", HOW)
def test_a_recomputation_gives_the_bits_of_the_forward_pass(how, recipe):
    expected, calls = trained(None, RECIPES[recipe], parts=1)
    found, calls_found = trained(HOW[how], RECIPES[recipe], parts=1)
    assert len(expected) == len(found) and all(map(torch.equal, expected, found)) and calls == calls_found
