"""What delayed scaling does in recorded steps: the numbers behind exercise 06.2's figure and table."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np

from lplab import quantizers
from lplab.formats import get
from lplab.recordings import gradient_maxima

LAYERS = ("blocks.0.attention.qkv", "blocks.2.attention/matmul", "head")
LENGTHS, MARGINS = (1, 2, 4, 8, 16, 32, 64), (0, 1, 2, 3)  # what the sliders of the figure offer


def library_scales(amax: np.ndarray, length: int, format: Any, margin: int) -> np.ndarray:
    """The scales that `quantizers.DelayedScaling` rounds with, step by step: float64 [steps].

    >>> library_scales(np.array([448.0, 896.0, 448.0]), 16, "e4m3fn", 0)
    array([1., 1., 2.])
    """
    delayed = quantizers.DelayedScaling(format, quantizers.AmaxHistory(length), margin=margin)
    used = []
    for value in amax:
        before = delayed.scale
        delayed.quantize(np.array([value]))
        used.append(delayed.scale if before is None else before)
    return np.array(used, dtype=np.float64)


def recorded_amax(layer: str = LAYERS[0]) -> np.ndarray:
    """The largest gradients of a layer in 400 recorded steps: float64 [steps]."""
    return gradient_maxima().of(layer).astype(np.float64)


@cache
def library_ends(length: int, margin: int, layer: str = LAYERS[0], format: str = "e4m3fn") -> np.ndarray:
    """The largest numbers that the library's scales can hold, step by step: float64 [steps]; not to be changed.

    >>> library_ends(16, 1).shape
    (400,)
    """
    return library_scales(recorded_amax(layer), length, format, margin) * get(format).max


def clipping(amax: np.ndarray, ends: np.ndarray) -> tuple[int, float, float]:
    """How many steps are clipped, how far, and what is unused otherwise.

    Args:
        amax: largest magnitudes [steps].
        ends: the largest number that each step can hold [steps].

    Returns:
        Steps that are clipped; the octaves by which the largest of them lies beyond the end, 0 where none is; and the
        octaves between the largest magnitude and the end of the range, the mean over all other steps.

    >>> clipping(np.array([1.0, 4.0, 1.0]), np.array([2.0, 1.0, 4.0]))
    (1, 2.0, 1.5)
    """
    headroom = np.log2(ends / amax)
    fits = amax <= ends
    return int((~fits).sum()), float(max(0, -headroom.min())), float(headroom[fits].mean())


def delayed_table(
    lengths: tuple[int, ...], margins: tuple[int, ...], layer: str = LAYERS[0], format: str = "e4m3fn"
) -> list[tuple[int, int, int, float, float]]:
    """What delayed scaling does in 400 recorded steps, for each history and margin.

    Returns:
        length, margin, and the three numbers of `clipping`.

    >>> [row[:3] for row in delayed_table((1, 64), (0,))]
    [(1, 0, 205), (64, 0, 9)]
    """
    amax = recorded_amax(layer)
    return [
        (length, margin, *clipping(amax, library_ends(length, margin, layer, format)))
        for length, margin in product(lengths, margins)
    ]
