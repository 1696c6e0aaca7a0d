"""The small tasks of claims on many learners: each layer can be stacked, so that 64 learners take one pass.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache

import torch
from torch import Tensor, nn

from lplab import datasets
from lplab.models.initialization import build
from lplab.models.residual import ResNet
from lplab.models.transformer import CharacterTransformer
from lplab.parallel.stackable_layers import GroupBatchNorm2d, RecurrentLayer
from lplab.training import tasks
from lplab.training.loop.batches import Batch, Batches, SequenceBatches
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


class _FashionResNet(ResNet):
    """A ResNet of eight layers whose first convolution takes 2 × 2 pixels at a time; its norms are the learners' own."""

    def __init__(self, examples: int) -> None:
        super().__init__(8, 8, channels=1)
        self.stem = nn.Conv2d(1, 8, 2, stride=2, bias=False)
        norms = [(module, name, each.num_features) for module in self.modules()
                 for name, each in module.named_children() if isinstance(each, nn.BatchNorm2d)]  # fmt: skip
        for module, name, channels in norms:
            setattr(module, name, GroupBatchNorm2d(channels, examples))


@cache
def _fashion() -> datasets.Split:
    split = datasets.fashion_mnist()
    train, test = (
        images.reshape(-1, 1, 14, 2, 14, 2).mean((3, 5)) for images in (split.train_inputs, split.test_inputs)
    )
    return datasets.Split(train, split.train_targets, test, split.test_targets)


def _once(data: Callable[[int], Batch]) -> Callable[[int], Batch]:
    """The batches of a function of the step, the last one kept: each of many learners asks for it."""
    return lru_cache(1)(data)


def fashion_resnet(examples: int) -> Task:
    """A residual net of eight layers on Fashion-MNIST, averaged to 14 × 14, by SGD; batch norms for each learner alone.

    Args:
        examples: of each learner in a step.

    >>> sum(p.numel() for p in fashion_resnet(32).model(0).parameters())
    19770
    """
    return replace(
        tasks.get("resnet"),
        about="residual net of eight layers; Fashion-MNIST, 14 × 14",
        model=lambda seed: build(_FashionResNet, seed, examples),
        data=lambda batch, seed: _once(Batches(_fashion().train_inputs, _fashion().train_targets, batch, seed)),
        test=lambda: (torch.from_numpy(_fashion().test_inputs), torch.from_numpy(_fashion().test_targets)),
        batch=128,
        options=(),
    )


class _StackableLstm(nn.Module):
    """Two LSTM layers between an embedding and a linear layer, as :class:`~lplab.models.basic.CharacterLSTM`."""

    def __init__(self, vocabulary: int, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(RecurrentLayer(width, width), RecurrentLayer(width, width))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.layers(self.embedding(ids)))


def novel_lstm() -> Task:
    """An LSTM of two layers on the characters of a novel, 16 windows of 64 a batch, 32,768 characters to test with.

    >>> sum(p.numel() for p in novel_lstm().model(0).parameters())
    75723
    """
    ids, vocabulary = datasets.character_ids()
    cut = len(ids) * 9 // 10
    return replace(
        tasks.get("lstm"),
        model=lambda seed: build(_StackableLstm, seed, len(vocabulary)),
        data=lambda batch, seed: _once(SequenceBatches(ids[:cut], batch=batch, seed=seed)),
        test=lambda: SequenceBatches(ids[cut:], batch=512, seed=0)(0),
        lr=2e-3,
    )
