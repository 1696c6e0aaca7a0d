"""Weights that travel in 8 bits: the owner of a share keeps what rounding left over (Sun et al. 2019).

Each learner owns a share of the weights. In a step every learner

1. computes its gradient with the 8-bit weights that all have, and sends each owner its share in 16 bits (1-6-9);
2. the owner adds what came, in the order of ranks, and updates its share in 16 bits;
3. it rounds the share to 8 bits (1-4-3), keeps the rest, and sends the 8 bits to all.

8-bit weight and rest add up to the 16-bit weight, so nothing is lost, and only the owner needs the memory for the rest.
Read is that gradients are reduce-scattered in 16 bits and weights all-gathered in 8; the rest is recalled.
What an owner does stands here, without a network. ``lplab.parallel.weight_broadcast`` runs it between processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from lplab import formats as F
from lplab.formats import FloatFormat

SIXTEEN, EIGHT = "dlfloat16", "hfp8_forward"
RATE, MOMENTUM = 2.0**-4, 0.875
"""Powers of two and their like make every product of the update exact in float32: then two programs that order their
instructions in different ways agree bit for bit."""
KINDS = {8: np.uint8, 16: np.uint16, 32: np.uint32}


@dataclass(frozen=True)
class Scheme:
    """What travels and what is kept, as names of formats of 8, 16 or 32 bits.

    Args:
        gradient: on the wire.
        state: of the update: weights, momentum, and the mean of the gradients.
        weight: on the wire, and what learners compute with.
        rest: of what rounding the weight left over; None forgets it.

    Raises:
        ValueError: an unknown format, or one whose codes do not fill whole bytes.

    >>> Scheme(weight="int4")
    Traceback (most recent call last):
    ...
    ValueError: weight: codes of 8, 16 or 32 bits can travel, 'int4' has 4
    """

    gradient: str = SIXTEEN
    state: str = SIXTEEN
    weight: str = EIGHT
    rest: str | None = SIXTEEN

    def __post_init__(self) -> None:
        for what in ("gradient", "state", "weight", "rest"):
            name = getattr(self, what)
            if name is not None:
                check_travels(what, name)

    def sent_bytes(self, weights: int, learners: int, rank: int = 0) -> tuple[int, int]:
        """What one learner sends in a step: bytes of the reduce-scatter, bytes of the all-gather. Own parts stay.

        >>> Scheme().sent_bytes(1000, learners=4), Scheme("fp32", "fp32", "fp32", "fp32").sent_bytes(1000, 4)
        ((1500, 750), (3000, 3000))
        """
        own = share_sizes(weights, learners)[rank]
        gradient, weight = (F.get(name).bits // 8 for name in (self.gradient, self.weight))
        return (weights - own) * gradient, (learners - 1) * own * weight

    def owner_bytes(self, weights: int, learners: int) -> float:
        """Memory of one learner for what only owners hold, mean over the learners: rest and momentum of its share.

        >>> Scheme().owner_bytes(1000, learners=4)
        1000.0
        """
        kept = [self.state] if self.rest is None else [self.state, self.rest]
        return weights / learners * sum(F.get(name).bits / 8 for name in kept)


def check_travels(what: str, name: str) -> None:
    """Refuse a format whose codes do not fill whole bytes.

    Raises:
        ValueError: an unknown format, or one of other than 8, 16 or 32 bits.
    """
    bits = F.get(name).bits
    if bits not in KINDS:
        raise ValueError(f"{what}: codes of 8, 16 or 32 bits can travel, {name!r} has {bits}")


def share_sizes(weights: int, learners: int) -> list[int]:
    """How many weights each learner owns: as equal as may be, the first ones own one more.

    Raises:
        ValueError: no learners.

    >>> share_sizes(10, 4)
    [3, 3, 2, 2]
    """
    if learners < 1:
        raise ValueError(f"learners must be 1 or more, got {learners}")
    each, more = divmod(weights, learners)
    return [each + (rank < more) for rank in range(learners)]


def to_bytes(x: np.ndarray, name: str) -> bytes:
    """Numbers as codes of a format, the bytes that travel; 1-6-9 rounds ties away, as the chips do.

    >>> to_bytes(np.array([1.0, -2.0]), "hfp8_forward").hex()
    '58e0'
    """
    values = rounded(x, name)
    if name == "fp32":
        return values.astype("<f4").tobytes()
    shift, codes, _ = _tables(name)
    if codes is None or not np.isfinite(values).all():
        return bytes(F.get(name).encode(values).astype(KINDS[F.get(name).bits]).tobytes())
    return bytes(codes[np.ascontiguousarray(values).view(np.uint32) >> shift].tobytes())


def from_bytes(data: bytes, name: str) -> np.ndarray:
    """What :func:`to_bytes` wrote: float32 [n].

    >>> from_bytes(to_bytes(np.array([0.3]), "hfp8_forward"), "hfp8_forward")
    array([0.3125], dtype=float32)
    """
    if name == "fp32":
        return np.frombuffer(data, "<f4").astype(np.float32)
    return _tables(name)[2][np.frombuffer(data, KINDS[F.get(name).bits])]


@cache
def _tables(name: str) -> tuple[int, np.ndarray | None, np.ndarray]:
    """For a format of 8 or 16 bits: a shift, the code by the leading bits of a float32, the value by the code.

    A value of a float format has no digits behind its mantissa bits, so the leading bits of its float32 tell it apart.
    """
    fmt = F.get(name)
    every = np.arange(2**fmt.bits, dtype=KINDS[fmt.bits])
    values = fmt.decode(every).astype(np.float32)
    if not isinstance(fmt, FloatFormat):
        return 0, None, values
    shift = 23 - fmt.mantissa_bits
    finite = np.isfinite(values)
    codes = np.zeros(2 ** (32 - shift), every.dtype)
    leading = values[finite].view(np.uint32) >> shift
    codes[leading] = every[finite]
    codes[0x80000000 >> shift] = fmt.encode(np.float32(-0.0))  # a format may have no zero of its own below zero
    return shift, codes, values


def rounded(x: np.ndarray, name: str) -> np.ndarray:
    """The nearest values of a format, float32; ties of 1-6-9 go away from zero, others to even.

    >>> rounded(np.array([0.3]), "hfp8_forward")
    array([0.3125], dtype=float32)
    """
    if name == "fp32":
        return np.asarray(x, np.float32)
    return F.get(name).quantize(np.asarray(x, np.float32), "nearest_away" if name == SIXTEEN else "nearest_even")


class Owner:
    """One learner's share of the weights: what it sent, what it kept, and the momentum.

    Args:
        weights: the first weights of the share, float32 [n].
        scheme: the formats.
        rate, momentum: of the update (SGD); ``rate`` may be set anew between steps.

    >>> owner = Owner(np.array([0.3], np.float32), Scheme())
    >>> owner.sent.tolist(), owner.weights.tolist()
    ([0.3125], [0.2998046875])
    """

    def __init__(self, weights: np.ndarray, scheme: Scheme, rate: float = RATE, momentum: float = MOMENTUM) -> None:
        self.scheme, self.rate, self.momentum = scheme, rate, momentum
        self.velocity = np.zeros_like(weights)
        self._store(rounded(weights, scheme.state))

    def _store(self, weights: np.ndarray) -> None:
        self.sent = rounded(weights, self.scheme.weight)
        rest = self.scheme.rest
        self.kept = np.zeros_like(weights) if rest is None else rounded(weights - self.sent, rest)

    @property
    def weights(self) -> np.ndarray:
        """The weights that the owner goes on from: what all have, and the rest."""
        return self.sent + self.kept

    def update(self, gradients: Sequence[bytes]) -> bytes:
        """Add the gradients of all learners in the order of ranks, update the share, and give out its codes."""
        total = np.zeros_like(self.velocity)
        for data in gradients:
            total += from_bytes(data, self.scheme.gradient)
        mean = rounded(total / np.float32(len(gradients)), self.scheme.state)
        self.velocity = rounded(np.float32(self.momentum) * self.velocity + mean, self.scheme.state)
        self._store(rounded(self.weights - np.float32(self.rate) * self.velocity, self.scheme.state))
        return to_bytes(self.sent, self.scheme.weight)


class Owners:
    """All learners in one process: shares of equal size, and a count of the bytes that leave a learner.

    Args:
        weights: of the whole model, float32 [n].
        learners: how many.
        scheme, rate, momentum: as for :class:`Owner`.
    """

    def __init__(
        self,
        weights: np.ndarray,
        learners: int,
        scheme: Scheme,
        rate: float = RATE,
        momentum: float = MOMENTUM,
    ) -> None:
        self.scheme, self.sent_bytes = scheme, 0
        self.cuts = np.cumsum(share_sizes(weights.size, learners))[:-1]
        self.owners = [Owner(share, scheme, rate, momentum) for share in np.split(weights, self.cuts)]

    def visible(self) -> np.ndarray:
        """The weights that all learners compute with."""
        return np.concatenate([owner.sent for owner in self.owners])

    def weights(self) -> np.ndarray:
        """What the owners hold."""
        return np.concatenate([owner.weights for owner in self.owners])

    def step(self, gradients: Sequence[np.ndarray]) -> None:
        """Reduce-scatter, update, all-gather: a gradient of each learner, float32 [n]. An own share does not travel."""
        n = len(self.owners)
        shares = [[to_bytes(part, self.scheme.gradient) for part in np.split(g, self.cuts)] for g in gradients]
        self.sent_bytes += sum(len(shares[i][k]) for i in range(n) for k in range(n) if i != k)
        for rank, owner in enumerate(self.owners):
            self.sent_bytes += (n - 1) * len(owner.update([shares[i][rank] for i in range(n)]))
