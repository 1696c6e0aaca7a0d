"""Compressors that wrap another one: dense for small tensors, dense for the first steps, momentum before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lplab.compression import arrays
from lplab.compression.arrays import single
from lplab.compression.compressor import (
    Compressor,
    Context,
    Dense,
    Steps,
    Transfer,
    element_count,
    flat_gradient,
)
from lplab.compression.layer_info import LayerInfo
from lplab.compression.layer_state import LayerState
from lplab.compression.lockstep import steps_of


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

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """The steps of the wrapped compressor."""
        return (yield from steps_of(self.compressor, gradient, state, context))

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

    takes_tensors: ClassVar[bool] = True

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
    Transfer(kind='all_reduce', payload_bytes=400)
    """

    takes_tensors: ClassVar[bool] = True

    dense_steps: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dense_steps < 0:
            raise ValueError(f"dense_steps must be 0 or more, got {self.dense_steps}")

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """The wrapped compressor with the settings of the layer."""
        return replace(self, compressor=self.compressor.for_layer(layer))

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Dense at first, then the steps of the wrapped compressor."""
        current = Dense() if context.step < self.dense_steps else self.compressor
        return (yield from steps_of(current, gradient, state, context))


@dataclass(frozen=True)
class LocalMomentum(WrappedCompressor):
    """Momentum of each learner in front of another compressor, in place of the optimizer's behind it.

    u ← μ·u + g, and u is what the other compressor gets. The residual then holds sums of u: what arrives late has the
    momentum that it would have had in time. Lin et al. 2018 call it momentum correction, and add that u becomes zero
    where it was sent, as else an old direction goes on (:class:`~lplab.compression.DGC` is both, for the largest
    elements). Here it becomes zero where the average is not zero, in layers that have a residual. A compressor that
    sends something of every element (OneBit, EFSign, PowerSGD, WarmUp in its dense steps) would clear all of u: give
    ``clear=False``. The optimizer must have **no** momentum.

    Args:
        compressor: the other one.
        momentum: μ, from 0 to below 1.
        clear: whether u becomes zero where something was sent.

    Raises:
        ValueError: not a compressor; a momentum out of range.

    >>> from lplab.compression import TopK, exchange
    >>> before = LocalMomentum(TopK(density=0.5), momentum=0.5)
    >>> state, g = before.init((2,)), np.array([4, 1], np.float32)
    >>> for _ in range(2):
    ...     print(exchange(before, [g], [state]))
    ...     state.commit()
    [4. 0.]
    [4. 0.]
    >>> state["velocity"].tolist(), state["residual"].tolist()
    ([0.0, 1.5], [0.0, 2.5])
    """

    takes_tensors: ClassVar[bool] = True

    momentum: float = 0.9
    clear: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be from 0 to below 1, got {self.momentum}")

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """The wrapped compressor with the settings of the layer, and momentum before it."""
        return replace(self, compressor=self.compressor.for_layer(layer))

    def init(self, shape: Sequence[int]) -> LayerState:
        """The state of the wrapped compressor and a velocity of zeros.

        Raises:
            ValueError: the wrapped compressor has a velocity, too.
        """
        arrays = self.compressor.init(shape).arrays()
        if "velocity" in arrays:
            raise ValueError(f"this compressor has a momentum of its own: {self.compressor!r}")
        return LayerState(shape, **arrays, velocity=np.zeros(element_count(shape), np.float32))

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """The steps of the wrapped compressor with the velocity as its gradient."""
        u = state["velocity"] * single(self.momentum) + flat_gradient(gradient, state)
        own = arrays.of(u).copy(u).reshape(gradient.shape)
        average = yield from steps_of(self.compressor, own, state, context)
        if self.clear and "residual" in state:
            u[average.reshape(-1) != 0] = 0
        state.propose(velocity=u)
        return average
