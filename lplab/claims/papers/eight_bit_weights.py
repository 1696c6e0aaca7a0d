"""What the claim of weights in 8 bits compares (Sun et al. 2019): the schemes, and the run with master weights.

The protocol itself is :mod:`lplab.compression.sharded_weights`.
"""

from __future__ import annotations

import numpy as np

from lplab.compression.sharded_weights import (
    EIGHT_BIT,
    LEARNING_RATE,
    MOMENTUM,
    SIXTEEN_BIT,
    ShardedUpdateFormats,
    ShardedWeights,
    round_to_format,
)

__all__ = [
    "FLOAT",
    "MASTER",
    "NO_RESIDUAL",
    "RESIDUAL",
    "SCHEMES",
    "SHORT_RESIDUAL",
    "MasterWeightRun",
    "ShardedWeights",
]
FLOAT, MASTER, RESIDUAL = "float32", "16-bit master, one owner", "residual"
SHORT_RESIDUAL, NO_RESIDUAL = "residual in 8 bits", "no residual"

SCHEMES = {
    FLOAT: ShardedUpdateFormats("fp32", "fp32", "fp32", "fp32"),
    RESIDUAL: ShardedUpdateFormats(),
    SHORT_RESIDUAL: ShardedUpdateFormats(residual="fp8_152"),
    NO_RESIDUAL: ShardedUpdateFormats(residual=None),
}


class MasterWeightRun:
    """The run to compare with, by other code: the library's SGD with 16-bit master weights on one owner."""

    def __init__(self, weights: np.ndarray) -> None:
        import torch

        from lplab.training import SGD, QuantSpec, Update

        state = QuantSpec(SIXTEEN_BIT, "nearest_away")
        update = Update(weight=EIGHT_BIT, momentum=state, gradient=state, master_weight=state)
        first = round_to_format(weights, SIXTEEN_BIT)
        self.parameter = torch.nn.Parameter(torch.from_numpy(first.copy()))
        self.optimizer = SGD([self.parameter], lr=LEARNING_RATE, momentum=MOMENTUM, update=update)
        self.optimizer.state[self.parameter]["master"] = torch.from_numpy(first.copy())
        self.parameter.data = torch.from_numpy(round_to_format(first, EIGHT_BIT))

    def broadcast_weights(self) -> np.ndarray:
        """The 8-bit weights of the forward pass."""
        return np.asarray(self.parameter.detach().numpy())

    def weights(self) -> np.ndarray:
        """The master weights."""
        return np.asarray(self.optimizer.state[self.parameter]["master"].numpy())

    def step(self, gradients: list[np.ndarray]) -> None:
        """The mean of the gradients, each rounded to 16 bits, as one gradient."""
        import torch

        total = np.sum([round_to_format(g, SIXTEEN_BIT) for g in gradients], axis=0, dtype=np.float32)
        self.parameter.grad = torch.from_numpy(total / np.float32(len(gradients)))
        self.optimizer.step()
