"""A small model zoo: networks that train in seconds on two cores and show the effects of number formats.

This package needs PyTorch. Every model is made from a seed, leaves the global random state unchanged, and has the same
initial bits on every machine (:func:`initialize`). Sizes are parameters.

>>> import torch
>>> model = digits_resnet(seed=0)
>>> model(torch.zeros(2, 1, 8, 8)).shape
torch.Size([2, 10])
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("lplab.models needs PyTorch: pip install 'lplab[torch]'") from error

from lplab.models.basic import CNN, MLP, CharacterLSTM, DepthwiseNet, RowLstm, cnn, depthwise_net, lstm, mlp, row_lstm
from lplab.models.initialization import initialize
from lplab.models.residual import DigitsResNet, ResidualBlock, ResNet, digits_resnet, resnet
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
    "RowLstm",
    "character_transformer",
    "cnn",
    "depthwise_net",
    "digits_resnet",
    "initialize",
    "lstm",
    "mlp",
    "resnet",
    "row_lstm",
    "transformer",
]
