"""Models nobody designed for lplab train under every recipe, and recipe fp32 changes no bit of them."""

import copy

import pytest
import torch

from lplab.training import recipes
from lplab.training.emulation.conversion import emulation_of, quantize_model
from tests.kinds import in_turn
from tests.training.emulation.foreign import FOREIGN


def scale_of(recipe):
    """A constant in the place of the loss scale; Adam takes it out again."""
    return {"dynamic": 1024.0, "batch": 8.0}.get(recipe.loss_scale, recipe.loss_scale)


def train(model, loss_of, steps, lr=0.01, scale=1.0):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        loss = loss_of(model)
        optimizer.zero_grad()
        (loss * scale).backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(("name", "recipe"), in_turn(list(FOREIGN), recipes.names(), every=4 * len(FOREIGN)))
def test_foreign_models_learn_under_every_recipe(name, recipe):
    model, loss_of = FOREIGN[name]()
    quantized = quantize_model(model, recipe)
    losses = train(quantized, loss_of, steps=60, scale=scale_of(recipes.get(recipe)))
    assert losses[-1] < 0.9 * losses[0], losses
    if recipe != "fp32":
        assert len(emulation_of(quantized).ops) >= 5


@pytest.mark.parametrize("name", FOREIGN)
def test_fp32_is_plain_pytorch_bit_for_bit(name):
    model, loss_of = FOREIGN[name]()
    plain, quantized = copy.deepcopy(model), quantize_model(model, "fp32")
    torch.manual_seed(1)  # dropout
    expected = train(plain, loss_of, 5)
    torch.manual_seed(1)
    assert train(quantized, loss_of, 5) == expected
    for (key, a), b in zip(plain.state_dict().items(), quantized.state_dict().values(), strict=True):
        assert torch.equal(a, b), key
