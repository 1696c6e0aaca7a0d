"""The character Transformer, with attention written out."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from lplab.models.initialization import build


class Attention(nn.Module):
    """Causal multi-head self-attention, written out (Vaswani et al. 2017, arXiv:1706.03762, equation 1).

    ``probabilities`` is an identity module, so that hooks can access the attention weights, the left operand of the
    second product, like the operands of a linear layer.
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
    """Attention and feed-forward, each with a layer norm before it and a shortcut around it (pre-norm, as in GPT-2)."""

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


def transformer(vocabulary: int, seed: int = 0, **sizes: int) -> CharacterTransformer:
    """A :class:`CharacterTransformer` of any size (width, context, blocks, heads), initialised from ``seed``.

    >>> transformer(75, width=32, blocks=2).head
    Linear(in_features=32, out_features=75, bias=True)
    """
    return build(CharacterTransformer, seed, vocabulary, **sizes)


def character_transformer(vocabulary: int, seed: int = 0) -> CharacterTransformer:
    """The character Transformer of the labs (3 blocks, width 64, context 64), initialised from ``seed``.

    >>> len(character_transformer(vocabulary=75, seed=3).blocks)
    3
    """
    return build(CharacterTransformer, seed, vocabulary)
