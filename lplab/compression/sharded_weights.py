"""Weights sent in 8 bits: the owner of a shard keeps the rounding residual (Sun et al. 2019).

Each learner owns a shard of the weights. In each step

1. every learner computes its gradient with the 8-bit weights, and sends each owner its part in 16 bits (1-6-9);
2. the owner sums the gradients in the order of ranks and updates its shard in 16 bits;
3. it rounds the shard to 8 bits (1-4-3), keeps the residual, and sends the 8 bits to all.

8-bit weight and residual add up to the 16-bit weight, so nothing is lost, and only the owner stores the residual.
Sources: gradients reduce-scattered in 16 bits and weights all-gathered in 8 bits are read; the residual is recalled.
This module is the owner's part, without a network. ``lplab.parallel.sharded_update`` runs it between processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from lplab import formats as F
from lplab.compression.compressor import all_finite
from lplab.formats import FloatFormat

SIXTEEN_BIT, EIGHT_BIT = "dlfloat16", "hfp8_forward"
LEARNING_RATE, MOMENTUM = 2.0**-4, 0.875
"""Values with few bits: every product of the update is exact in float32, so implementations that order their operations
differently agree bit for bit."""
CODE_DTYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32}


@dataclass(frozen=True)
class ShardedUpdateFormats:
    """The formats of messages and states, as names of formats of 8, 16 or 32 bits.

    Args:
        gradient: on the wire.
        state: of the update: weights, momentum, and the mean of the gradients.
        weight: on the wire, and in the learners' computation.
        residual: of the rounding residual of the weights; None discards it.

    Raises:
        ValueError: an unknown format, or one whose codes do not fill whole bytes.

    >>> ShardedUpdateFormats(weight="int4")
    Traceback (most recent call last):
    ...
    ValueError: weight: only codes of 8, 16 or 32 bits can be sent, 'int4' has 4
    """

    gradient: str = SIXTEEN_BIT
    state: str = SIXTEEN_BIT
    weight: str = EIGHT_BIT
    residual: str | None = SIXTEEN_BIT

    def __post_init__(self) -> None:
        for field in ("gradient", "state", "weight", "residual"):
            name = getattr(self, field)
            if name is not None:
                check_whole_bytes(field, name)

    def sent_bytes(self, weights: int, learners: int, rank: int = 0) -> tuple[int, int]:
        """Bytes that one learner sends in a step: reduce-scatter, all-gather. Its own part is not sent.

        >>> float32 = ShardedUpdateFormats("fp32", "fp32", "fp32", "fp32")
        >>> ShardedUpdateFormats().sent_bytes(1000, learners=4), float32.sent_bytes(1000, learners=4)
        ((1500, 750), (3000, 3000))
        """
        own = shard_sizes(weights, learners)[rank]
        gradient, weight = (F.get(name).bits // 8 for name in (self.gradient, self.weight))
        return (weights - own) * gradient, (learners - 1) * own * weight


def check_whole_bytes(field: str, name: str) -> None:
    """Refuse a format whose codes do not fill whole bytes.

    Raises:
        ValueError: an unknown format, or one of other than 8, 16 or 32 bits.
    """
    bits = F.get(name).bits
    if bits not in CODE_DTYPES:
        raise ValueError(f"{field}: only codes of 8, 16 or 32 bits can be sent, {name!r} has {bits}")


def shard_sizes(weights: int, learners: int) -> list[int]:
    """The number of weights that each learner owns: equal, or one more for the first ones.

    Raises:
        ValueError: no learners.

    >>> shard_sizes(10, 4)
    [3, 3, 2, 2]
    """
    if learners < 1:
        raise ValueError(f"learners must be 1 or more, got {learners}")
    size, remainder = divmod(weights, learners)
    return [size + (rank < remainder) for rank in range(learners)]


def to_bytes(x: np.ndarray, name: str) -> bytes:
    """Encode numbers in a format, as the bytes of a message; 1-6-9 rounds ties away, as the chips do.

    >>> to_bytes(np.array([1.0, -2.0]), "hfp8_forward").hex()
    '58e0'
    """
    values = round_to_format(x, name)
    if name == "fp32":
        return values.astype("<f4").tobytes()
    shift, codes, _ = _tables(name)
    if codes is None or not np.isfinite(values).all():
        return bytes(F.get(name).encode(values).astype(CODE_DTYPES[F.get(name).bits]).tobytes())
    return bytes(codes[np.ascontiguousarray(values).view(np.uint32) >> shift].tobytes())


def from_bytes(data: bytes, name: str) -> np.ndarray:
    """The inverse of :func:`to_bytes`: float32 [n].

    >>> from_bytes(to_bytes(np.array([0.3]), "hfp8_forward"), "hfp8_forward")
    array([0.3125], dtype=float32)
    """
    if name == "fp32":
        return np.frombuffer(data, "<f4").astype(np.float32)
    return _tables(name)[2][np.frombuffer(data, CODE_DTYPES[F.get(name).bits])]


@cache
def _tables(name: str) -> tuple[int, np.ndarray | None, np.ndarray]:
    """For a format of 8 or 16 bits: a shift, the codes by the leading bits of a float32, the values by code.

    The low bits of the float32 of a value of a float format are zero, so its leading bits identify it.
    """
    fmt = F.get(name)
    every = np.arange(2**fmt.bits, dtype=CODE_DTYPES[fmt.bits])
    values = fmt.decode(every).astype(np.float32)
    if not isinstance(fmt, FloatFormat):
        return 0, None, values
    shift = 23 - fmt.mantissa_bits
    finite = np.isfinite(values)
    codes = np.zeros(2 ** (32 - shift), every.dtype)
    leading = values[finite].view(np.uint32) >> shift
    codes[leading] = every[finite]
    # A format may have no negative zero.
    codes[0x80000000 >> shift] = fmt.encode(np.float32(-0.0))
    return shift, codes, values


def round_to_format(x: np.ndarray, name: str) -> np.ndarray:
    """The nearest values of a format, float32; ties of 1-6-9 go away from zero, others to even.

    >>> round_to_format(np.array([0.3]), "hfp8_forward")
    array([0.3125], dtype=float32)
    """
    if name == "fp32":
        return np.asarray(x, np.float32)
    return F.get(name).quantize(np.asarray(x, np.float32), "nearest_away" if name == SIXTEEN_BIT else "nearest_even")


class WeightShard:
    """One learner's shard of the weights: the values sent, the residual, and the momentum.

    Args:
        weights: the initial weights of the shard, float32 [n].
        scheme: the formats.
        learning_rate, momentum: of the update (SGD); ``learning_rate`` may be changed between steps.

    >>> shard = WeightShard(np.array([0.3], np.float32), ShardedUpdateFormats())
    >>> shard.sent.tolist(), shard.weights.tolist()
    ([0.3125], [0.2998046875])
    """

    def __init__(
        self,
        weights: np.ndarray,
        scheme: ShardedUpdateFormats,
        learning_rate: float = LEARNING_RATE,
        momentum: float = MOMENTUM,
    ) -> None:
        self.scheme, self.learning_rate, self.momentum = scheme, learning_rate, momentum
        self.velocity = np.zeros_like(weights)
        self.sent, self.residual = self._divided(round_to_format(weights, scheme.state))

    def _divided(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is sent of the weights, and what stays with the owner."""
        sent, residual = round_to_format(weights, self.scheme.weight), self.scheme.residual
        return sent, np.zeros_like(weights) if residual is None else round_to_format(weights - sent, residual)

    @property
    def weights(self) -> np.ndarray:
        """The master weights: the values sent plus the residual."""
        return self.sent + self.residual

    # What overflows is found.
    @np.errstate(over="ignore", invalid="ignore")
    def updated(self, gradients: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Sum the gradients of all learners in the order of ranks; the new velocity, values sent and residual.

        Nothing has changed until :meth:`store` takes them. None if something overflows: all learners skip the step.
        """
        total = np.zeros_like(self.velocity)
        for data in gradients:
            total += from_bytes(data, self.scheme.gradient)
        mean = round_to_format(total / np.float32(len(gradients)), self.scheme.state)
        velocity = round_to_format(np.float32(self.momentum) * self.velocity + mean, self.scheme.state)
        weights = round_to_format(self.weights - np.float32(self.learning_rate) * velocity, self.scheme.state)
        sent, residual = self._divided(weights)
        return (velocity, sent, residual) if all(map(all_finite, (velocity, weights, sent, residual))) else None

    def store(self, velocity: np.ndarray, sent: np.ndarray, residual: np.ndarray) -> bytes:
        """Keep what :meth:`updated` returned; the codes for all learners."""
        self.velocity, self.sent, self.residual = velocity, sent, residual
        return to_bytes(sent, self.scheme.weight)


class ShardedWeights:
    """The shards of all learners in one process, with a count of the bytes sent.

    Args:
        weights: of the whole model, float32 [n].
        learners: number of learners.
        scheme, learning_rate, momentum: as for :class:`WeightShard`.
    """

    def __init__(
        self,
        weights: np.ndarray,
        learners: int,
        scheme: ShardedUpdateFormats,
        learning_rate: float = LEARNING_RATE,
        momentum: float = MOMENTUM,
    ) -> None:
        self.scheme, self.sent_bytes = scheme, 0
        self.cuts = np.cumsum(shard_sizes(weights.size, learners))[:-1]
        self.shards = [WeightShard(shard, scheme, learning_rate, momentum) for shard in np.split(weights, self.cuts)]

    def broadcast_weights(self) -> np.ndarray:
        """The weights that all learners compute with."""
        return np.concatenate([shard.sent for shard in self.shards])

    def weights(self) -> np.ndarray:
        """The master weights."""
        return np.concatenate([shard.weights for shard in self.shards])

    def step(self, gradients: Sequence[np.ndarray]) -> bool:
        """Reduce-scatter, update, all-gather: one gradient of each learner, float32 [n]; whether the step was made."""
        n = len(self.shards)
        parts = [[to_bytes(part, self.scheme.gradient) for part in np.split(g, self.cuts)] for g in gradients]
        self.sent_bytes += sum(len(parts[i][k]) for i in range(n) for k in range(n) if i != k)
        new = [shard.updated([parts[i][rank] for i in range(n)]) for rank, shard in enumerate(self.shards)]
        stored = [part for part in new if part is not None]
        if len(stored) < n:
            return False
        for shard, part in zip(self.shards, stored, strict=True):
            self.sent_bytes += (n - 1) * len(shard.store(*part))
        return True
