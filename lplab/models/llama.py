"""Llama: the Transformer that most open language models are, in plain PyTorch.

Root-mean-square norms before attention and before the feed-forward part, positions as rotations of queries and keys,
several query heads that share one head of keys and values, a gated feed-forward part, no biases (Touvron et al. 2023,
arXiv:2302.13971; grouped heads: Ainslie et al. 2023, arXiv:2305.13245).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lplab.checks import check_int, check_positive
from lplab.models.initialization import build


@dataclass(frozen=True)
class LlamaShape:
    """The sizes of a Llama.

    Attributes:
        vocabulary: number of tokens.
        width: of the residual stream, a multiple of ``heads``.
        blocks: how many.
        heads, kv_heads: heads of queries, and of keys and values; the first is a multiple of the second.
        hidden: width of the feed-forward part.
        context: longest sequence that the model was trained with.
        rope_base: base of the wavelengths of the positions.
        epsilon: of the norms.

    Raises:
        ValueError: a size that is no whole number of at least 1, or sizes that do not divide each other.

    >>> LlamaShape(vocabulary=256, width=64, blocks=2, heads=4, kv_heads=2, hidden=128).head_size
    16
    """

    vocabulary: int
    width: int
    blocks: int
    heads: int
    kv_heads: int
    hidden: int
    context: int = 2048
    rope_base: float = 10_000.0
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("vocabulary", "width", "blocks", "heads", "kv_heads", "hidden", "context"):
            check_int(name, getattr(self, name), 1, 2**24)
        check_positive("rope_base", self.rope_base)
        check_positive("epsilon", self.epsilon)
        if self.heads % self.kv_heads:
            raise ValueError(f"heads must be a multiple of kv_heads, got {self.heads} and {self.kv_heads}")
        if self.width % (2 * self.heads):
            raise ValueError(f"each head needs an even width, got width={self.width} and heads={self.heads}")

    @property
    def head_size(self) -> int:
        """Channels of a head."""
        return self.width // self.heads


class KeyValueCache:
    """The KV cache: keys and values of all positions so far, by block, so that a new token costs one position.

    In few bits it is :class:`~lplab.models.RoundedCache`.

    >>> cache = KeyValueCache()
    >>> keys, values = cache.extend(0, torch.zeros(1, 2, 5, 16), torch.zeros(1, 2, 5, 16))
    >>> cache.length, keys.shape
    (5, torch.Size([1, 2, 5, 16]))
    """

    def __init__(self) -> None:
        self.stored: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def length(self) -> int:
        """Positions that are stored."""
        return self.stored[0][0].shape[-2] if self.stored else 0

    def extend(self, block: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new positions of a block, [batch, head, time, size], and return all of them."""
        if block in self.stored:
            old_keys, old_values = self.stored[block]
            keys, values = torch.cat([old_keys, keys], -2), torch.cat([old_values, values], -2)
        self.stored[block] = keys, values
        return keys, values


def rotate_neighbours(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate the pairs of neighbours (2i, 2i + 1) of the last axis by angles: RoPE (Su et al. 2021, arXiv:2104.09864).

    GGUF files have queries and keys in this order. Files of Hugging Face pair channel i with i + size/2 instead.

    Args:
        x: [..., time, size].
        angles: [time, size / 2].

    >>> rotate_neighbours(torch.tensor([[1.0, 0.0]]), torch.tensor([[math.pi / 6]])).round(decimals=3)
    tensor([[0.8660, 0.5000]])
    """
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class GroupedAttention(nn.Module):
    """Causal attention, where ``heads / kv_heads`` heads of queries share the keys and values of one head.

    ``queries``, ``keys``, ``values`` and ``probabilities`` are identity modules, so that hooks can access the operands
    of both products; queries and keys as they are after the rotation by their positions.
    """

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.shape = shape
        kv_width = shape.kv_heads * shape.head_size
        self.q = nn.Linear(shape.width, shape.width, bias=False)
        self.k = nn.Linear(shape.width, kv_width, bias=False)
        self.v = nn.Linear(shape.width, kv_width, bias=False)
        self.o = nn.Linear(shape.width, shape.width, bias=False)
        self.queries, self.keys, self.values, self.probabilities = (nn.Identity() for _ in range(4))

    def forward(self, x: Tensor, angles: Tensor, cache: KeyValueCache | None = None, block: int = 0) -> Tensor:
        """[batch, time, width] → [batch, time, width]; a position sees those before it, and those of the cache."""
        size, time = self.shape.head_size, x.shape[1]
        q, k, v = (layer(x).unflatten(-1, (-1, size)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        q, k, v = self.queries(rotate_neighbours(q, angles)), self.keys(rotate_neighbours(k, angles)), self.values(v)
        if cache is not None:
            k, v = cache.extend(block, k, v)
        k, v = (each.repeat_interleave(self.shape.heads // self.shape.kv_heads, dim=1) for each in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(size)
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(k.shape[-2] - time + 1)
        weights = self.probabilities(scores.masked_fill(future, -math.inf).softmax(dim=-1))
        return self.o((weights @ v).transpose(1, 2).flatten(-2))


class GatedFeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) · up(x)) (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] → [..., width]."""
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class LlamaBlock(nn.Module):
    """Attention and feed-forward part, each with a norm before it and a shortcut around it."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(shape.width, shape.epsilon)
        self.attention = GroupedAttention(shape)
        self.norm2 = nn.RMSNorm(shape.width, shape.epsilon)
        self.mlp = GatedFeedForward(shape)

    def forward(self, x: Tensor, angles: Tensor, cache: KeyValueCache | None = None, block: int = 0) -> Tensor:
        """[batch, time, width] → [batch, time, width]."""
        x = x + self.attention(self.norm1(x), angles, cache, block)
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    """Predicts the next token: embedding, ``blocks``, norm, ``head``. The head's weight is that of the embedding.

    Args:
        shape: the sizes.
        tied: whether head and embedding share their weight.

    >>> shape = LlamaShape(vocabulary=256, width=64, blocks=2, heads=4, kv_heads=2, hidden=128)
    >>> Llama(shape)(torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([2, 5, 256])
    """

    def __init__(self, shape: LlamaShape, tied: bool = True) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(LlamaBlock(shape) for _ in range(shape.blocks))
        self.norm = nn.RMSNorm(shape.width, shape.epsilon)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        """Tokens int64 [batch, time] → logits [batch, time, vocabulary] of the next token.

        With a cache, ``ids`` go on where the cache ends.
        """
        first = 0 if cache is None else cache.length
        if first + ids.shape[1] > self.shape.context:
            raise ValueError(f"sequences may hold up to {self.shape.context} tokens, got {first + ids.shape[1]}")
        x = self.embedding(ids)
        angles = self.angles(torch.arange(first, first + ids.shape[1], device=ids.device)).to(x.dtype)
        for number, block in enumerate(self.blocks):
            x = block(x, angles, cache, number)
        return self.head(self.norm(x))

    def angles(self, positions: Tensor) -> Tensor:
        """The angle by which each pair of channels is rotated at each position: float32 [positions, head_size / 2]."""
        size = self.shape.head_size
        wavelengths = self.shape.rope_base ** (torch.arange(0, size, 2, device=positions.device) / size)
        return positions[:, None] / wavelengths

    def write(self, ids: Tensor, cache: KeyValueCache | None = None) -> Iterator[int]:
        """Go on with a text: the likeliest next token, then the one after it, until nobody asks for more.

        Args:
            ids: int64 [time], the text so far, at least one token.
            cache: an empty one of your own, such as a :class:`~lplab.models.llama_cache.RoundedCache`.

        >>> from itertools import islice
        >>> model = llama(LlamaShape(vocabulary=16, width=8, blocks=1, heads=2, kv_heads=1, hidden=8))
        >>> len(list(islice(model.write(torch.tensor([1, 2])), 3)))
        3
        """
        if ids.ndim != 1 or not ids.numel():
            raise ValueError(f"ids must be at least one token [time], got a tensor of shape {list(ids.shape)}")
        cache = KeyValueCache() if cache is None else cache
        with torch.no_grad():
            while True:
                token = int(self(ids[None], cache)[0, -1].argmax())
                yield token
                ids = ids.new_tensor([token])


def llama(shape: LlamaShape, seed: int = 0, tied: bool = True) -> Llama:
    """A :class:`Llama` of any shape with new weights from ``seed``.

    >>> llama(LlamaShape(vocabulary=16, width=8, blocks=1, heads=2, kv_heads=1, hidden=8)).head
    Linear(in_features=8, out_features=16, bias=False)
    """
    return build(Llama, seed, shape, tied=tied)


@torch.no_grad()
def bits_a_token(model: Any, ids: Tensor, cache: KeyValueCache | None = None) -> float:
    """The loss of a language model on passages, in bits a token: the mean of −log2 p(next token).

    The perplexity that papers give is 2 to the power of this number.

    Args:
        model: gives logits [batch, time, vocabulary] for tokens [batch, time], or an object that has ``logits``, as
            those of Hugging Face's transformers do.
        ids: int64 [passages, time], two tokens or more.
        cache: for a :class:`Llama`: an empty cache that rounds keys and values.

    >>> model = llama(LlamaShape(vocabulary=16, width=8, blocks=1, heads=2, kv_heads=1, hidden=8))
    >>> 3 < bits_a_token(model, torch.arange(10).view(2, 5)) < 5
    True
    """
    output = model(ids[:, :-1]) if cache is None else model(ids[:, :-1], cache)
    logits = getattr(output, "logits", output)
    return functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).item() / math.log(2)
