"""What the exercises of lab 14 share: FP4 with a scale for a few numbers, the Hadamard matrix, layers of a training."""

from __future__ import annotations

from functools import cache

import numpy as np

from lplab.quantizers import NVFP4_SIGNS, Hadamard

GROUP = 16  # numbers that share a scale
SIZES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
LAYERS = (
    "blocks.0.attention.qkv",
    "blocks.1.attention.project",
    "blocks.1.mlp.up",
    "blocks.2.mlp.down",
    "head",
)


def fp4(x, sizes=(0, 0.5, 1, 1.5, 2, 3, 4, 6)):
    """x in FP4: 16 neighbours along the last axis share a scale, and the largest of them is 6 times it."""
    scale = abs(x).reshape(-1, 16).max(axis=1).repeat(16).reshape(x.shape) / 6 + 1e-300
    return np.copysign(np.take(sizes, abs(abs(x / scale)[..., None] - sizes).argmin(axis=-1)) * scale, x)


def hadamard(size: int) -> np.ndarray:
    """A Hadamard matrix for columns of ``size`` tokens, with signs: that of NVFP4 for 16, else of a fixed seed.

    With 4 or 16 rows its entries are powers of two, so that products with small whole numbers are exact.

    >>> hadamard(4) @ hadamard(4).T
    array([[1., 0., 0., 0.],
           [0., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    """
    return np.ascontiguousarray(Hadamard(size, NVFP4_SIGNS if size == 16 else 3).matrix().T)


def short_name(layer: str) -> str:
    """A layer's name for the axis of a figure: its last word, and the number of its block.

    >>> short_name("blocks.1.mlp.up"), short_name("head")
    ('up 1', 'head')
    """
    parts = layer.split(".")
    return f"{parts[-1]} {parts[1]}" if len(parts) > 1 else layer


@cache
def captured_layers() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Output gradients and activations of the same tokens, by layer: float64 [tokens, outputs], [tokens, inputs].

    From the captured Transformer at step 1000; as many tokens as both have, a multiple of 16.
    """
    from lplab.datasets import captured

    found = {}
    for layer in LAYERS:
        dy, x = (captured()[f"transformer/step1000/{layer}/{role}"][0].astype(np.float64) for role in ("gradient", "activation"))
        tokens = min(len(dy), len(x)) // GROUP * GROUP
        found[layer] = dy[:tokens], x[:tokens]
    return found
