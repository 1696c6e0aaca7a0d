"""No compression, or half precision on the wire: the baseline of all comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from lplab.compression.averaging import divided
from lplab.compression.compressor import (
    AllReduce,
    Compressor,
    Context,
    Steps,
    Transfer,
    element_count,
    flat_gradient,
    sum_of_ranks,
)
from lplab.compression.computed_gradients import in_parts
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

    takes_tensors: ClassVar[bool] = True

    wire: str = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_wire(self.wire)

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """One all-reduce."""
        values = round_to_wire(flat_gradient(gradient, state), self.wire)
        average = yield AllReduce(values, self.wire, partial(divided, divisor=context.world))
        return average.reshape(gradient.shape)

    def together(
        self, gradients: Sequence[np.ndarray], states: Sequence[LayerState], context: Context
    ) -> tuple[np.ndarray, list[tuple[int, str, int]]]:
        """The sum of all gradients."""
        world, shape, numel = context.world, states[0].shape, element_count(states[0].shape)
        parts = zip(*in_parts(gradients, states), strict=True)
        values = (round_to_wire(flat_gradient(g, s), self.wire).reshape(-1, numel) for g, s in parts)
        average = (sum_of_ranks(chain.from_iterable(values)) / np.float32(world)).reshape(shape)
        return average, [(rank, AllReduce.kind, numel * bytes_per_value(self.wire)) for rank in range(world)]

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """All values."""
        return (Transfer("sum", element_count(shape) * bytes_per_value(self.wire)),)
