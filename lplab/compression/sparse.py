"""Sparse baselines: top-k and random-k.

A sparse message of k elements: 4·k bytes of indices (uint32, ascending), then the k values, all little-endian.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from lplab.compression import arrays
from lplab.compression.arrays import single
from lplab.compression.compressor import (
    AllGather,
    AllReduce,
    Compressor,
    Context,
    Steps,
    Transfer,
    corrected_gradient,
    element_count,
    flat_gradient,
    mean_at,
    mean_of_messages,
)
from lplab.compression.layer_state import LayerState
from lplab.compression.wire.values import bytes_per_value, check_wire, from_bytes

INDEX_BYTES = 4


def selected_count(density: float, numel: int) -> int:
    """The number of elements that a density selects, at least one.

    >>> selected_count(0.01, 250), selected_count(0.01, 20)
    (2, 1)
    """
    return max(1, round(density * numel))


def top_k_indices(x: Any, k: int) -> Any:
    """Indices of the k largest |x| of a flat array or tensor, ascending; of equal magnitudes the first ones.

    >>> top_k_indices(np.array([2, -3, 2, 2], np.float32), 2).tolist()
    [0, 1]
    """
    xp = arrays.of(x)
    magnitudes = xp.abs(x)
    limit = xp.kth_largest(magnitudes, k)
    above = magnitudes > limit
    ties = xp.nonzero(magnitudes == limit)[: k - xp.count(above)]
    above[ties] = True
    return xp.nonzero(above)


def encode(indices: Any, values: Any, wire: str = "fp32") -> Any:
    """A sparse message as uint8; the values have been rounded to ``wire``.

    >>> encode(np.array([258]), np.array([1.0], np.float32)).tolist()
    [2, 1, 0, 0, 0, 0, 128, 63]
    """
    xp = arrays.of(indices)
    return xp.concatenate([xp.unsigned_bytes(indices, INDEX_BYTES), xp.float_bytes(values, wire)])


def decode(payload: Any, numel: int, wire: str = "fp32") -> tuple[Any, Any]:
    """The inverse of :func:`encode`: indices (int64) and values (float32).

    Raises:
        ValueError: the payload is not a whole number of elements, or an index is out of range or out of order.
    """
    width = INDEX_BYTES + bytes_per_value(wire)
    count, remainder = divmod(len(payload), width)
    if not count or remainder:
        raise ValueError(f"{len(payload)} bytes are no sparse message: each element has {width} bytes")
    indices = arrays.of(payload).unsigned(payload[: INDEX_BYTES * count], INDEX_BYTES)
    if indices[-1] >= numel or (indices[1:] <= indices[:-1]).any():
        raise ValueError("this sparse message is damaged: an index is out of range, or out of order")
    return indices, from_bytes(payload[INDEX_BYTES * count :], wire, count)


def mean_of_sparse(numel: int, wire: str) -> Callable[[Sequence[Any]], Any]:
    """The ``finish`` of an all-gather of sparse messages: their mean as a dense vector."""

    def add(total: Any, payload: Any) -> None:
        indices, values = decode(payload, numel, wire)
        # No index occurs twice in a message.
        total[indices] += values

    return mean_of_messages(numel, add)


def check_density(density: float) -> None:
    """Raise ValueError unless 0 < density ≤ 1."""
    if not 0 < density <= 1:
        raise ValueError(f"density must be above 0 and at most 1, got {density}")


@dataclass(frozen=True)
class _Sparse(Compressor):
    """The settings that :class:`TopK` and :class:`RandomK` share."""

    density: float = 0.01
    error_feedback: bool = True
    wire: str = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_density(self.density)
        check_wire(self.wire)

    @property
    def state_names(self) -> tuple[str, ...]:
        """The residual, if there is error feedback."""
        return ("residual",) if self.error_feedback else ()


@dataclass(frozen=True)
class TopK(_Sparse):
    """Each learner sends its own k largest values (Aji and Heafield 2017, by layer).

    The sets of n learners differ, so the density of the sum grows with n: "gradient build-up".

    Args:
        density: fraction of the elements that is sent.
        error_feedback: whether unsent values are added to the next gradient.
        wire: "fp32", "fp16" or "bf16" for the values.

    Raises:
        ValueError: a density outside (0, 1], an unknown format.

    >>> TopK(0.01).plan((100, 100))
    (Transfer(kind='all_gather', payload_bytes=800),)
    """

    takes_tensors: ClassVar[bool] = True

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-gather of indices and values."""
        corrected = _add_residual(gradient, state)
        indices = top_k_indices(corrected, selected_count(self.density, len(corrected)))
        sent = arrays.of(corrected).round_to_wire(corrected[indices], self.wire)
        if self.error_feedback:
            corrected[indices] -= sent
            state.propose(residual=corrected)
        average = yield AllGather(encode(indices, sent, self.wire), mean_of_sparse(len(corrected), self.wire))
        return average.reshape(gradient.shape)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """One all-gather of the index and the value of each selected element."""
        width = INDEX_BYTES + bytes_per_value(self.wire)
        return (Transfer("all_gather", selected_count(self.density, element_count(shape)) * width),)


@dataclass(frozen=True)
class RandomK(_Sparse):
    """All learners send the same random elements, so no indices are sent.

    Args:
        density: fraction of the elements, drawn without replacement by a generator that all learners share.
        error_feedback: whether unsent values are added to the next gradient. Without it the values are scaled by 1
            / density, which makes them unbiased.
        wire: "fp32", "fp16" or "bf16" for the values. How they are summed: see :class:`~lplab.compression.Dense`.

    Raises:
        ValueError: a density outside (0, 1], an unknown format.

    >>> RandomK(0.01).plan((100, 100))
    (Transfer(kind='all_reduce', payload_bytes=400),)
    """

    takes_tensors: ClassVar[bool] = True

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-reduce of values."""
        corrected = _add_residual(gradient, state)
        numel = len(corrected)
        k = selected_count(self.density, numel)
        drawn = np.sort(context.shared_rng().choice(numel, k, replace=False, shuffle=False))
        xp = arrays.of(gradient)
        indices = xp.from_host(drawn, gradient)
        values = corrected[indices] if self.error_feedback else corrected[indices] * single(numel / k)
        sent = xp.round_to_wire(values, self.wire)
        if self.error_feedback:
            corrected[indices] -= sent
            state.propose(residual=corrected)
        average = yield AllReduce(sent, self.wire, partial(mean_at, indices, numel, context.world))
        return average.reshape(gradient.shape)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """The values alone: all learners know the indices."""
        return (
            Transfer("all_reduce", selected_count(self.density, element_count(shape)) * bytes_per_value(self.wire)),
        )


def _add_residual(gradient: Any, state: LayerState) -> Any:
    """The gradient plus the residual, if there is one, in new memory."""
    if "residual" in state:
        return corrected_gradient(gradient, state)
    return arrays.of(gradient).copy(flat_gradient(gradient, state))
