"""Recorded gradients: their maxima in every step of a training, and those captured at single steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from lplab.datasets import captured, data_folder


@dataclass(frozen=True, eq=False)
class GradientMaxima:
    """The largest output gradient of every layer in every step of a training.

    Attributes:
        layers: names, from the input to the loss.
        largest: float32 [steps, layers], read-only: max|dy|, unscaled.
    """

    layers: tuple[str, ...]
    largest: np.ndarray

    def of(self, layer: str) -> np.ndarray:
        """One layer's maxima, float32 [steps].

        Raises:
            ValueError: no such layer.

        >>> gradient_maxima().of("head").shape
        (400,)
        """
        if layer not in self.layers:
            raise ValueError(f"no layer {layer!r}; there are: {', '.join(self.layers)}")
        return self.largest[:, self.layers.index(layer)]


@cache
def gradient_maxima() -> GradientMaxima:
    """400 steps of the character Transformer in float32 (``data/record_maxima.py`` makes them again).

    >>> recorded = gradient_maxima()
    >>> recorded.largest.shape == (400, len(recorded.layers)), recorded.layers[-1]
    (True, 'head')
    """
    with np.load(data_folder() / "gradient_maxima" / "transformer.npz", allow_pickle=False) as stored:
        layers, largest = tuple(map(str, stored["layers"])), stored["largest"]
    largest.setflags(write=False)
    return GradientMaxima(layers, largest)


def gradients_at(model: str, step: int, elements: int = 4096) -> dict[str, np.ndarray]:
    """The captured output gradients of all layers at one step: float64 [up to ``elements``] each.

    The sample is evenly spread over the tensor; its first element is replaced by the largest, on which a scale depends.

    Raises:
        ValueError: no such model or step.

    >>> list(gradients_at("resnet", 30))[0], gradients_at("resnet", 30)["head"].shape
    ('stem', (640,))
    """
    found = {}
    for name in captured().select(model=model, step=step, role="gradient"):
        x = captured()[name].ravel().astype(np.float64)
        sample = x[:: max(1, -(-x.size // elements))].copy()
        sample[0] = x[np.argmax(np.abs(x))]
        found[name.split("/")[2]] = sample
    return found
