"""torch.autocast does not act on what a recipe computes, wherever it is switched on."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from lplab.training.emulation.conversion import float32, quantize_model


def autocast(enabled=True):
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled)


class Inside(nn.Module):
    """Calls a function of its parts, with autocast on or off; the last layer is outside."""

    def __init__(self, function, enabled):
        super().__init__()
        torch.manual_seed(0)
        self.function, self.enabled = function, enabled
        self.layer, self.weight = nn.Linear(8, 8), nn.Parameter(torch.randn(8, 8))
        self.conv, self.lstm, self.cell = nn.Conv1d(8, 8, 1), nn.LSTM(8, 8), nn.GRUCell(8, 8)
        self.attention, self.last = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 8)

    def forward(self, x):
        with autocast(self.enabled):
            y = self.function(self, x)
        return self.last(y)


def switched_off_again(model, x):
    with autocast(False):
        y = model.layer(x)
    with autocast():
        return model.layer(y)


class OwnProduct(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight.sum(0)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient * weight.sum(0), (gradient * x).sum(0).expand_as(weight)


FUNCTIONS = {
    "layer": lambda m, x: m.layer(x), "product": lambda m, x: x @ m.weight,
    "sum": lambda m, x: torch.addmm(x, x, m.weight),
    "einsum": lambda m, x: torch.einsum("ij,jk", x, m.weight), "convolution": lambda m, x: m.conv(x[..., None])[..., 0],
    "lstm": lambda m, x: m.lstm(x[:, None])[0][:, 0], "cell": lambda m, x: m.cell(x),
    "attention": lambda m, x: F.scaled_dot_product_attention(m.layer(x), x, x),
    "attention layer": lambda m, x: m.attention(x[None], x[None], x[None])[0][0], "nested": switched_off_again,
    "recomputed": lambda m, x: checkpoint(m.layer, x, use_reentrant=False),
    "own": lambda m, x: OwnProduct.apply(m.layer(x), m.weight),
    "recomputed, reentrant": lambda m, x: checkpoint(m.layer, x, use_reentrant=True),
}  # fmt: skip


def results(recipe, function, inside=False, around=False, backward=False):
    model = quantize_model(Inside(function, inside), recipe, first=None, last=None)
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
    with autocast(around):
        y = model(x)
    with autocast(backward):
        y.square().sum().backward()
    return [y.detach(), x.grad, *(p.grad for p in model.parameters() if p.grad is not None)]


@pytest.mark.parametrize("recipe", ["hfp8_2019", "mxfp8_2025", "int4_fp4_2020"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_bit_is_that_without_autocast(recipe, name):
    expected = results(recipe, FUNCTIONS[name])
    assert expected[0].dtype == torch.float32
    for where in (
        {"inside": True},
        {"around": True},
        {"backward": True},
        {"inside": True, "around": True, "backward": True},
    ):
        assert all(map(torch.equal, results(recipe, FUNCTIONS[name], **where), expected)), where
    assert not torch.is_autocast_enabled("cpu")


def test_operands_of_16_bits_are_taken_in_float32_as_autocast_would_take_them():
    model = quantize_model(Inside(lambda m, x: m.layer(x.bfloat16()), True), "hfp8_2019")
    x = torch.randn(8, 8).bfloat16().float()
    y = model(x)
    model.function = FUNCTIONS["layer"]
    assert torch.equal(model(x), y)


def test_layers_in_float32_stay_there_and_plain_models_take_autocast():
    plain = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    x = torch.randn(4, 8)
    model = quantize_model(plain, "hfp8_2019", skip="0", first=None, last=None)
    with autocast():
        expected = plain(x)
        assert expected.dtype == torch.bfloat16 and torch.equal(quantize_model(plain, "fp32")(x), expected)
        with float32(model):
            assert torch.equal(model(x), expected)
        y = model(x)
    assert y.dtype == torch.float32 and torch.equal(model(x), y)
    with autocast():
        between = model[0](x)
    assert torch.equal(between, plain[0](x))
