"""ScaleCom: one learner selects for all, so that masks and sums commute (Chen et al., NeurIPS 2020, arXiv 2104.11125).

Each learner has a residual m (the paper's memory) and p = m + g. The leader of the step (step mod learners) selects the
largest |p| of each chunk and broadcasts their indices. All learners send their own p there, and an all-reduce sums
them: the message does not grow with the number of learners. Residual: m ← (1 − β)·m + β·(p − sent). Where p was sent,
(1 − β)·m remains: it is not set to zero.

The message with the indices: for each chunk in order, ascending positions of the selected elements in it. A position is
one byte for chunks of up to 256 elements, else two bytes, little-endian. Every chunk has as many of them as its learner
selects; a last chunk that is shorter has one for each element. The length follows from the size of the layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from lplab.compression import arrays
from lplab.compression.arrays import single
from lplab.compression.compressor import (
    AllReduce,
    Broadcast,
    Compressor,
    Context,
    Dense,
    Steps,
    Transfer,
    corrected_gradient,
    element_count,
    mean_at,
)
from lplab.compression.layer_info import LayerInfo
from lplab.compression.layer_state import LayerState
from lplab.compression.wire.values import bytes_per_value, check_wire

MAX_CHUNK = 2**16
CHUNK_BY_WEIGHT_REUSE = ((197, 25), (128, 50), (1, 400))  # (least weight_reuse, elements in a chunk)


@dataclass(frozen=True)
class ScaleCom(Compressor):
    """Scalable sparsified gradient compression (CLT-k with a low-pass filter).

    Args:
        chunk: elements in a chunk, 1 to 65,536; None: by the layer, 400, 50 or 25 if its weights are used fewer than
            128, 128 to 196, or more times for a sample, and the first layer dense, be it a table of embeddings (the
            paper's guide, as our notes reconstruct it).
        beta: of the residual's low-pass filter, above 0 and up to 1. 1 is plain error feedback, which is lossless;
            the paper uses 0.1 with large batches and learning rates. Below 1 a part of the unsent values is lost.
        m: how many elements of each chunk are sent.
        wire: "fp32", "fp16" or "bf16" for the values; their rounding error stays in the residual. How they are summed:
            see :class:`~lplab.compression.Dense`; what a back end rounds there is lost.
        small: "dense" or "compressed" (chunk 25): how biases, normalization and tensors below 1,024 elements are sent.

    Raises:
        ValueError: a value out of range.

    >>> ScaleCom().for_layer(LayerInfo("conv", (64, 64, 3, 3), "convolution", weight_reuse=56 * 56)).chunk
    25
    """

    takes_tensors: ClassVar[bool] = True
    state_names = ("residual",)
    takes_stacks: ClassVar[bool] = True

    chunk: int | None = None
    beta: float = 1.0
    m: int = 1
    wire: str = "fp32"
    small: str = "dense"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chunk is not None and not 1 <= self.chunk <= MAX_CHUNK:
            raise ValueError(f"chunk must be from 1 to {MAX_CHUNK:,} elements, got {self.chunk}")
        if not 0 < self.beta <= 1:
            raise ValueError(f"beta must be above 0 and at most 1, got {self.beta}")
        if self.m < 1 or (self.chunk is not None and self.m > self.chunk):
            raise ValueError(f"m must be from 1 to the chunk's length, got {self.m}")
        if self.small not in ("dense", "compressed"):
            raise ValueError(f"small must be 'dense' or 'compressed', got {self.small!r}")
        check_wire(self.wire)

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """The compressor with the layer's chunk; dense for the first layer (without ``chunk``) and small tensors."""
        if (layer.first and self.chunk is None) or (layer.is_small and self.small == "dense"):
            return Dense()
        return self if self.chunk is not None else replace(self, chunk=chunk_for(layer))

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with a broadcast of indices by the leader, then an all-reduce of values."""
        xp, numel, chunk = arrays.of(gradient), element_count(state.shape), self._chunk()
        corrected = self._corrected(gradient, state, context)
        payload = None
        if context.leads:
            of_leader = corrected.reshape(-1, numel)[context.leader - context.rank]
            payload = encode_indices(largest_per_chunk(of_leader, chunk, self.m), chunk)
        nbytes = index_bytes(numel, chunk, self.m)
        decode = partial(decode_indices, numel=numel, chunk=chunk, m=self.m)
        indices = yield Broadcast(payload, context.leader, nbytes, decode, device=xp.device(gradient))
        average_of = partial(mean_at, indices, numel, context.world)
        average = yield AllReduce(self._send(corrected, indices, state, context), self.wire, average_of)
        return average.reshape(state.shape)

    def _corrected(self, gradient: Any, state: LayerState, context: Context) -> Any:
        """Residual plus gradient; in the memory of the new residual, or of the gradient to be added to it in place."""
        if context.in_place:
            residual, flat = state["residual"], gradient.reshape(-1)
            return np.add(residual, flat, out=residual if self.beta == 1 else flat)
        return corrected_gradient(gradient, state, gradient if context.overwrite else state.blank("residual"))

    def _send(self, corrected: Any, indices: Any, state: LayerState, context: Context) -> Any:
        """What is sent, rounded to the wire; the rest is proposed as the new residual, or becomes it at once."""
        xp = arrays.of(corrected)
        if self.wire == "fp32":
            sent = xp.take_sent(corrected, indices)
        else:
            selected = xp.take(corrected, indices)
            sent = xp.round_to_wire(selected, self.wire)
            corrected[..., indices] = selected - sent
        if self.beta != 1:
            residual = state["residual"]
            corrected *= single(self.beta)
            if context.in_place:
                residual *= single(1 - self.beta)
                residual += corrected
            else:
                corrected += residual * single(1 - self.beta)
        if not context.in_place:
            state.propose(residual=corrected)
        return sent

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """A broadcast of indices by the leader, and an all-reduce of all learners' values."""
        numel, chunk = element_count(shape), self._chunk()
        values = index_count(numel, chunk, self.m) * bytes_per_value(self.wire)
        indices = index_bytes(numel, chunk, self.m)
        return (Transfer("broadcast", indices, paper_bytes=0), Transfer("all_reduce", values))

    def _chunk(self) -> int:
        if self.chunk is None:
            raise ValueError("ScaleCom's chunk depends on the layer: use ScaleCom(...).for_layer(info), or give chunk=")
        return self.chunk


def largest_per_chunk(x: Any, chunk: int, m: int = 1) -> Any:
    """Indices of the m largest |x| of each chunk of a flat array or tensor, ascending, int64; of equal ones the first.

    A chunk with fewer than m elements (the last one may be shorter) gives all of them.

    >>> largest_per_chunk(np.array([1, -5, 5, 2, 7], np.float32), chunk=3, m=2).tolist()
    [1, 2, 3, 4]
    """
    xp = arrays.of(x)
    step = max(xp.BLOCK // chunk, 1) * chunk
    scratch = xp.empty_like(x[:step])
    parts = []
    for first in range(0, len(x), step):
        part = x[first : first + step]
        parts.append(_largest(xp.abs(part, out=scratch[: len(part)]), chunk, m) + first)
    return xp.concatenate(parts)


def _largest(magnitudes: Any, chunk: int, m: int) -> Any:
    """:func:`largest_per_chunk` of one block of magnitudes."""
    full = len(magnitudes) // chunk * chunk
    parts = [_largest_per_row(magnitudes[:full].reshape(-1, chunk), m)] if full else []
    if full < len(magnitudes):
        parts.append(_largest_per_row(magnitudes[full:].reshape(1, -1), m) + full)
    return arrays.of(magnitudes).concatenate(parts)


def _largest_per_row(rows: Any, m: int) -> Any:
    xp = arrays.of(rows)
    first = xp.arange(len(rows), rows) * rows.shape[1]
    if m == 1:
        # Of equal values argmax gives the first, as both libraries promise.
        return rows.argmax(1) + first
    return (xp.sort_rows(xp.argsort_descending(rows)[:, :m]) + first[:, None]).reshape(-1)


def chunk_for(layer: LayerInfo) -> int:
    """Elements in a chunk, by the number of multiplications per gradient value and sample.

    >>> [chunk_for(LayerInfo("w", (8, 8), weight_reuse=n)) for n in (1, 128, 196, 197)]
    [400, 50, 50, 25]
    """
    if layer.kind == "small":
        return 25
    return next(chunk for reuse, chunk in CHUNK_BY_WEIGHT_REUSE if layer.weight_reuse >= reuse)


def position_bytes(chunk: int) -> int:
    """Bytes of a position in a chunk: 1 for chunks of up to 256 elements, else 2."""
    return 1 if chunk <= 256 else 2


def index_count(numel: int, chunk: int, m: int = 1) -> int:
    """The number of elements that a learner sends.

    >>> index_count(1001, chunk=100), index_count(1001, chunk=100, m=2)
    (11, 21)
    """
    return numel // chunk * m + min(m, numel % chunk)


# Each learner asks for it in each step.
@cache
def index_bytes(numel: int, chunk: int, m: int = 1) -> int:
    """Bytes of the leader's message."""
    return index_count(numel, chunk, m) * position_bytes(chunk)


def encode_indices(indices: Any, chunk: int) -> Any:
    """The leader's message, uint8, from ascending indices.

    >>> encode_indices(np.array([7, 1005]), chunk=1000).tolist()
    [7, 0, 5, 0]
    """
    return arrays.of(indices).unsigned_bytes(indices % chunk, position_bytes(chunk))


def decode_indices(payload: Any, numel: int, chunk: int, m: int = 1) -> Any:
    """The inverse of :func:`encode_indices`, int64.

    Raises:
        ValueError: the payload has another length, a position lies outside its chunk or is out of order.

    >>> decode_indices(np.array([7, 0, 5, 0], np.uint8), numel=1010, chunk=1000).tolist()
    [7, 1005]
    """
    need = index_bytes(numel, chunk, m)
    if len(payload) != need:
        raise ValueError(
            f"{numel:,} elements in chunks of {chunk} need {need:,} bytes of indices; {len(payload):,} arrived"
        )
    xp = arrays.of(payload)
    positions = xp.unsigned(payload, position_bytes(chunk))
    indices = positions + xp.arange(len(positions), positions) // m * chunk
    if (positions >= chunk).any() or (indices >= numel).any() or (indices[1:] <= indices[:-1]).any():
        raise ValueError("these indices are damaged: a position lies outside its chunk, or is out of order")
    return indices
