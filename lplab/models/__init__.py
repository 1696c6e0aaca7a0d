"""A small model zoo: networks that train in seconds on two cores and show the effects of number formats.

This package needs PyTorch. Every model is made from a seed, leaves the global random state unchanged, and has the same
initial bits on every machine (:func:`initialize`). Sizes are parameters. :func:`get` makes a model by its name.

>>> import torch
>>> model = digits_resnet(seed=0)
>>> model(torch.zeros(2, 1, 8, 8)).shape
torch.Size([2, 10])
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("lplab.models needs PyTorch: pip install 'lplab[torch]'") from error

from lplab.lookup import refuse_wrong_names
from lplab.models.basic import (
    CNN,
    MLP,
    CharacterLSTM,
    DepthwiseNet,
    RowLSTM,
    SpeechNet,
    cnn,
    depthwise_net,
    lstm,
    mlp,
    row_lstm,
    speech_net,
)
from lplab.models.gguf_file import read_gguf, smollm2
from lplab.models.initialization import initialize
from lplab.models.llama import (
    KeyValueCache,
    Llama,
    LlamaShape,
    bits_a_token,
    llama,
    rotate_neighbours,
)
from lplab.models.llama_cache import RoundedCache
from lplab.models.llama_rotation import rotated
from lplab.models.model_catalogue import get, names
from lplab.models.residual import Detector, DigitsResNet, ResidualBlock, ResNet, detector, digits_resnet, resnet
from lplab.models.transformer import Attention, CharacterTransformer, character_transformer, transformer

__all__ = [
    "CNN",
    "MLP",
    "Attention",
    "CharacterLSTM",
    "CharacterTransformer",
    "DepthwiseNet",
    "Detector",
    "DigitsResNet",
    "KeyValueCache",
    "Llama",
    "LlamaShape",
    "ResNet",
    "ResidualBlock",
    "RoundedCache",
    "RowLSTM",
    "SpeechNet",
    "bits_a_token",
    "character_transformer",
    "cnn",
    "depthwise_net",
    "detector",
    "digits_resnet",
    "get",
    "initialize",
    "llama",
    "lstm",
    "mlp",
    "names",
    "read_gguf",
    "resnet",
    "rotate_neighbours",
    "rotated",
    "row_lstm",
    "smollm2",
    "speech_net",
    "transformer",
]

refuse_wrong_names(__name__)
