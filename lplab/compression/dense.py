"""No compression, or fewer bits a value: what everything else is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lplab.compression.protocol import Compressor, Context, Steps, Sum, Transfer, checked, size_of
from lplab.compression.state import LayerState
from lplab.compression.values import bytes_per_value, check_wire, round_to_wire


@dataclass(frozen=True)
class Dense(Compressor):
    """The whole gradient, each value in ``wire``: "fp32" (nothing is lost), "fp16" or "bf16".

    Half precision on the wire is summed in float32 here; what overflows becomes the largest number.

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
        """One sum."""
        values = round_to_wire(checked(gradient, state), self.wire)
        average = yield Sum(values, self.wire, lambda total: total / np.float32(context.world))
        return average.reshape(gradient.shape)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """All values."""
        return (Transfer("sum", size_of(shape) * bytes_per_value(self.wire)),)
