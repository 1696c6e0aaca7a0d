"""Small tensors as they are: they are a hundredth of the bytes, and compressing them saves nothing."""

from __future__ import annotations

from dataclasses import dataclass

from lplab.compression.around import Around
from lplab.compression.dense import Dense
from lplab.compression.layer import LayerInfo
from lplab.compression.protocol import Compressor


@dataclass(frozen=True)
class LargeOnly(Around):
    """Another compressor for large tensors; biases, normalization and tensors below 1,024 elements go dense.

    AdaComp and ScaleCom do so by themselves. The other algorithms compress whatever they are given, as their papers do.

    Raises:
        ValueError: something else than a compressor.

    >>> from lplab.compression import TopK
    >>> made = LargeOnly(TopK(0.01))
    >>> made.for_layer(LayerInfo("bias", (4096,), "small")), made.for_layer(LayerInfo("fc", (64, 64)))
    (Dense(wire='fp32'), TopK(density=0.01, error_feedback=True, wire='fp32'))
    """

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """Dense, or the compressor with the settings of the layer."""
        return Dense() if layer.is_small else self.compressor.for_layer(layer)
