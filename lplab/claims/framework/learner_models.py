"""The small tasks of claims on many learners: each layer can be stacked, so that 64 learners take one pass.

This module needs PyTorch.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from lplab import datasets
from lplab.models.initialization import build
from lplab.models.transformer import CharacterTransformer
from lplab.training import tasks
from lplab.training.loop.batches import SequenceBatches
from lplab.training.loop.tasks import Task

WIDTHS = (16, 16, 32, 32)
LENGTH = 16  # characters a window


def fully_connected() -> Task:
    """Three linear layers on the digits, in batches of 64, by plain SGD without momentum.

    >>> fully_connected().batch, fully_connected().options
    (64, ())
    """
    return replace(tasks.get("mlp"), batch=64, lr=0.1, options=())


def convolutions() -> Task:
    """Four convolutions and a linear layer on the digits, without normalization, at a higher learning rate.

    >>> sum(p.numel() for p in convolutions().model(0).parameters())
    17658
    """
    return replace(
        fully_connected(),
        lr=0.5,
        about="four convolutions without normalization; digits, 8 × 8",
        model=lambda seed: build(_convolutions, seed),
    )


def _convolutions() -> nn.Module:
    layers: list[nn.Module] = []
    for number, (before, after) in enumerate(zip((1, *WIDTHS), WIDTHS, strict=False)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if number % 2 else []
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * WIDTHS[-1], 10))


class _Stackable(CharacterTransformer):
    """Positions are looked up for each example, so that each learner has its own gradient of their embedding."""

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
        x = self.token_embedding(ids) + self.position_embedding(positions)
        return self.head(self.norm(self.blocks(x)))


def transformer() -> Task:
    """A Transformer of one block and width 32 on 16 characters at a time, 64 windows a batch, by Adam.

    >>> sum(p.numel() for p in transformer().model(0).parameters())
    18155
    """
    ids, vocabulary = datasets.character_ids()
    cut = len(ids) * 9 // 10
    return replace(
        tasks.get("transformer"),
        about="Transformer of one block of width 32; predicts the next character of a novel",
        model=lambda seed: build(_Stackable, seed, len(vocabulary), width=32, blocks=1, context=LENGTH),
        data=lambda batch, seed: SequenceBatches(ids[:cut], length=LENGTH, batch=batch, seed=seed),
        test=lambda: SequenceBatches(ids[cut:], length=LENGTH, batch=256, seed=0)(0),
        batch=64,
    )
