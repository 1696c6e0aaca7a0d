"""A recorded language model: what goes on inside SmolLM2 while it reads 256 tokens of the novel.

It keeps figures and exercises alive where the model itself has not been fetched (:func:`lplab.models.smollm2`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np

from lplab.datasets import data_folder

BLOCK = 12
"""The block whose stream, queries, keys and values are recorded."""
SHARING = MappingProxyType({"blocks.12.attention": ("q", "k", "v"), "blocks.11.mlp": ("down",)})
"""The layers whose input and weights are recorded, those that share an input together."""


@dataclass(frozen=True, eq=False)
class LayerRecording:
    """Layers that share an input, as a calibration finds them.

    Attributes:
        inputs: float32 [tokens, inputs], stored in half precision.
        weights: float32 [outputs, inputs] by the name of the layer. They lie on 16 levels for each 32 weights, so that
            no statement about 4 bits may rest on them.
    """

    inputs: np.ndarray
    weights: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class LanguageModelRecording:
    """SmolLM2-135M-Instruct on one passage; arrays are read-only float32.

    Attributes:
        pieces: the text of each token.
        bits: the loss on the passage, in bits a token.
        first_token: |x| of the residual stream at the first token, before each of the 30 blocks and before the last
            norm: [31, 576]. Channel 507 has the massive activation of the first token there.
        other_tokens: the largest |x| of each channel over the other tokens: [31, 576].
        medians: the median |x| of all tokens and channels: [31].
        stream: the residual stream before block 12: [tokens, 576].
        queries, keys, values: of block 12, queries and keys with their positions: [9, tokens, 64], and [3, tokens, 64].
        layers: by the keys of :data:`SHARING`.
    """

    pieces: tuple[str, ...]
    bits: float
    first_token: np.ndarray
    other_tokens: np.ndarray
    medians: np.ndarray
    stream: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    layers: Mapping[str, LayerRecording]


@cache
def language_model_recording() -> LanguageModelRecording:
    """The recording (``data/record_language_model.py`` makes it again).

    >>> recorded = language_model_recording()
    >>> int(recorded.first_token[12].argmax()), recorded.layers["blocks.11.mlp"].weights["down"].shape
    (507, (576, 1536))
    """
    with np.load(data_folder() / "language_model" / "smollm2.npz", allow_pickle=False) as stored:
        parts = {name: stored[name] for name in stored.files}
    layers = {
        part: LayerRecording(_wide(parts[part]), {name: _of_q4_1(parts[f"{part}.{name}"]) for name in names})
        for part, names in SHARING.items()
    }
    arrays = ("first_token", "other_tokens", "medians", "stream", "queries", "keys", "values")
    return LanguageModelRecording(
        pieces=tuple(map(str, parts["pieces"])),
        bits=float(parts["bits"]),
        layers=MappingProxyType(layers),
        **{name: _wide(parts[name]) for name in arrays},
    )


def _wide(x: np.ndarray) -> np.ndarray:
    """An array as float32 that cannot be changed."""
    x = x.astype(np.float32)
    x.setflags(write=False)
    return x


def _of_q4_1(blocks: np.ndarray) -> np.ndarray:
    """Weights of GGUF's format Q4_1: for each 32 a scale, a minimum, and 4-bit codes, first halves in the low bits.

    >>> block = np.concatenate([np.float16([0.5, -1]).view(np.uint8), np.full(16, 0x30, np.uint8)])
    >>> _of_q4_1(block[None])[0, [0, 15, 16, 31]]
    array([-1. , -1. ,  0.5,  0.5], dtype=float32)
    """
    parts = blocks.reshape(len(blocks), -1, 20)
    scale, least = np.moveaxis(np.ascontiguousarray(parts[..., :4]).view(np.float16), -1, 0).astype(np.float32)
    codes = np.concatenate([parts[..., 4:] & 15, parts[..., 4:] >> 4], -1)
    return _wide((codes * scale[..., None] + least[..., None]).reshape(len(blocks), -1))
