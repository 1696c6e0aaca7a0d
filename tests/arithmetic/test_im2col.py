"""im2col: against torch's unfold, and a convolution with rounded sums."""

import pytest
import torch
from torch.nn import functional

from lplab.arithmetic import Accumulator, matmul, reference_sums
from lplab.arithmetic.im2col import im2col

from .operands import assert_same


@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 2)])
def test_as_unfold(kernel, stride, padding, dilation):
    x = torch.randn(2, 3, 7, 8)
    unfolded = functional.unfold(x, kernel, dilation, padding, stride).permute(1, 0, 2).flatten(1)
    assert torch.equal(im2col(x, kernel, stride, padding, dilation), unfolded)


def test_a_convolution_and_its_gradients():
    x, weight = torch.randint(-3, 4, (2, 3, 5, 5)).float(), torch.randint(-3, 4, (4, 3, 3, 3)).float()
    x.requires_grad_()
    weight.requires_grad_()
    y = matmul(weight.flatten(1), im2col(x, (3, 3), padding=(1, 1)), "fp32").reshape(4, 2, 5, 5).transpose(0, 1)
    y.square().sum().backward()
    got = [y.detach(), x.grad.clone(), weight.grad.clone()]
    x.grad = weight.grad = None
    plain = functional.conv2d(x, weight, padding=1)
    plain.square().sum().backward()
    assert all(torch.equal(one, other) for one, other in zip(got, (plain, x.grad, weight.grad), strict=True))


def test_every_addition_is_rounded():
    """In the order channel, kernel row, kernel column."""
    x, weight = torch.randn(1, 2, 4, 4), torch.randn(3, 2, 3, 3)
    how = Accumulator("e4m3fn", chunk=4)
    columns = im2col(x, (3, 3))
    want = reference_sums.matmul(weight.flatten(1).double().numpy(), columns.double().numpy(), how)
    assert_same(matmul(weight.flatten(1), columns, how), want)


def test_errors():
    with pytest.raises(ValueError, match="batch, channels, height, width"):
        im2col(torch.ones(3, 3), (1, 1))
    with pytest.raises(ValueError, match="larger than the padded image"):
        im2col(torch.ones(1, 1, 3, 3), (2, 2), dilation=(3, 1))
