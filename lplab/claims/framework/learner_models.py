"""The small tasks of claims on many learners: each layer can be stacked, so that 64 learners take one pass.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from lplab import datasets
from lplab.claims.framework import larger_models
from lplab.models.initialization import build
from lplab.models.residual import ResNet
from lplab.models.transformer import CharacterTransformer
from lplab.parallel.stackable_layers import GroupBatchNorm2d, RecurrentLayer
from lplab.training import tasks
from lplab.training.loop.batches import Batch, SequenceBatches
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


# ---- those of the larger experiments ---------------------------------------------------------------------------------


class _StackableResNet(ResNet):
    """A ResNet of eight layers whose first convolution halves height and width; its norms are each learner's own."""

    def __init__(self, examples: int) -> None:
        super().__init__(8, 8, channels=4)
        self.stem = nn.Conv2d(4, 8, 3, stride=2, padding=1, bias=False)
        norms = [(n, m) for n, m in self.named_modules() if isinstance(m, nn.BatchNorm2d)]
        for name, norm in norms:
            parent, _, own = name.rpartition(".")
            setattr(self.get_submodule(parent), own, GroupBatchNorm2d(norm.num_features, examples))


def fashion_resnet(examples: int) -> Task:
    """The residual net of eight layers and width 8 on Fashion-MNIST, by plain SGD, 7 × 7 inside; norms of each learner.

    Args:
        examples: of each learner in a step.

    >>> sum(p.numel() for p in fashion_resnet(32).model(0).parameters())
    20026
    """
    task = larger_models.fashion_resnet8()
    return replace(
        task,
        about="residual net of eight layers and width 8 with batch norm; Fashion-MNIST, 4 × 14 × 14",
        model=lambda seed: build(_StackableResNet, seed, examples),
        data=lambda batch, seed: _once(task.data(batch, seed)),
        options=(),
    )


class _StackableLSTM(nn.Module):
    """Two LSTM layers between an embedding and a linear layer, as :class:`~lplab.models.basic.CharacterLSTM`."""

    def __init__(self, vocabulary: int, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(RecurrentLayer(width, width), RecurrentLayer(width, width))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.layers(self.embedding(ids)))


def stackable_lstm() -> Task:
    """The LSTM of two layers on the novel, of width 64, unrolled through 50 characters.

    >>> sum(p.numel() for p in stackable_lstm().model(0).parameters())
    75723
    """
    task = larger_models.novel_lstm()
    vocabulary = len(datasets.character_ids()[1])
    return replace(
        task,
        about="LSTM of two layers of width 64; predicts the next character of a novel",
        model=lambda seed: build(_StackableLSTM, seed, vocabulary),
        data=lambda batch, seed: _once(task.data(batch, seed)),
    )


def _once(data: Callable[[int], Batch]) -> Callable[[int], Batch]:
    """The batches of a function of the step, the last one kept: each of many learners asks for it."""
    return lru_cache(1)(data)
