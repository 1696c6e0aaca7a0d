"""No compression, or half precision on the wire: the baseline of all comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from lplab.compression import arrays
from lplab.compression.compressor import (
    AllReduce,
    Compressor,
    Context,
    Steps,
    Transfer,
    divided,
    element_count,
    flat_gradient,
)
from lplab.compression.layer_state import LayerState
from lplab.compression.wire.values import bytes_per_value, check_wire


@dataclass(frozen=True)
class Dense(Compressor):
    """The whole gradient, each value in ``wire``: "fp32" (lossless), "fp16" or "bf16".

    Values that overflow in half precision are clipped to its largest number. A simulation sums them in float32, and so
    does ``ddp_hook(..., ordered=True)``. Otherwise the back end of a process group sums them in half precision, which
    rounds each partial sum.

    Raises:
        ValueError: an unknown format.

    >>> Dense("fp16").plan((10,))
    (Transfer(kind='all_reduce', payload_bytes=20),)
    """

    takes_tensors: ClassVar[bool] = True
    takes_stacks: ClassVar[bool] = True

    wire: str = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_wire(self.wire)

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-reduce of all values."""
        values = arrays.of(gradient).round_to_wire(flat_gradient(gradient, state), self.wire)
        average = yield AllReduce(values, self.wire, partial(divided, divisor=context.world))
        return average.reshape(state.shape)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """One all-reduce of all values."""
        return (Transfer("all_reduce", element_count(shape) * bytes_per_value(self.wire)),)
