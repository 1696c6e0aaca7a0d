"""The small networks of the claims of 2019 and 2020: large enough to tell recipes apart, small enough to run often."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lplab.training.loop.tasks import Task


def small_transformer() -> Task:
    """The task of the character Transformer with two blocks of width 48: 67 thousand parameters.

    >>> sum(p.numel() for p in small_transformer().model(0).parameters())
    66987
    """
    from lplab import datasets, models
    from lplab.training import tasks

    vocabulary = len(datasets.character_ids()[1])
    return replace(
        tasks.get("transformer"),
        about="Transformer of two blocks of width 48; predicts the next character of a novel",
        model=lambda seed: models.transformer(vocabulary, seed, width=48, blocks=2),
    )


def deep_mlp() -> Task:
    """Five linear layers on the digits, without normalization: the further back, the smaller the gradients.

    >>> deep_mlp().optimizer, len(deep_mlp().model(0).layers)
    ('adam', 5)
    """
    from lplab import models
    from lplab.training import tasks

    return replace(
        tasks.get("mlp"),
        about="five linear layers without normalization; digits, 8 × 8",
        model=lambda seed: models.mlp((64, 64, 64, 64, 64, 10), seed),
        optimizer="adam",
        lr=1e-3,
        options=(),
    )


def bottleneck_net() -> Task:
    """A residual net of three bottleneck blocks (1 × 1, 3 × 3, 1 × 1) with batch norms on the digits.

    >>> len(bottleneck_net().model(0).blocks)
    3
    """
    from lplab import models
    from lplab.training import tasks

    return replace(
        tasks.get("digits_resnet"),
        about="residual net of three bottleneck blocks; digits, 8 × 8",
        model=lambda seed: models.resnet(11, 16, channels=1, seed=seed, bottleneck=True),
    )
