"""Convolutions whose every addition is rounded: PyTorch's where the register is wide, products of patches where not."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from lplab.arithmetic import Accumulator, matmul
from lplab.formats import FloatFormat
from lplab.training import quantize_model
from lplab.training.recipe.recipe import CHUNKED, Recipe

SHAPES = {1: (2, 4, 11), 2: (2, 4, 9, 8)}
OPTIONS = [
    {}, {"groups": 2}, {"groups": 4}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2}, {"padding": "same"},
    {"padding": 1, "padding_mode": "circular"}, {"bias": False}, {"groups": 2, "stride": 2, "dilation": 2},
]  # fmt: skip


def layer(dimensions, **options):
    torch.manual_seed(0)
    return {1: nn.Conv1d, 2: nn.Conv2d}[dimensions](4, 8, 3, **options)


def results(model, x):
    """The output and the gradients for the input and all parameters."""
    x = x.clone().requires_grad_()
    y = model(x)
    y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(1)))
    return [y.detach(), x.grad, *(p.grad for p in model.parameters())]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_wide_register_gives_pytorchs_convolution_forward_and_backward(dimensions, options):
    """A register with 22 mantissa bits: sums of at most a few hundred terms, five digits."""
    x = torch.randn(SHAPES[dimensions], generator=torch.Generator().manual_seed(2))
    plain = layer(dimensions, **options)
    rounded = quantize_model(plain, Recipe(accumulator=Accumulator(FloatFormat(8, 22))), first=None, last=None)
    for one, other in zip(results(plain, x), results(rounded, x), strict=True):
        assert one.shape == other.shape and (one - other).abs().max() < 1e-5 * (1 + one.abs().max())


def test_sums_are_those_of_the_rows_of_unfold():
    """1-6-9 in chunks of 64: the forward product bit by bit, and the update product over images and positions."""
    x = torch.randn(SHAPES[2], generator=torch.Generator().manual_seed(3))
    conv = quantize_model(layer(2, bias=False), Recipe(accumulator=CHUNKED), first=None, last=None)
    y = conv(x)
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(4))
    y.backward(dy)
    columns = functional.unfold(x, 3)  # [image, channel · kernel, position]
    weight = conv.weight.detach()
    assert torch.equal(y.detach().flatten(2), matmul(weight.flatten(1), columns, CHUNKED))
    rows, terms = dy.flatten(2).transpose(0, 1).flatten(1), columns.permute(1, 0, 2).flatten(1)
    assert torch.equal(conv.weight.grad.flatten(1), matmul(rows, terms.t(), CHUNKED))
    assert not torch.equal(y.detach(), functional.conv2d(x, weight))


@pytest.mark.parametrize(("module", "x", "message"), [
    (nn.ConvTranspose2d(2, 2, 3), torch.ones(1, 2, 4, 4), "0: a transposed convolution with an accumulator"),
    (nn.Conv3d(2, 2, 2), torch.ones(1, 2, 3, 3, 3), "0: a convolution in three dimensions with an accumulator"),
])  # fmt: skip
def test_unsupported_convolutions_are_named(module, x, message):
    model = quantize_model(nn.Sequential(module), Recipe(accumulator="chunked"))
    with pytest.raises(NotImplementedError, match=f"{message} is not supported; pass accumulator=None"):
        model(x)
