"""Dense at first, compressed later: most papers begin so."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lplab.compression.around import Around
from lplab.compression.dense import Dense
from lplab.compression.layer import LayerInfo
from lplab.compression.protocol import Compressor, Context, Steps
from lplab.compression.state import LayerState


@dataclass(frozen=True)
class WarmUp(Around):
    """Another compressor, after ``dense_steps`` steps without compression. :meth:`plan` is that of later steps.

    Raises:
        ValueError: a negative number of steps.

    >>> from lplab.compression import ScaleCom
    >>> WarmUp(ScaleCom(chunk=100), dense_steps=50).plan((10_000,))[1]
    Transfer(kind='sum', payload_bytes=400)
    """

    dense_steps: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dense_steps < 0:
            raise ValueError(f"dense_steps must be 0 or more, got {self.dense_steps}")

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """With the settings of the layer."""
        return replace(self, compressor=self.compressor.for_layer(layer))

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """Those of the one or the other."""
        now = Dense() if context.step < self.dense_steps else self.compressor
        return (yield from now.steps(gradient, state, context))
