"""The same first weights on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn


def initialize(model: nn.Module, seed: int = 0) -> nn.Module:
    """Fill the weights in place from ``seed`` and return the model; the same bits on every machine.

    Matrices, kernels and embeddings: uniform in ±1/√fan_in, PyTorch's own default for linear and convolution layers
    (an embedding's fan-in is its width). Norm scales are 1, everything else 0. The numbers come from numpy: uniform
    multiples of 2^-23 times a constant round the same way on every processor, torch's normal numbers do not.

    >>> a, b = (initialize(nn.Linear(4, 2), seed=1) for _ in range(2))
    >>> bool((a.weight == b.weight).all()), bool((a.weight.abs() <= 0.5).all())
    (True, True)
    """
    generator = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                bound = np.float32(1 / math.sqrt(math.prod(parameter.shape[1:])))
                uniform = 2 * generator.random(tuple(parameter.shape), dtype=np.float32) - 1
                parameter.copy_(torch.from_numpy(uniform * bound))
            else:
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)
    return model


def made(make: Callable[..., Any], seed: int, *args: Any, **kwargs: Any) -> Any:
    """A model with the weights of ``seed``; torch's global random state stays as it was.

    >>> made(nn.Linear, 3, 4, 2).weight.shape
    torch.Size([2, 4])
    """
    with torch.random.fork_rng(devices=[]):  # PyTorch's constructors draw numbers that initialize() replaces
        model = make(*args, **kwargs)
    initialize(model, seed)
    return model
