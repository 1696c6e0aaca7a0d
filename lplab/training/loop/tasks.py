"""Tasks: a model of the zoo, bundled data, and settings that train well in float32, by name.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

from lplab import datasets, models
from lplab.lookup import lookup
from lplab.training.loop import detection
from lplab.training.loop.batches import Batch, Batches, SequenceBatches
from lplab.training.loop.recorder import Recorder
from lplab.training.loop.trainer import Trainer, default_error, default_loss
from lplab.training.recipe.recipe import Recipe

HELD_OUT = 397  # digits to test with, as in Gupta's runs
IMAGES = 4000, 1000  # to train and to test with
SCENES = 2000, 1000


@dataclass(frozen=True)
class Task:
    """Something to train.

    Args:
        name: the model's.
        about: model and data in a few words.
        model: makes the model from a seed.
        data: makes the batches from a batch size and a seed.
        test: inputs and targets to test with.
        batch: examples a batch.
        optimizer, lr, options: of the trainer.
        loss: of (output, target).
        error: of (output, target), a share from 0 to 1, or None where there is none.
        test_batch: how many examples of the test pass through the model at once, for tests that take much memory; loss
            and error are then the means over all examples. None: all of them.
    """

    name: str
    about: str
    model: Callable[[int], nn.Module]
    data: Callable[[int, int], Any]
    test: Callable[[], Batch]
    batch: int
    optimizer: str = "sgd"
    lr: float = 0.05
    options: tuple[tuple[str, Any], ...] = ()
    loss: Callable[[Any, Any], torch.Tensor] = default_loss
    error: Callable[[Any, Any], float | None] = default_error
    test_batch: int | None = None

    def trainer(
        self,
        recipe: str | Recipe = "fp32",
        seed: int = 0,
        *,
        batch: int | None = None,
        lr: float | None = None,
        recorder: Recorder | None = None,
    ) -> Trainer:
        """A trainer of the task under a recipe; ``seed`` decides weights, batches and random bits.

        >>> get("mlp").trainer("fp8_2018").step
        0
        """
        data = self.data(self.batch if batch is None else batch, seed)
        learning_rate = self.lr if lr is None else lr
        options = dict(self.options)
        return Trainer(
            self.model(seed),
            data,
            recipe,
            optimizer=self.optimizer,
            lr=learning_rate,
            seed=seed,
            recorder=recorder,
            loss=self.loss,
            error=self.error,
            **options,
        )


@cache
def _characters() -> tuple[np.ndarray, np.ndarray, int]:
    """The novel as numbers: nine tenths to train with, the last tenth to test with, the size of the vocabulary."""
    ids, vocabulary = datasets.character_ids()
    cut = len(ids) * 9 // 10
    return ids[:cut], ids[cut:], len(vocabulary)


def _text(batch: int, seed: int) -> SequenceBatches:
    return SequenceBatches(_characters()[0], length=64, batch=batch, seed=seed)


def _text_test() -> Batch:
    return SequenceBatches(_characters()[1], length=64, batch=64, seed=0)(0)


@cache
def _digits() -> datasets.Split:
    images, labels = datasets.digits()
    return datasets.from_arrays(images[:, None], labels, test_share=HELD_OUT / len(images))


@cache
def _images() -> datasets.Split:
    train, test = IMAGES
    return datasets.from_arrays(*datasets.cluttered_digits(train + test), test_share=test / (train + test), seed=None)


@cache
def _words() -> datasets.Split:
    return datasets.spoken_words()


@cache
def _scenes() -> datasets.Split:
    detection.check_library()
    train, test = SCENES
    images, boxes, labels = datasets.digit_scenes(train + test)
    targets = detection.encode(boxes, labels, images.shape[-1], classes=10)
    return datasets.from_arrays(images, targets, test_share=test / (train + test), seed=None)


def _batches(split: Callable[[], datasets.Split]) -> Callable[[int, int], Batches]:
    return lambda batch, seed: Batches(split().train_inputs, split().train_targets, batch, seed)


def _test(split: Callable[[], datasets.Split]) -> Callable[[], Batch]:
    return lambda: (torch.from_numpy(split().test_inputs), torch.from_numpy(split().test_targets))


_NOVEL = "the characters of a novel, the next one to be predicted"
_CLUTTER = "digits in colour among pieces of others, 16 × 16"
_SMALL = "digits, 8 × 8"
_MOMENTUM: dict[str, Any] = {"batch": 50, "options": (("momentum", 0.9),)}
_ADAM: dict[str, Any] = {"batch": 32, "optimizer": "adam"}
_ON_DIGITS = {"data": _batches(_digits), "test": _test(_digits), **_MOMENTUM}
_ON_IMAGES = {"data": _batches(_images), "test": _test(_images), **_MOMENTUM}
_ON_WORDS = {"data": _batches(_words), "test": _test(_words), **_ADAM, "lr": 2e-3}
_ON_SCENES: dict[str, Any] = {
    "data": _batches(_scenes),
    "test": _test(_scenes),
    **_ADAM,
    "lr": 3e-3,
    "loss": detection.loss,
    "error": detection.error,
}
_ON_TEXT: dict[str, Any] = {"data": _text, "test": _text_test, "batch": 16, "optimizer": "adam", "lr": 3e-3}

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("mlp", f"three linear layers; {_SMALL}", lambda seed: models.mlp(seed=seed), **_ON_DIGITS),
        Task("digits_resnet", f"residual net; {_SMALL}", lambda seed: models.digits_resnet(seed), **_ON_DIGITS),
        Task("cnn", f"two convolutions; {_CLUTTER}", lambda s: models.cnn(channels=3, seed=s), **_ON_IMAGES),
        Task("resnet", f"residual net of depth 8; {_CLUTTER}", lambda s: models.resnet(seed=s), **_ON_IMAGES),
        Task("depthwise", f"small MobileNetV2; {_CLUTTER}", lambda s: models.depthwise_net(seed=s), **_ON_IMAGES),
        Task("lstm", f"LSTM of two layers; {_NOVEL}", lambda s: models.lstm(_characters()[2], seed=s), **_ON_TEXT),
        Task(
            "transformer",
            f"Transformer of three blocks; {_NOVEL}",
            lambda seed: models.character_transformer(_characters()[2], seed),
            **_ON_TEXT,
        ),
        Task(
            "speech",
            "two convolutions and an LSTM; ten words said by a synthesiser, the test by voices that are new",
            lambda seed: models.speech_net(seed=seed),
            **_ON_WORDS,
        ),
        Task(
            "detector",
            "residual net with a head of one stage; several digits with boxes around them, 32 × 32",
            lambda seed: models.detector(seed=seed),
            **_ON_SCENES,
        ),
    )
}
"""The tasks by name; a new one is a new row."""


def names() -> list[str]:
    """The names of the tasks."""
    return list(TASKS)


def get(name: str, **changes: Any) -> Task:
    """The task with this name, some fields changed.

    Raises:
        ValueError: no such task; the message names the closest, or all.

    >>> get("resnet", batch=10).batch
    10
    """
    return replace(lookup(TASKS, name, "model"), **changes)
