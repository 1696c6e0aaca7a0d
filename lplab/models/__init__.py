"""The small model zoo: networks that train in seconds on two cores and are real enough to show what formats do.

This package needs PyTorch; the rest of lplab's ground does not. Every model is made from a seed, touches no global
random state, and starts from the same bits on every machine (:func:`initialize`). Sizes are parameters.

>>> import torch
>>> model = digits_resnet(seed=0)
>>> model(torch.zeros(2, 1, 8, 8)).shape
torch.Size([2, 10])
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("lplab.models needs PyTorch: pip install 'lplab[torch]'") from error

from lplab.models.first_bits import initialize
from lplab.models.others import CNN, MLP, CharacterLSTM, DepthwiseNet, cnn, depthwise_net, lstm, mlp
from lplab.models.residual import DigitsResNet, ResidualBlock, ResNet, digits_resnet, resnet
from lplab.models.row_reader import RowReader, row_reader
from lplab.models.transformer import Attention, CharacterTransformer, character_transformer, transformer

__all__ = [
    "CNN",
    "MLP",
    "Attention",
    "CharacterLSTM",
    "CharacterTransformer",
    "DepthwiseNet",
    "DigitsResNet",
    "ResNet",
    "ResidualBlock",
    "RowReader",
    "character_transformer",
    "cnn",
    "depthwise_net",
    "digits_resnet",
    "initialize",
    "lstm",
    "mlp",
    "resnet",
    "row_reader",
    "transformer",
]
