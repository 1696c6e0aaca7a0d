"""A Llama whose residual stream is rotated: it computes what it did, and no channel of the stream stands out."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn

from lplab.models.llama import Llama
from lplab.quantizers import random_rotation, rotate_reader, rotate_writer


@torch.no_grad()
def rotated(model: Llama, seed: int = 0) -> Llama:
    """A copy with the weights of its norms merged into the layers behind, and its residual stream rotated.

    Merged and rotated in float64 (QuaRot, step 1). Head and embedding no longer share their weight: the last norm's
    weight is in the head alone.

    Args:
        model: not changed.
        seed: of :func:`~lplab.quantizers.random_rotation`.

    Raises:
        TypeError: the model is no :class:`Llama`.

    >>> from lplab.models.llama import LlamaShape, llama
    >>> model = llama(LlamaShape(vocabulary=16, width=8, blocks=1, heads=2, kv_heads=1, hidden=8))
    >>> ids = torch.arange(5)[None]
    >>> torch.allclose(rotated(model)(ids), model(ids), atol=1e-5)
    True
    """
    if not isinstance(model, Llama):
        raise TypeError(f"only a Llama is rotated here, got {type(model).__name__}")
    copied = copy.deepcopy(model)
    copied.head.weight = nn.Parameter(copied.head.weight.detach().clone())
    q = random_rotation(model.shape.width, seed)
    copied.embedding.weight.copy_(rotate_reader(copied.embedding.weight, q))
    for block in copied.blocks:
        attention, mlp = block.attention, block.mlp
        _read_rotated(block.norm1, [attention.q, attention.k, attention.v], q)
        _read_rotated(block.norm2, [mlp.gate, mlp.up], q)
        for writer in (attention.o, mlp.down):
            writer.weight.copy_(rotate_writer(writer.weight, q))
    _read_rotated(copied.norm, [copied.head], q)
    return copied


def _read_rotated(norm: nn.Module, readers: list[nn.Linear], q: np.ndarray) -> None:
    """Move the weight of a norm into the layers that read from it, and let these read the rotated stream."""
    for reader in readers:
        reader.weight.copy_(rotate_reader(reader.weight.double() * norm.weight.double(), q))
    norm.weight.fill_(1.0)
