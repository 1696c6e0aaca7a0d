"""The small networks of the claims of 2019 and 2020: large enough to tell recipes apart, small enough to run often."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lplab.training.tasks import Task


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
        about="Transformer of two blocks of width 48; the characters of a novel, the next one to be told",
        model=lambda seed: models.transformer(vocabulary, seed, width=48, blocks=2),
    )
