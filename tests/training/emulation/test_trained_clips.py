"""Clips that train: the gradients of PACT as published, for one-sided and two-sided inputs."""

import pytest
import torch

from lplab.quantizers import pact_backward, pact_forward
from lplab.training import quantize_model
from lplab.training.emulation.rounders import clip_rounder
from lplab.training.emulation.trained_clips import ClipGradient
from lplab.training.recipe.quant_spec import LearnedClip, QuantSpec
from lplab.training.recipe.recipe import Recipe


def clip(x, alpha, bits, signed):
    bound = float(alpha.detach())
    values = clip_rounder(bits, signed).values(x.detach(), scale=bound)
    return ClipGradient.apply(x, alpha, lambda: values, bound, signed)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_one_sided_clips_are_pact(bits):
    torch.manual_seed(0)
    x, alpha = torch.randn(1000, requires_grad=True), torch.tensor(0.9, requires_grad=True)
    dy = torch.randn(1000)
    y = clip(x, alpha, bits, signed=False)
    y.backward(dy)
    bound = float(alpha.detach())
    for_x, for_alpha = pact_backward(x.detach(), bound, dy)
    assert torch.allclose(y, pact_forward(x.detach(), bound, bits), atol=1e-6)
    assert torch.equal(x.grad, for_x) and alpha.grad.item() == pytest.approx(for_alpha, rel=1e-6)


def test_two_sided_clips_are_symmetric():
    x, alpha = torch.tensor([-2.0, -0.4, 0.3, 1.0, 3.0], requires_grad=True), torch.tensor(1.0, requires_grad=True)
    y = clip(x, alpha, 2, signed=True)
    y.backward(torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0]))
    assert y.tolist() == [-1, 0, 0, 1, 1] and x.grad.tolist() == [0, 2, 4, 0, 0] and alpha.grad.item() == 8 + 16 - 1
    assert len(clip_rounder(4, signed=True).values(torch.linspace(-2, 2, 99), scale=1.0).unique()) == 15


@pytest.mark.parametrize("signed", [False, True])
def test_gradients_do_not_depend_on_the_dtype(signed):
    """float32 on the CPU saves sides and has compiled loops; other dtypes save x and take array operations."""
    x = torch.tensor([-3.0, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, 3.0, torch.nan, torch.inf])
    dy, gradients = torch.arange(1.0, 11.0), []
    for dtype in (torch.float32, torch.float64):
        leaf = x.to(dtype, copy=True).requires_grad_()
        alpha = torch.tensor(2.0, dtype=dtype, requires_grad=True)
        clip(leaf, alpha, 4, signed).backward(dy.to(dtype))
        gradients.append((leaf.grad.tolist(), alpha.grad.item()))
    assert gradients[0] == gradients[1] and gradients[0][0][8] == 0


def test_the_first_input_sets_the_clip_and_its_sides():
    recipe = Recipe(activation=QuantSpec(scaling=LearnedClip(4)))
    for sign, signed in ((1, False), (-1, True)):
        model = quantize_model(torch.nn.Linear(100, 1), recipe, first=None, last=None)
        x = torch.linspace(0, 1, 3000).reshape(30, 100)
        model(sign * x)
        assert model.pact_alpha.item() == pytest.approx(0.999, abs=2e-3)
        assert model._lplab_emulation.ops[""].clip_signed is signed


@pytest.mark.parametrize("nothing", [torch.zeros(3, 100), torch.zeros(0, 100), torch.full((3, 100), torch.nan)])
def test_an_input_without_numbers_sets_nothing(nothing):
    """A dead layer, an empty batch, a NaN: the clip waits for the first input that says how large inputs are."""
    model = quantize_model(
        torch.nn.Linear(100, 1), Recipe(activation=QuantSpec(scaling=LearnedClip(4))), first=None, last=None
    )
    model(nothing).sum().backward()
    op = model._lplab_emulation.ops[""]
    assert model.pact_alpha.item() == 10 and op.clip_signed is None
    model(torch.linspace(-1, 0, 3000).reshape(30, 100))
    assert model.pact_alpha.item() == pytest.approx(0.999, abs=2e-3) and op.clip_signed


def test_training_pulls_the_clip_along():
    torch.manual_seed(0)
    model = quantize_model(torch.nn.Linear(8, 1), Recipe(activation=QuantSpec(scaling=LearnedClip(4, initial=10.0))),
                           first=None, last=None)  # fmt: skip
    x = torch.rand(64, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=0.1)
    for _ in range(60):
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert 0.5 < model.pact_alpha.item() < 9
