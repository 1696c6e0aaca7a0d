"""No compression, or half precision on the wire: the baseline of all comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lplab.compression.compressor import (
    AllReduce,
    Compressor,
    Context,
    Steps,
    Transfer,
    element_count,
    flat_gradient,
    flat_gradients,
    sum_of_ranks,
)
from lplab.compression.computed_gradients import fit_a_block
from lplab.compression.state import LayerState
from lplab.compression.wire.values import bytes_per_value, check_wire, round_to_wire


@dataclass(frozen=True)
class Dense(Compressor):
    """The whole gradient, each value in ``wire``: "fp32" (lossless), "fp16" or "bf16".

    Values that overflow in half precision are clipped to its largest number. A simulation sums them in float32, and so
    does ``ddp_hook(..., ordered=True)``. Otherwise the back end of a process group sums them in half precision, which
    rounds each partial sum.

    Raises:
        ValueError: an unknown format.

    >>> Dense("fp16").plan((10,))
    (Transfer(kind='sum', payload_bytes=20),)
    """

    wire: str = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_wire(self.wire)

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """One all-reduce."""
        values = round_to_wire(flat_gradient(gradient, state), self.wire)
        average = yield AllReduce(values, self.wire, lambda total: total / np.float32(context.world))
        return average.reshape(gradient.shape)

    def together(
        self, gradients: Sequence[np.ndarray], states: Sequence[LayerState], context: Context
    ) -> tuple[np.ndarray, list[tuple[int, str, int]]]:
        """The sum of all gradients."""
        world, shape = len(gradients), states[0].shape
        values: Iterable[np.ndarray]
        if isinstance(gradients, np.ndarray) and fit_a_block(gradients.nbytes):
            values = round_to_wire(flat_gradients(gradients, states), self.wire)
        else:
            values = (round_to_wire(flat_gradient(g, s), self.wire) for g, s in zip(gradients, states, strict=True))
        each = element_count(shape) * bytes_per_value(self.wire)
        average = (sum_of_ranks(values) / np.float32(world)).reshape(shape)
        return average, [(rank, AllReduce.kind, each) for rank in range(world)]

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """All values."""
        return (Transfer("sum", element_count(shape) * bytes_per_value(self.wire)),)
