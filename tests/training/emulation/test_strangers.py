"""Networks that nobody designed for lplab, through everything that a user does with a model, under every recipe."""

import copy
import io
import math
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional

from lplab.training import Recorder, Trainer, dequantize_model, quantize_model, recipes
from lplab.training.emulation.conversion import emulation_of
from tests.kinds import in_turn
from tests.training.emulation.strangers import STRANGERS

PAIRS = pytest.mark.parametrize(("name", "recipe"), in_turn(list(STRANGERS), recipes.names(), every=len(STRANGERS)))


def trained(name, recipe, steps=4):
    model, batch, loss = STRANGERS[name]()
    run = Trainer(model, lambda step: batch, recipe, optimizer="adam", lr=0.01, loss=loss)
    return run, [step.loss for step in run.steps(steps)], batch


@PAIRS
def test_it_learns_a_little(name, recipe):
    run, losses, _ = trained(name, recipe, steps=12)
    assert all(map(math.isfinite, losses)) and sum(losses[-3:]) < sum(losses[:3]), losses
    if recipe != "fp32":
        assert len(emulation_of(run.model).ops) >= 8


@PAIRS
def test_it_can_be_copied_saved_loaded_and_evaluated(name, recipe):
    run, _, (x, _) = trained(name, recipe, steps=2)
    model, plain = run.model.eval(), STRANGERS[name](seed=5)[0]
    plain.load_state_dict(model.state_dict(), strict=True)
    dequantized = dequantize_model(model)
    with torch.no_grad():
        assert torch.equal(plain.eval()(x), dequantized(x))
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    others = copy.deepcopy(model), torch.load(file, weights_only=False)
    with torch.no_grad():
        outputs = [each(x) for each in (model, *others)]
    assert torch.equal(outputs[0], outputs[1]) and torch.equal(outputs[0], outputs[2])
    assert outputs[0].isfinite().all()
    if recipe not in ("fp32", "fp16_mixed"):
        assert not torch.equal(outputs[0], plain(x)), "evaluation is under the recipe, too"


@pytest.mark.parametrize("name", STRANGERS)
def test_fp32_is_plain_pytorch_gradients_that_add_up_included(name):
    model, (x, y), loss = STRANGERS[name]()
    quantized = quantize_model(model, "fp32")
    for each in (model, quantized):
        torch.manual_seed(3)  # dropout
        for _ in range(2):
            loss(each(x), y).backward()
    for (key, a), (_, b) in zip(model.named_parameters(), quantized.named_parameters(), strict=True):
        assert (a.grad is None and b.grad is None) or torch.equal(a.grad, b.grad), key


@PAIRS
def test_gradients_accumulate(name, recipe):
    model, (x, y), loss = STRANGERS[name]()
    model = quantize_model(model.eval(), recipe)
    loss(model(x), y).backward()
    once = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
    loss(model(x), y).backward()
    moved = [key for key, p in model.named_parameters() if p.grad is not None and not torch.equal(p.grad, once[key])]
    assert len(once) >= 8 and len(moved) >= len(once) // 2


class InPlace(nn.Module):
    """Every layer followed by an activation that overwrites its output, as in most networks for images."""

    def __init__(self):
        super().__init__()
        self.table, self.linear = nn.Embedding(5, 4), nn.Linear(4, 4)
        self.columns = nn.ModuleList(
            [nn.Conv1d(4, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ConvTranspose1d(4, 4, 1), nn.GroupNorm(2, 4)]
        )
        self.norm, self.gru = nn.LayerNorm(4), nn.GRU(4, 4, batch_first=True)

    def forward(self, ids):
        x = self.norm(self.linear(self.table(ids).relu_()).relu_()).relu_()
        y = x.transpose(1, 2)
        for layer in self.columns:
            y = layer(y).relu_()
        x = self.gru(y.transpose(1, 2))[0].mul_(2)
        x = torch.einsum("btc,bsc->bts", x, x).relu_() @ (x @ x.mT).relu_()
        return functional.scaled_dot_product_attention(x, x, x).relu_()


@pytest.mark.parametrize("recorder", [None, Recorder(every=1)])
@pytest.mark.parametrize("recipe", recipes.names())
def test_outputs_may_be_changed_in_place(recipe, recorder):
    model = quantize_model(InPlace(), recipe)
    with recorder.watching(model, 0) if recorder else nullcontext():
        model(torch.arange(10).reshape(2, 5) % 5).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert model.table.weight.grad is not None and model.gru.weight_hh_l0.grad is not None
