"""The measured time of a training step on this machine, to compare with a model of hardware.

This module needs PyTorch.
"""

from __future__ import annotations

import time
from typing import Any

from torch import nn

from lplab.checks import check_int


def step_seconds(model: nn.Module, inputs: Any, *, repeats: int = 5) -> float:
    """Seconds of the fastest of some training steps in float32: forward pass, backward pass, update with momentum.

    The loss is the mean square of the output: it does not affect the time. The model's weights change.

    Args:
        model: any module whose output is one tensor.
        inputs: a batch.
        repeats: steps, after one that is not counted.

    >>> import torch
    >>> step_seconds(nn.Linear(64, 10), torch.ones(8, 64), repeats=2) > 0
    True
    """
    import torch

    check_int("repeats", repeats, 1, 10**6)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    took = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        took.append(time.perf_counter() - start)
    return min(took[1:])
