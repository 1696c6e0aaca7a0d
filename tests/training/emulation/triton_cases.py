"""Trainings whose tensors take the GPU's path, in Triton's interpreter: tests/interpreted.py runs them."""

import pytest
import torch
from torch import nn

from lplab.formats import gpu
from lplab.quantizers import Hadamard
from lplab.training import quantize_model
from tests.interpreted import launches


def steps(recipe: str) -> torch.Tensor:
    """The parameters of a small net after two steps under a recipe."""
    torch.manual_seed(0)
    net = quantize_model(nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 32), nn.Linear(32, 16)), recipe)
    for x in torch.randn(2, 16, 32):
        net.zero_grad()
        net(x).square().sum().backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 0.01 * parameter.grad
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


def training(recipe: str, device: str, count: int) -> None:
    """The same steps with kernels of Triton, which transform operands too, and with whole-array operations."""
    with launches() as names, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hadamard, "apply", None)
        got = steps(recipe)
    assert len(names) > 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "serves", lambda device: False)
        assert torch.equal(steps(recipe), got)
