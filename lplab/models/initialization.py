"""Initial weights that have the same bits on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature
from typing import Any, get_origin, get_type_hints

import numpy as np
import torch
from torch import nn

from lplab.checks import check_int

MAX_SIZE = 2**24  # of a width, depth or vocabulary; larger models cannot be trained anyway


def initialize(model: nn.Module, seed: int = 0) -> nn.Module:
    """Fill the weights in place from ``seed`` and return the model; the same bits on every machine.

    Matrices, kernels and embeddings: uniform in ±1/√fan_in, PyTorch's own default for linear and convolution layers
    (an embedding's fan-in is its width). Norm scales are 1, everything else 0. The numbers come from numpy: uniform
    multiples of 2^-23 times a constant round the same way on every processor, torch's normal random numbers do not.

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


def build(make: Callable[..., Any], seed: int, *args: Any, **kwargs: Any) -> Any:
    """A model with the weights of ``seed``; torch's global random state is unchanged.

    Raises:
        ValueError: a size that is not a whole number of at least 1.

    >>> build(nn.Linear, 3, 4, 2).weight.shape
    torch.Size([2, 4])
    """
    _check_sizes(make, args, kwargs)
    with torch.random.fork_rng(devices=[]):  # PyTorch's constructors draw weights, which initialize() replaces
        model = make(*args, **kwargs)
    initialize(model, seed)
    return model


def _check_sizes(make: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Check every argument annotated as int, or as a tuple of int, as a size."""
    hints = get_type_hints(make.__init__)
    for name, value in signature(make).bind(*args, **kwargs).arguments.items():
        if hints.get(name) is int:
            check_int(name, value, 1, MAX_SIZE)
        elif get_origin(hints.get(name)) is tuple:
            if not isinstance(value, tuple | list) or not value:
                raise ValueError(f"{name} must be several whole numbers, got {value!r}")
            for size in value:
                check_int(f"each of {name}", size, 1, MAX_SIZE)
