"""The small model zoo: networks that train in seconds on two cores and are real enough to show what formats do.

This module needs PyTorch; the rest of lplab's ground does not. Every model is made from a seed, touches no global
random state, and starts from the same bits on every machine (:func:`initialize`).

>>> model = digits_resnet(seed=0)
>>> model(torch.zeros(2, 1, 8, 8)).shape
torch.Size([2, 10])
"""

import math

import numpy as np

try:
    import torch
except ImportError as error:
    raise ImportError("lplab.models needs PyTorch: pip install 'lplab[torch]'") from error
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["CharacterTransformer", "DigitsResNet", "character_transformer", "digits_resnet", "initialize"]


# ---- residual network for 8 × 8 digits -------------------------------------------------------------------------------


class ResidualBlock(nn.Module):
    """Two 3 × 3 convolutions with batch norm and a shortcut around them (He et al. 2015, arXiv:1512.03385)."""

    def __init__(self, channels_in: int, channels_out: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:  # a 1 × 1 convolution where the shapes differ ("option B")
            convolution = nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(channels_out))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels_in, h, w] → [batch, channels_out, h / stride, w / stride]."""
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class DigitsResNet(nn.Module):
    """A residual network for 8 × 8 images: stem, one block per width, global average, linear head.

    ``widths`` are the channels of the blocks; every block after the first halves height and width. The layers are named
    ``stem``, ``layer1.conv1`` … ``layer3.conv2``, ``head``. The default has 31 thousand parameters.

    >>> model = DigitsResNet()
    >>> sum(p.numel() for p in model.parameters())
    31434
    """

    def __init__(self, widths: tuple[int, ...] = (16, 24, 32), classes: int = 10):
        super().__init__()
        self.stem = nn.Conv2d(1, widths[0], 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(widths[0])
        self.depth = len(widths)
        for i, (before, width) in enumerate(zip((widths[0], *widths), widths, strict=False)):
            self.add_module(f"layer{i + 1}", ResidualBlock(before, width, stride=1 if i == 0 else 2))
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images [batch, 1, 8, 8] in 0..1 → logits [batch, classes]."""
        x = functional.relu(self.norm(self.stem(x)))
        for i in range(self.depth):
            x = self.get_submodule(f"layer{i + 1}")(x)
        return self.head(x.mean(dim=(2, 3)))


# ---- character Transformer -------------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Causal multi-head self-attention, spelled out (Vaswani et al. 2017, arXiv:1706.03762, equation 1).

    ``probabilities`` is an identity: a named place where hooks meet the attention weights, the left operand of the
    second product, just as they meet the operands of a linear layer.
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.probabilities = nn.Identity()
        self.project = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, time, width] → [batch, time, width]; position t sees positions 0..t."""
        batch, time, width = x.shape
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # [batch, head, time, size]
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        future = torch.ones(time, time, dtype=torch.bool, device=x.device).triu(diagonal=1)
        weights = self.probabilities(scores.masked_fill(future, -math.inf).softmax(dim=-1))
        return self.project((weights @ v).transpose(1, 2).reshape(batch, time, width))


class FeedForward(nn.Module):
    """Widen fourfold, GELU, narrow: ``up`` and ``down``."""

    def __init__(self, width: int):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] → [..., width]."""
        return self.down(functional.gelu(self.up(x)))


class TransformerBlock(nn.Module):
    """Attention and feed-forward, each behind a layer norm and beside a shortcut (pre-norm, as in GPT-2)."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = FeedForward(width)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, time, width] → [batch, time, width]."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class CharacterTransformer(nn.Module):
    """Predicts the next character: embeddings, ``blocks``, layer norm, linear ``head``.

    ``vocabulary`` is the number of symbols, ``context`` the longest sequence. The default has 164 thousand parameters.

    >>> model = CharacterTransformer(vocabulary=75)
    >>> model(torch.zeros(2, 64, dtype=torch.long)).shape
    torch.Size([2, 64, 75])
    """

    def __init__(self, vocabulary: int, width: int = 64, context: int = 64, blocks: int = 3, heads: int = 4):
        super().__init__()
        if width % heads:
            raise ValueError(f"width must be a multiple of heads, got width={width} and heads={heads}")
        self.context = context
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        """Character ids int64 [batch, time ≤ context] → logits [batch, time, vocabulary] of the next character."""
        time = ids.shape[1]
        if time > self.context:
            raise ValueError(f"sequences may hold up to {self.context} characters, got {time}")
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(time, device=ids.device))
        return self.head(self.norm(self.blocks(x)))


# ---- the same first bits everywhere ----------------------------------------------------------------------------------


def initialize(model: nn.Module, seed: int = 0) -> nn.Module:
    """Fill the weights in place from ``seed`` and return the model; the same bits on every machine.

    Matrices, kernels and embeddings: uniform in ±1/√fan_in, PyTorch's own default for linear and convolution layers
    (an embedding's fan-in is its width). Norm scales are 1, everything else 0. The numbers come from numpy: uniform
    multiples of 2^-23 times a constant round the same way on every processor, torch's normal numbers do not.

    >>> a, b = (initialize(nn.Linear(4, 2), seed=1) for _ in range(2))
    >>> bool((a.weight == b.weight).all()), bool((a.weight.abs() <= 0.5).all())
    (True, True)
    """
    generator = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                bound = np.float32(1 / math.sqrt(math.prod(parameter.shape[1:])))
                uniform = 2 * generator.random(tuple(parameter.shape), dtype=np.float32) - 1
                parameter.copy_(torch.from_numpy(uniform * bound))
            else:
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)
    return model


def digits_resnet(seed: int = 0) -> DigitsResNet:
    """The residual network of the labs, initialised from ``seed``; torch's global random state stays as it was.

    >>> digits_resnet(seed=3).layer2.conv1.weight.shape
    torch.Size([24, 16, 3, 3])
    """
    with torch.random.fork_rng(devices=[]):  # PyTorch's constructors draw numbers that initialize() replaces
        model = DigitsResNet()
    initialize(model, seed)
    return model


def character_transformer(vocabulary: int, seed: int = 0) -> CharacterTransformer:
    """The character Transformer of the labs (3 blocks, width 64, context 64), initialised from ``seed``.

    >>> len(character_transformer(vocabulary=75, seed=3).blocks)
    3
    """
    with torch.random.fork_rng(devices=[]):
        model = CharacterTransformer(vocabulary)
    initialize(model, seed)
    return model
