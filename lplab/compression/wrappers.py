"""Compressors that wrap another one: dense for small tensors, dense for the first steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lplab.compression.compressor import Compressor, Context, Steps, Transfer
from lplab.compression.dense import Dense
from lplab.compression.layer import LayerInfo
from lplab.compression.state import LayerState


@dataclass(frozen=True)
class WrappedCompressor(Compressor):
    """Delegates to another compressor; subclasses override what differs.

    Raises:
        ValueError: not a compressor.
    """

    compressor: Compressor

    def init(self, shape: Sequence[int]) -> LayerState:
        """The state of the wrapped compressor."""
        return self.compressor.init(shape)

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """The steps of the wrapped compressor."""
        return (yield from self.compressor.steps(gradient, state, context))

    def plan(self, shape: Sequence[int], activity: Any = None) -> tuple[Transfer, ...]:
        """The plan of the wrapped compressor."""
        return self.compressor.plan(shape, activity)


@dataclass(frozen=True)
class DenseIfSmall(WrappedCompressor):
    """Another compressor for large tensors; biases, normalization and tensors below 1,024 elements are sent dense.

    They are about 1 % of the bytes, so compressing them saves nothing. AdaComp and ScaleCom have this built in; the
    other algorithms compress all tensors, as in their papers.

    Raises:
        ValueError: not a compressor.

    >>> from lplab.compression import TopK
    >>> wrapped = DenseIfSmall(TopK(0.01))
    >>> wrapped.for_layer(LayerInfo("bias", (4096,), "small")), wrapped.for_layer(LayerInfo("fc", (64, 64)))
    (Dense(wire='fp32'), TopK(density=0.01, error_feedback=True, wire='fp32'))
    """

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """Dense for small tensors, else the wrapped compressor with the settings of the layer."""
        return Dense() if layer.is_small else self.compressor.for_layer(layer)


@dataclass(frozen=True)
class WarmUp(WrappedCompressor):
    """Another compressor after ``dense_steps`` steps without compression. :meth:`plan` is that of the later steps.

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
        """The wrapped compressor with the settings of the layer."""
        return replace(self, compressor=self.compressor.for_layer(layer))

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """Dense at first, then the steps of the wrapped compressor."""
        current = Dense() if context.step < self.dense_steps else self.compressor
        return (yield from current.steps(gradient, state, context))
