"""Sparse baselines: the largest values, and random values.

A message of chosen values is, for k elements: 4·k bytes of indices (uint32, rising), then the k values, all little-
endian.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lplab.compression.means import mean_at, mean_of_messages
from lplab.compression.protocol import Compressor, Context, Gather, Steps, Sum, Transfer, checked, size_of
from lplab.compression.state import LayerState
from lplab.compression.values import bytes_per_value, check_wire, from_bytes, round_to_wire, to_bytes

INDEX_BYTES = 4


def chosen(density: float, numel: int) -> int:
    """How many elements a density means: at least one.

    >>> chosen(0.01, 250), chosen(0.01, 20)
    (2, 1)
    """
    return max(1, round(density * numel))


def largest(x: np.ndarray, k: int) -> np.ndarray:
    """Indices of the k largest |x|, rising; where equal, the first ones.

    >>> largest(np.array([2, -3, 2, 2], np.float32), 2).tolist()
    [0, 1]
    """
    magnitudes = np.abs(x)
    limit = np.partition(magnitudes, x.size - k)[x.size - k]
    above = magnitudes > limit
    ties = np.flatnonzero(magnitudes == limit)[: k - np.count_nonzero(above)]
    above[ties] = True
    return np.flatnonzero(above)


def encode(indices: np.ndarray, values: np.ndarray, wire: str = "fp32") -> np.ndarray:
    """Chosen values as uint8; the values have been rounded to ``wire``.

    >>> encode(np.array([258]), np.array([1.0], np.float32)).tolist()
    [2, 1, 0, 0, 0, 0, 128, 63]
    """
    return np.concatenate([indices.astype("<u4").view(np.uint8), to_bytes(values, wire)])


def decode(payload: np.ndarray, numel: int, wire: str = "fp32") -> tuple[np.ndarray, np.ndarray]:
    """The inverse of :func:`encode`: indices (int64) and values (float32).

    Raises:
        ValueError: the payload is no whole number of elements, or an index is out of range or out of order.
    """
    each = INDEX_BYTES + bytes_per_value(wire)
    if not payload.size or payload.size % each:
        raise ValueError(f"{payload.size} bytes are no message of chosen values: {each} bytes for each are needed")
    count = payload.size // each
    indices = np.ascontiguousarray(payload[: INDEX_BYTES * count]).view("<u4").astype(np.int64)
    if indices[-1] >= numel or (np.diff(indices) <= 0).any():
        raise ValueError("this message of chosen values is damaged: an index is out of range, or out of order")
    return indices, from_bytes(payload[INDEX_BYTES * count :], wire, count)


def mean_of_chosen(numel: int, wire: str) -> Callable[[Sequence[np.ndarray]], np.ndarray]:
    """What a gather of such messages ends with: their mean as a dense vector."""

    def add(total: np.ndarray, payload: np.ndarray) -> None:
        indices, values = decode(payload, numel, wire)
        total[indices] += values

    return mean_of_messages(numel, add)


def check_density(density: float) -> None:
    """Raise ValueError unless 0 < density ≤ 1."""
    if not 0 < density <= 1:
        raise ValueError(f"density must be above 0 and at most 1, got {density}")


@dataclass(frozen=True)
class _Sparse(Compressor):
    """What both have in common: how much, whether the rest is remembered, and the format of values."""

    density: float = 0.01
    error_feedback: bool = True
    wire: str = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_density(self.density)
        check_wire(self.wire)

    def init(self, shape: Sequence[int]) -> LayerState:
        """A residue of zeros, if there is error feedback."""
        if not self.error_feedback:
            return LayerState(shape)
        return LayerState(shape, residue=np.zeros(size_of(shape), np.float32))


@dataclass(frozen=True)
class TopK(_Sparse):
    """Each learner sends its own k largest values (Aji and Heafield 2017, by layer).

    The sets of n learners differ, so the sum fills up with n: "gradient build-up".

    Args:
        density: share of the elements that is sent.
        error_feedback: whether what is not sent is added to the next gradient.
        wire: "fp32", "fp16" or "bf16" for the values.

    Raises:
        ValueError: a density outside (0, 1], an unknown format.

    >>> TopK(0.01).plan((100, 100))
    (Transfer(kind='gather', payload_bytes=800),)
    """

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """One gather of indices and values."""
        wanted = _wanted(gradient, state)
        indices = largest(wanted, chosen(self.density, wanted.size))
        sent = round_to_wire(wanted[indices], self.wire)
        if self.error_feedback:
            wanted[indices] -= sent
            state.propose(residue=wanted)
        average = yield Gather(encode(indices, sent, self.wire), mean_of_chosen(gradient.size, self.wire))
        return average.reshape(gradient.shape)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """Index and value of each chosen element."""
        each = INDEX_BYTES + bytes_per_value(self.wire)
        return (Transfer("gather", chosen(self.density, size_of(shape)) * each),)


@dataclass(frozen=True)
class RandomK(_Sparse):
    """All learners send the same random elements, so no indices travel.

    Args:
        density: share of the elements, drawn without replacement from a coin that all learners share.
        error_feedback: whether what is not sent is added to the next gradient. Without it the values are scaled by 1
            / density, which makes them right on average.
        wire: "fp32", "fp16" or "bf16" for the values.

    Raises:
        ValueError: a density outside (0, 1], an unknown format.

    >>> RandomK(0.01).plan((100, 100))
    (Transfer(kind='sum', payload_bytes=400),)
    """

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """One sum of values."""
        wanted = _wanted(gradient, state)
        k = chosen(self.density, wanted.size)
        indices = np.sort(context.shared_coin().choice(wanted.size, k, replace=False, shuffle=False))
        values = wanted[indices] if self.error_feedback else wanted[indices] * np.float32(wanted.size / k)
        sent = round_to_wire(values, self.wire)
        if self.error_feedback:
            wanted[indices] -= sent
            state.propose(residue=wanted)
        average = yield Sum(sent, self.wire, partial(mean_at, indices, gradient.size, context.world))
        return average.reshape(gradient.shape)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """The values alone."""
        return (Transfer("sum", chosen(self.density, size_of(shape)) * bytes_per_value(self.wire)),)


def _wanted(gradient: np.ndarray, state: LayerState) -> np.ndarray:
    """The gradient and what was left over: a new array."""
    flat = checked(gradient, state)
    return flat + state["residue"] if "residue" in state else flat.copy()
