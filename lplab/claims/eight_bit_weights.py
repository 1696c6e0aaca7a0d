"""Training by several learners whose weights travel in 8 bits (Sun et al. 2019), simulated in one process.

Each learner owns a share of the weights. In a step every learner

1. computes its gradient with the 8-bit weights that all have, and sends each owner its share in 16 bits (1-6-9);
2. the owner adds what came, in the order of ranks, and updates its share in 16 bits;
3. it rounds the share to 8 bits (1-4-3), keeps the rest, and sends the 8 bits to all.

Gradients and weights pass through their codes as bytes. Read is that gradients are reduce-scattered in 16 bits and
weights all-gathered in 8; the rest of the protocol is recalled.
The step size 2⁻⁴ and the momentum 7/8 make every product of the update exact in float32, so that "bit for bit" hangs
on the protocol alone, not on the order of instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lplab import formats as F

RATE, MOMENTUM = 2.0**-4, 0.875
SIXTEEN, EIGHT = "dlfloat16", "hfp8_forward"
FLOAT, MASTER, RESIDUAL = "float32", "16-bit master, one owner", "residual"
SHORT, NONE = "residual in 8 bits", "no residual"


@dataclass(frozen=True)
class Scheme:
    """What travels and what is kept: names of formats; ``rest`` None forgets what rounding left over."""

    gradient: str = SIXTEEN
    state: str = SIXTEEN
    weight: str = EIGHT
    rest: str | None = SIXTEEN


SCHEMES = {
    FLOAT: Scheme("fp32", "fp32", "fp32", "fp32"),
    RESIDUAL: Scheme(),
    SHORT: Scheme(rest="fp8_152"),
    NONE: Scheme(rest=None),
}


def to_bytes(x: np.ndarray, name: str) -> bytes:
    """Numbers as codes of a format, the bytes that travel; 1-6-9 rounds ties away, as the chips do.

    >>> to_bytes(np.array([1.0, -2.0]), "hfp8_forward").hex()
    '58e0'
    """
    return bytes(F.get(name).encode(_rounded(x, name)).tobytes())


def from_bytes(data: bytes, name: str) -> np.ndarray:
    """What :func:`to_bytes` wrote: float32 [n].

    >>> from_bytes(to_bytes(np.array([0.3]), "hfp8_forward"), "hfp8_forward")
    array([0.3125], dtype=float32)
    """
    kind = {8: np.uint8, 16: np.uint16, 32: np.uint32}[F.get(name).bits]
    return F.get(name).decode(np.frombuffer(data, kind)).astype(np.float32)


def _rounded(x: np.ndarray, name: str) -> np.ndarray:
    if name == "fp32":
        return np.asarray(x, np.float32)
    return F.get(name).quantize(np.asarray(x, np.float32), "nearest_away" if name == SIXTEEN else "nearest_even")


class Owner:
    """One learner's share of the weights: what it sent, what it kept, and the momentum.

    Args:
        weights: the first weights of the share, float32 [n].
        scheme: the formats.
    """

    def __init__(self, weights: np.ndarray, scheme: Scheme) -> None:
        self.scheme = scheme
        self.velocity = np.zeros_like(weights)
        self._store(_rounded(weights, scheme.state))

    def _store(self, weights: np.ndarray) -> None:
        self.sent = _rounded(weights, self.scheme.weight)
        rest = self.scheme.rest
        self.kept = np.zeros_like(weights) if rest is None else _rounded(weights - self.sent, rest)

    @property
    def weights(self) -> np.ndarray:
        """The weights that the owner goes on from."""
        return self.sent + self.kept

    def update(self, gradients: list[bytes]) -> bytes:
        """Add the gradients of all learners in the order of ranks, update the share, and give out its codes."""
        total = np.zeros_like(self.velocity)
        for data in gradients:
            total += from_bytes(data, self.scheme.gradient)
        mean = _rounded(total / np.float32(len(gradients)), self.scheme.state)
        self.velocity = _rounded(np.float32(MOMENTUM) * self.velocity + mean, self.scheme.state)
        self._store(_rounded(self.weights - np.float32(RATE) * self.velocity, self.scheme.state))
        return to_bytes(self.sent, self.scheme.weight)


class Owners:
    """The protocol: shares of equal size, and a count of the bytes that leave a learner."""

    def __init__(self, weights: np.ndarray, learners: int, scheme: Scheme) -> None:
        self.scheme, self.sent_bytes = scheme, 0
        self.owners = [Owner(share, scheme) for share in np.array_split(weights, learners)]

    def visible(self) -> np.ndarray:
        """The weights that all learners compute with."""
        return np.concatenate([owner.sent for owner in self.owners])

    def weights(self) -> np.ndarray:
        """What the owners hold."""
        return np.concatenate([owner.weights for owner in self.owners])

    def step(self, gradients: list[np.ndarray]) -> None:
        """Reduce-scatter, update, all-gather. A learner's own share does not travel."""
        n = len(self.owners)
        shares = [[to_bytes(part, self.scheme.gradient) for part in np.array_split(g, n)] for g in gradients]
        self.sent_bytes += sum(len(shares[i][k]) for i in range(n) for k in range(n) if i != k)
        for rank, owner in enumerate(self.owners):
            self.sent_bytes += (n - 1) * len(owner.update([shares[i][rank] for i in range(n)]))


class Master:
    """The run to compare with, by other code: the library's SGD with 16-bit master weights on one owner."""

    def __init__(self, weights: np.ndarray) -> None:
        import torch

        from lplab.training import SGD, Rule, Update

        state = Rule(SIXTEEN, "nearest_away")
        update = Update(weight=EIGHT, momentum=state, gradient=state, master_weight=state)
        first = _rounded(weights, SIXTEEN)
        self.parameter = torch.nn.Parameter(torch.from_numpy(first.copy()))
        self.optimizer = SGD([self.parameter], lr=RATE, momentum=MOMENTUM, update=update)
        self.optimizer.state[self.parameter]["master"] = torch.from_numpy(first.copy())
        self.parameter.data = torch.from_numpy(_rounded(first, EIGHT))

    def visible(self) -> np.ndarray:
        """The 8-bit weights of the forward pass."""
        return np.asarray(self.parameter.detach().numpy())

    def weights(self) -> np.ndarray:
        """The master weights."""
        return np.asarray(self.optimizer.state[self.parameter]["master"].numpy())

    def step(self, gradients: list[np.ndarray]) -> None:
        """The mean of the gradients, each rounded to 16 bits, as one gradient."""
        import torch

        total = np.sum([_rounded(g, SIXTEEN) for g in gradients], axis=0, dtype=np.float32)
        self.parameter.grad = torch.from_numpy(total / np.float32(len(gradients)))
        self.optimizer.step()
