"""Tensors that are not on the CPU: the rounding of every recipe gives the same bits, and every recipe trains there."""

import math

import pytest
import torch
from torch import nn

from lplab.formats.paths import kernel_selection
from lplab.training import Trainer, recipes
from lplab.training.emulation import prepared_rounding
from lplab.training.emulation.rounders import rounder_of
from lplab.training.recipe.recipe import BACKWARD_OPERANDS, ROLES

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
RULES = sorted(
    {
        rule
        for name in recipes.names()
        for layer in (recipes.get(name), *recipes.get(name).exceptions.values())
        for rule in (getattr(layer, role) for role in (*ROLES, *BACKWARD_OPERANDS))
        if rule is not None and not rule.rounding.is_stochastic and not rule.learned and "LUQ" not in repr(rule)
    },
    key=repr,
)


def numbers():
    """Numbers over sixty octaves, every special one, and one after another in two orders of memory."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 50, generator=generator) * torch.exp2(torch.randint(-30, 30, (50,), generator=generator))
    x.view(-1)[:5] = torch.tensor([0.0, -0.0, 1e-42, 65504.0, -3e38])
    return [x, x.t()]


def test_there_are_rules_to_compare():
    assert len(RULES) >= 9


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("device", ["elsewhere", pytest.param("cuda", marks=CUDA)])
def test_rounding_gives_the_bits_of_the_cpu(rule, device, monkeypatch):
    """The way that tensors of other devices take is walked on the CPU, too: "elsewhere"."""
    monkeypatch.setattr(kernel_selection, "MIN_ELEMENTS_BEFORE_LOADING", 0)  # compiled loops from the first number on
    wanted = [rounder_of(rule)(x, 0, 4.0).values for x in numbers()]
    rounder_of.cache_clear()
    prepared_rounding.prepared.cache_clear()
    if device == "elsewhere":
        monkeypatch.setattr(prepared_rounding, "_fits", lambda x: False)
    for x, want in zip(numbers(), wanted, strict=True):
        got = rounder_of(rule)(x.cuda() if device == "cuda" else x, 0, 4.0).values
        assert got.device.type == ("cuda" if device == "cuda" else "cpu")
        assert torch.equal(got.cpu(), want) and torch.equal(got.cpu().signbit(), want.signbit())


@pytest.mark.parametrize("recipe", recipes.names())
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=CUDA)])
def test_every_recipe_trains_on_every_device(recipe, device):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(64, 8), nn.ReLU(),
        nn.Linear(8, 3),
    ).to(device)  # fmt: skip
    batch = torch.rand(6, 1, 8, 8, device=device), torch.arange(6, device=device) % 3
    run = Trainer(net, lambda step: batch, recipe, lr=0.05, momentum=0.9)
    assert all(math.isfinite(step.loss) for step in run.steps(3))
    assert {p.device.type for p in run.model.parameters()} == {device}
