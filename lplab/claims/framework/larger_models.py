"""The tasks of the larger experiments: real pictures, deeper nets with batch norm, longer texts.

Pictures are those of Fashion-MNIST, which is not in the repository: who runs these tasks has Debian's package or has
fetched the files (:func:`lplab.datasets.fashion_mnist`). Each picture of 28 × 28 is given as four channels of 14 × 14:
each channel has one pixel of each 2 × 2. No pixel is lost, a step takes a quarter of the time, and the first
convolution of 3 × 3 is one of 6 × 6 with stride 2 on the picture, as residual nets for large pictures begin.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import nn

    from lplab.datasets import Split
    from lplab.training.loop.tasks import Task

WINDOW = 64  # characters that the Transformer sees
UNROLLED = 50  # characters through which the LSTM is unrolled


def four_channels(images: np.ndarray) -> np.ndarray:
    """Each 2 × 2 pixels become four channels: [n, 1, height, width] → [n, 4, height / 2, width / 2].

    Args:
        images: with an even height and an even width.

    >>> four_channels(np.arange(16.0).reshape(1, 1, 4, 4))[0, :, 0, 0]
    array([0., 1., 4., 5.])
    """
    count, _, height, width = images.shape
    pairs = images.reshape(count, height // 2, 2, width // 2, 2)
    return np.ascontiguousarray(pairs.transpose(0, 2, 4, 1, 3).reshape(count, 4, height // 2, width // 2))


@cache
def fashion_pictures() -> Split:
    """Fashion-MNIST as four channels of 14 × 14: 60,000 to train with and 10,000 to test with, kept for the process.

    Raises:
        FileNotFoundError: as :func:`lplab.datasets.fashion_mnist`.
    """
    from lplab import datasets

    whole = datasets.fashion_mnist()
    return replace(whole, train_inputs=four_channels(whole.train_inputs), test_inputs=four_channels(whole.test_inputs))


def _on_fashion(name: str, about: str, model: Any) -> Task:
    """A task on the pictures: batches of 64, momentum 0.9, a learning rate that begins at 0.1, cross-entropy."""
    import torch

    from lplab.training.loop.batches import Batches
    from lplab.training.loop.tasks import Task

    def data(batch: int, seed: int) -> Batches:
        pictures = fashion_pictures()
        return Batches(pictures.train_inputs, pictures.train_targets, batch, seed)

    def test() -> tuple[torch.Tensor, torch.Tensor]:
        pictures = fashion_pictures()
        return torch.from_numpy(pictures.test_inputs), torch.from_numpy(pictures.test_targets)

    return Task(name, about, model, data, test, batch=64, lr=0.1, options=(("momentum", 0.9), ("weight_decay", 1e-4)))


def fashion_resnet8(width: int = 16) -> Task:
    """The residual net of eight layers with batch norm on Fashion-MNIST.

    Args:
        width: channels of its first third.

    >>> sum(p.numel() for p in fashion_resnet8().model(0).parameters())
    78186
    """
    return _fashion_resnet(8, width)


def fashion_resnet20(width: int = 16) -> Task:
    """The residual net of twenty layers with batch norm on Fashion-MNIST, as wide as the papers' for CIFAR-10.

    >>> sum(p.numel() for p in fashion_resnet20().model(0).parameters())
    272618
    """
    return _fashion_resnet(20, width)


def _fashion_resnet(depth: int, width: int) -> Task:
    from lplab import models

    def model(seed: int) -> nn.Module:
        return models.resnet(depth, width, channels=4, seed=seed)

    about = f"residual net of {depth} layers and width {width} with batch norm; Fashion-MNIST, 4 × 14 × 14"
    return _on_fashion(f"fashion_resnet{depth}", about, model)


def fashion_depthwise() -> Task:
    """A small MobileNetV2 of three widths, six blocks, on Fashion-MNIST.

    >>> sum(p.numel() for p in fashion_depthwise().model(0).parameters())
    53882
    """
    from lplab import models

    def model(seed: int) -> nn.Module:
        return models.depthwise_net((16, 32, 64), channels=4, seed=seed)

    about = "MobileNetV2 of six blocks, widths 16 to 64; Fashion-MNIST, 4 × 14 × 14"
    return _on_fashion("fashion_depthwise", about, model)


def novel_transformer() -> Task:
    """A Transformer of four blocks and width 96 on the characters of the novel; the test is its whole last tenth.

    >>> task = novel_transformer()
    >>> sum(p.numel() for p in task.model(0).parameters()), task.test()[0].shape
    (468171, torch.Size([723, 64]))
    """
    from lplab import models

    def model(seed: int) -> nn.Module:
        return models.transformer(_vocabulary(), seed, width=96, context=WINDOW, blocks=4)

    about = "Transformer of four blocks of width 96; predicts the next character of a novel"
    return _on_novel("novel_transformer", about, model, WINDOW, batch=8, lr=1e-3)


def novel_lstm(width: int = 128) -> Task:
    """An LSTM of two layers, unrolled through 50 characters as char-rnn (Karpathy 2015) is, on the novel.

    Each window begins with a state of zeros; char-rnn takes the state of the window before.

    Args:
        width: of embedding and state.

    >>> task = novel_lstm()
    >>> sum(p.numel() for p in task.model(0).parameters()), task.test()[0].shape
    (283467, torch.Size([926, 50]))
    """
    from lplab import models

    def model(seed: int) -> nn.Module:
        return models.lstm(_vocabulary(), width, seed=seed)

    about = f"LSTM of two layers of width {width}; predicts the next character of a novel"
    return _on_novel("novel_lstm", about, model, UNROLLED, batch=16, lr=2e-3)


def _vocabulary() -> int:
    from lplab import datasets

    return len(datasets.character_ids()[1])


def _on_novel(name: str, about: str, model: Any, length: int, *, batch: int, lr: float) -> Task:
    """Nine tenths of the novel to train with, the last tenth in windows one after the other to test with; Adam."""
    import torch

    from lplab import datasets
    from lplab.training.loop.batches import SequenceBatches
    from lplab.training.loop.tasks import Task

    ids, _ = datasets.character_ids()
    cut = len(ids) * 9 // 10

    def data(batch: int, seed: int) -> SequenceBatches:
        return SequenceBatches(ids[:cut], length, batch, seed)

    def test() -> tuple[torch.Tensor, torch.Tensor]:
        held_out = torch.from_numpy(ids[cut:].astype(np.int64))
        count = (len(held_out) - 1) // length
        inputs, targets = (held_out[start : start + count * length].view(count, length) for start in (0, 1))
        return inputs, targets

    return Task(name, about, model, data, test, batch, optimizer="adam", lr=lr)


def larger_speech() -> Task:
    """The spoken words with a net of twice the width: two convolutions of 64 channels and an LSTM of state 96.

    >>> larger_speech().model(0).head
    Linear(in_features=96, out_features=10, bias=True)
    """
    from lplab import models
    from lplab.training import tasks

    return replace(
        tasks.get("speech"),
        about="two convolutions of 64 channels and an LSTM of state 96; ten words said by a synthesiser",
        model=lambda seed: models.speech_net(width=64, state=96, seed=seed),
    )
