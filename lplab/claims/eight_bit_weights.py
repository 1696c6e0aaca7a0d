"""What the claim of weights in 8 bits compares (Sun et al. 2019): the schemes, and the run with master weights.

The protocol itself is :mod:`lplab.compression.weight_shares`.
"""

from __future__ import annotations

import numpy as np

from lplab.compression.weight_shares import EIGHT, MOMENTUM, RATE, SIXTEEN, Owners, Scheme, rounded

__all__ = ["FLOAT", "MASTER", "NONE", "RESIDUAL", "SCHEMES", "SHORT", "Master", "Owners"]
FLOAT, MASTER, RESIDUAL = "float32", "16-bit master, one owner", "residual"
SHORT, NONE = "residual in 8 bits", "no residual"

SCHEMES = {
    FLOAT: Scheme("fp32", "fp32", "fp32", "fp32"),
    RESIDUAL: Scheme(),
    SHORT: Scheme(rest="fp8_152"),
    NONE: Scheme(rest=None),
}


class Master:
    """The run to compare with, by other code: the library's SGD with 16-bit master weights on one owner."""

    def __init__(self, weights: np.ndarray) -> None:
        import torch

        from lplab.training import SGD, Rule, Update

        state = Rule(SIXTEEN, "nearest_away")
        update = Update(weight=EIGHT, momentum=state, gradient=state, master_weight=state)
        first = rounded(weights, SIXTEEN)
        self.parameter = torch.nn.Parameter(torch.from_numpy(first.copy()))
        self.optimizer = SGD([self.parameter], lr=RATE, momentum=MOMENTUM, update=update)
        self.optimizer.state[self.parameter]["master"] = torch.from_numpy(first.copy())
        self.parameter.data = torch.from_numpy(rounded(first, EIGHT))

    def visible(self) -> np.ndarray:
        """The 8-bit weights of the forward pass."""
        return np.asarray(self.parameter.detach().numpy())

    def weights(self) -> np.ndarray:
        """The master weights."""
        return np.asarray(self.optimizer.state[self.parameter]["master"].numpy())

    def step(self, gradients: list[np.ndarray]) -> None:
        """The mean of the gradients, each rounded to 16 bits, as one gradient."""
        import torch

        total = np.sum([rounded(g, SIXTEEN) for g in gradients], axis=0, dtype=np.float32)
        self.parameter.grad = torch.from_numpy(total / np.float32(len(gradients)))
        self.optimizer.step()
