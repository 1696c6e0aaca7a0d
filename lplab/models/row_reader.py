"""A small network with every kind of layer that gradient compression tells apart: convolution, LSTM, dense."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from lplab.models.first_bits import made


class RowReader(nn.Module):
    """Two convolutions of 3 × 3; an LSTM that reads the rows of the picture from top to bottom; two dense layers.

    Args:
        channels: of the two convolutions.
        state: of the LSTM.
        hidden: outputs of the first dense layer.
        size: height and width of the images, even.
        classes: of answers.
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


def row_reader(
    channels: tuple[int, int] = (16, 32),
    state: int = 32,
    hidden: int = 96,
    size: int = 8,
    classes: int = 10,
    seed: int = 0,
) -> RowReader:
    """A :class:`RowReader`, initialised from ``seed``.

    >>> import torch
    >>> row_reader()(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    return made(RowReader, seed, channels, state, hidden, size, classes)
