"""Training and evaluation mode, which each module of a model has for itself.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


def in_training(model: nn.Module) -> nn.Module:
    """The model in training mode; in one that is in it already, a layer that somebody has frozen stays frozen.

    >>> in_training(nn.Linear(1, 1).eval()).training
    True
    """
    return model if model.training else model.train()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; afterwards each module is in the mode that it was in, frozen ones too.

    >>> with evaluating(model := nn.Linear(1, 1)):
    ...     model.training
    False
    """
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        model.train(before[0][1])  # which a module may have a way of its own to follow
        for module, training in before:
            module.training = training
