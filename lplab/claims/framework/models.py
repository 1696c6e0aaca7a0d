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


def branch_transformer() -> Task:
    """The character Transformer from which recipes branch: two blocks of width 64, 32,768 test characters.

    The test set of the other Transformers has 4,096 characters, on which a hundredth of a bit is noise.

    >>> branch_transformer().batch, branch_transformer().test()[0].numel()
    (8, 32768)
    """
    from lplab import datasets, models
    from lplab.training import tasks
    from lplab.training.loop.batches import SequenceBatches

    ids, vocabulary = datasets.character_ids()
    held_out = ids[len(ids) * 9 // 10 :]
    return replace(
        tasks.get("transformer"),
        about="Transformer of two blocks of width 64; predicts the next character of a novel",
        model=lambda seed: models.transformer(len(vocabulary), seed, width=64, blocks=2),
        batch=8,
        test=lambda: SequenceBatches(held_out, length=64, batch=512, seed=0)(0),
    )


def branch_resnet() -> Task:
    """The residual net on cluttered digits with 4,000 other pictures to test with, four times as many as its own.

    >>> branch_resnet().test()[0].shape
    torch.Size([4000, 3, 16, 16])
    """
    import torch

    from lplab import datasets
    from lplab.training import tasks

    def test() -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = datasets.cluttered_digits(4000, seed=1)
        return torch.from_numpy(images), torch.from_numpy(labels)

    return replace(tasks.get("resnet"), test=test)


def branch_depthwise() -> Task:
    """A small MobileNetV2 on cluttered digits, 16 a batch, 2,000 other pictures to test with.

    >>> branch_depthwise().batch, branch_depthwise().test()[0].shape
    (16, torch.Size([2000, 3, 16, 16]))
    """
    import torch

    from lplab import datasets
    from lplab.training import tasks

    def test() -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = datasets.cluttered_digits(2000, seed=1)
        return torch.from_numpy(images), torch.from_numpy(labels)

    return replace(tasks.get("depthwise"), batch=16, test=test)


def branch_detector() -> Task:
    """The detector with narrower blocks, 16 scenes a batch.

    >>> sum(p.numel() for p in branch_detector().model(0).parameters())
    23919
    """
    from lplab import models
    from lplab.training import tasks

    return replace(
        tasks.get("detector"),
        about="residual net with a head of one stage, narrow; several digits with boxes around them, 32 × 32",
        model=lambda seed: models.detector((8, 16, 24), seed=seed),
        batch=16,
    )


def branch_llama() -> Task:
    """A Llama of two blocks of width 64 on characters, 32,768 test characters: what the claims on few bits round.

    >>> sum(p.numel() for p in branch_llama().model(0).parameters())
    116416
    """
    from lplab import models
    from lplab.models.llama import LlamaShape

    def model(seed: int) -> models.Llama:
        shape = LlamaShape(vocabulary=75, width=64, blocks=2, heads=2, kv_heads=2, hidden=192, context=64)
        return models.llama(shape, seed, tied=False)

    return replace(
        branch_transformer(),
        about="Llama of two blocks of width 64; predicts the next character of a novel",
        model=model,
    )
