"""What compressors have in common that hold another one: all that they do not change is that one's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.compression.protocol import Compressor, Context, Steps, Transfer
from lplab.compression.state import LayerState


@dataclass(frozen=True)
class Around(Compressor):
    """Another compressor, as it is; subclasses say what is different.

    Raises:
        ValueError: something else than a compressor.
    """

    compressor: Compressor

    def init(self, shape: Sequence[int]) -> LayerState:
        """The state of the compressor."""
        return self.compressor.init(shape)

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """Those of the compressor."""
        return (yield from self.compressor.steps(gradient, state, context))

    def plan(self, shape: Sequence[int], activity: Any = None) -> tuple[Transfer, ...]:
        """That of the compressor."""
        return self.compressor.plan(shape, activity)
