"""Training and evaluation mode; each module of a model has its own.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


def ensure_train_mode(model: nn.Module) -> nn.Module:
    """Put the model in training mode. If it is in it already, nothing changes: frozen layers stay frozen.

    >>> ensure_train_mode(nn.Linear(1, 1).eval()).training
    True
    """
    return model if model.training else model.train()


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Evaluation mode within the block; afterwards each module has its mode of before, frozen ones too.

    >>> with eval_mode(model := nn.Linear(1, 1)):
    ...     model.training
    False
    """
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        model.train(before[0][1])  # a module may override train()
        for module, training in before:
            module.training = training
