"""Basic networks: multi-layer perceptron, convolutional, depthwise-separable and LSTM networks, one for speech."""

from __future__ import annotations

import itertools

from torch import Tensor, nn
from torch.nn import functional

from lplab.models.initialization import build


class MLP(nn.Module):
    """Linear layers with ReLU between them.

    Args:
        sizes: of the input, the hidden layers and the output.

    >>> MLP((64, 128, 10)).layers
    ModuleList(
      (0): Linear(in_features=64, out_features=128, bias=True)
      (1): Linear(in_features=128, out_features=10, bias=True)
    )
    """

    def __init__(self, sizes: tuple[int, ...] = (64, 128, 128, 10)) -> None:
        super().__init__()
        if len(sizes) < 2:
            raise ValueError(f"sizes must be those of input and output at least, got {sizes!r}")
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, …] (flattened) → logits [batch, last size]."""
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = functional.relu(layer(x))
        return self.layers[-1](x)


class CNN(nn.Module):
    """3 × 3 convolutions with ReLU, max pooling by 2 after each, and a linear head. No normalization.

    Args:
        widths: channels of the convolutions.
        channels, classes: image channels and number of classes.
    """

    def __init__(self, widths: tuple[int, ...] = (16, 32), channels: int = 1, classes: int = 10) -> None:
        super().__init__()
        steps = itertools.pairwise((channels, *widths))
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in steps)
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images [batch, channels, h, w] → logits [batch, classes]."""
        for convolution in self.convolutions:
            x = functional.max_pool2d(functional.relu(convolution(x)), 2)
        return self.head(x.mean(dim=(2, 3)))


class InvertedResidual(nn.Module):
    """1 × 1 up, depthwise 3 × 3, 1 × 1 down, with batch norms (MobileNetV2, Sandler et al. 2018)."""

    def __init__(self, channels_in: int, channels_out: int, stride: int, expansion: int):
        super().__init__()
        inner = channels_in * expansion
        self.expand = nn.Conv2d(channels_in, inner, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(inner)
        self.depthwise = nn.Conv2d(inner, inner, 3, stride=stride, padding=1, groups=inner, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.project = nn.Conv2d(inner, channels_out, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(channels_out)
        self.has_shortcut = stride == 1 and channels_in == channels_out

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels_in, h, w] → [batch, channels_out, h / stride, w / stride]."""
        y = functional.relu6(self.norm1(self.expand(x)))
        y = self.norm3(self.project(functional.relu6(self.norm2(self.depthwise(y)))))
        return x + y if self.has_shortcut else y


class DepthwiseNet(nn.Module):
    """A small MobileNetV2: stem, two blocks for each width, linear head.

    Args:
        widths: channels; each width after the first halves height and width.
        expansion: how much wider a block is inside.
        channels, classes: image channels and number of classes.
    """

    def __init__(
        self, widths: tuple[int, ...] = (12, 24), expansion: int = 3, channels: int = 3, classes: int = 10
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(widths[0])
        blocks = []
        for i, (before, width) in enumerate(itertools.pairwise((widths[0], *widths))):
            blocks += [InvertedResidual(before, width, 2 if i else 1, expansion)]
            blocks += [InvertedResidual(width, width, 1, expansion)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images [batch, channels, h, w] → logits [batch, classes]."""
        x = functional.relu6(self.norm(self.stem(x)))
        return self.head(self.blocks(x).mean(dim=(2, 3)))


class CharacterLSTM(nn.Module):
    """Predicts the next character: embedding, LSTM layers, linear head.

    Args:
        vocabulary: number of symbols.
        width: of embedding and state.
        layers: of the LSTM.
        dropout: between the layers.
    """

    def __init__(self, vocabulary: int, width: int = 64, layers: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        """Character ids int64 [batch, time] → logits [batch, time, vocabulary] of the next character."""
        return self.head(self.lstm(self.embedding(ids))[0])


class RowLSTM(nn.Module):
    """Two 3 × 3 convolutions, an LSTM over the rows of the image from top to bottom, two linear layers.

    The network has each kind of layer that gradient compression treats differently.

    Args:
        channels: of the two convolutions.
        state: of the LSTM.
        hidden: outputs of the first linear layer.
        size: height and width of the images, even.
        classes: number of classes.
    """

    def __init__(
        self, channels: tuple[int, int] = (16, 32), state: int = 32, hidden: int = 96, size: int = 8, classes: int = 10
    ) -> None:
        super().__init__()
        if size < 2 or size % 2:
            raise ValueError(f"size must be an even number of pixels, 2 or more, got {size}")
        self.stem = nn.Conv2d(1, channels[0], 3, padding=1)
        self.convolution = nn.Conv2d(channels[0], channels[1], 3, padding=1)
        self.lstm = nn.LSTM(channels[1] * size // 2, state, batch_first=True)
        self.dense = nn.Linear(state * size // 2, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images [batch, 1, size, size] → logits [batch, classes]."""
        x = functional.relu(self.stem(x))
        x = functional.max_pool2d(functional.relu(self.convolution(x)), 2)
        rows = x.permute(0, 2, 1, 3).flatten(2)
        x = self.lstm(rows)[0].flatten(1)
        return self.head(functional.relu(self.dense(x)))


class SpeechNet(nn.Module):
    """Says which word was spoken: two convolutions along time, each halving it, an LSTM, its mean, a linear head.

    Args:
        bands: of the log-mel frames.
        width: channels of the convolutions.
        state: of the LSTM.
        classes: number of words.
    """

    def __init__(self, bands: int = 20, width: int = 32, state: int = 48, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv1d(bands, width, 5, stride=2, padding=2)
        self.convolution = nn.Conv1d(width, width, 5, stride=2, padding=2)
        self.lstm = nn.LSTM(width, state, batch_first=True)
        self.head = nn.Linear(state, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Log-mel frames [batch, bands, frames] → logits [batch, classes]."""
        x = functional.relu(self.convolution(functional.relu(self.stem(x))))
        return self.head(self.lstm(x.transpose(1, 2))[0].mean(dim=1))


def mlp(sizes: tuple[int, ...] = (64, 128, 128, 10), seed: int = 0) -> MLP:
    """An :class:`MLP`, initialised from ``seed``."""
    return build(MLP, seed, sizes)


def cnn(widths: tuple[int, ...] = (16, 32), channels: int = 1, classes: int = 10, seed: int = 0) -> CNN:
    """A :class:`CNN`, initialised from ``seed``.

    >>> import torch
    >>> cnn()(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    return build(CNN, seed, widths, channels, classes)


def depthwise_net(
    widths: tuple[int, ...] = (12, 24), expansion: int = 3, channels: int = 3, classes: int = 10, seed: int = 0
) -> DepthwiseNet:
    """A :class:`DepthwiseNet`, initialised from ``seed``.

    >>> import torch
    >>> depthwise_net()(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 10])
    """
    return build(DepthwiseNet, seed, widths, expansion, channels, classes)


def lstm(vocabulary: int, width: int = 64, layers: int = 2, dropout: float = 0.0, seed: int = 0) -> CharacterLSTM:
    """A :class:`CharacterLSTM`, initialised from ``seed``.

    >>> import torch
    >>> lstm(vocabulary=7)(torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([2, 5, 7])
    """
    return build(CharacterLSTM, seed, vocabulary, width, layers, dropout)


def row_lstm(
    channels: tuple[int, int] = (16, 32),
    state: int = 32,
    hidden: int = 96,
    size: int = 8,
    classes: int = 10,
    seed: int = 0,
) -> RowLSTM:
    """A :class:`RowLSTM`, initialised from ``seed``.

    >>> import torch
    >>> row_lstm()(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    return build(RowLSTM, seed, channels, state, hidden, size, classes)


def speech_net(bands: int = 20, width: int = 32, state: int = 48, classes: int = 10, seed: int = 0) -> SpeechNet:
    """A :class:`SpeechNet`, initialised from ``seed``.

    >>> import torch
    >>> speech_net()(torch.zeros(2, 20, 40)).shape
    torch.Size([2, 10])
    """
    return build(SpeechNet, seed, bands, width, state, classes)
