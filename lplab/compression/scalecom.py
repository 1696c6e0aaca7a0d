"""ScaleCom: one learner selects for all, so that masks and sums commute (Chen et al., NeurIPS 2020, arXiv 2104.11125).

Each learner has a residual m (the paper's memory) and p = m + g. The leader of the step (step mod learners) selects the
largest |p| of each chunk and broadcasts their indices. All learners send their own p there, and an all-reduce sums
them: the message does not grow with the number of learners. Residual: m ← (1 − β)·m + β·(p − sent). Where p was sent,
(1 − β)·m remains: it is not set to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lplab.compression import selection
from lplab.compression.averaging import mean_at
from lplab.compression.compressor import (
    AllReduce,
    Broadcast,
    Compressor,
    Context,
    Steps,
    Transfer,
    corrected_gradient,
    element_count,
    sum_of_ranks,
)
from lplab.compression.dense import Dense
from lplab.compression.layer import LayerInfo
from lplab.compression.state import LayerState
from lplab.compression.wire import scalecom_wire
from lplab.compression.wire.values import bytes_per_value, check_wire, round_to_wire

MAX_CHUNK = 2**16
CHUNK_BY_WEIGHT_REUSE = ((197, 25), (128, 50), (1, 400))  # (least weight_reuse, elements in a chunk)


@dataclass(frozen=True)
class ScaleCom(Compressor):
    """Scalable sparsified gradient compression (CLT-k with a low-pass filter).

    Args:
        chunk: elements in a chunk, 1 to 65,536; None: by the layer, 400, 50 or 25 if its weights are used fewer than
            128, 128 to 196, or more times for a sample, and the first layer dense (the paper's guide, as our notes
            reconstruct it).
        beta: of the residual's low-pass filter, above 0 and up to 1. 1 is plain error feedback, which is lossless;
            the paper uses 0.1 with large batches and learning rates. Below 1 a part of the unsent values is lost.
        m: how many elements of each chunk are sent.
        wire: "fp32", "fp16" or "bf16" for the values; the rounding error stays in the residual.
        small: "dense" or "compressed" (chunk 25): how biases, normalization and tensors below 1,024 elements are sent.

    Raises:
        ValueError: a value out of range.

    >>> ScaleCom().for_layer(LayerInfo("conv", (64, 64, 3, 3), "convolution", weight_reuse=56 * 56)).chunk
    25
    """

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
        """With the chunk of the layer; dense for the first layer (without ``chunk``) and for small tensors."""
        if (layer.first and self.chunk is None) or (layer.is_small and self.small == "dense"):
            return Dense()
        return self if self.chunk is not None else replace(self, chunk=chunk_for(layer))

    def init(self, shape: Sequence[int]) -> LayerState:
        """A residual of zeros."""
        return LayerState(shape, residual=np.zeros(element_count(shape), np.float32))

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """A broadcast of indices by the leader, then an all-reduce."""
        corrected = self._corrected(gradient, state, context)
        payload = self._payload(corrected) if context.rank == context.leader else None
        nbytes = scalecom_wire.size_of(gradient.size, self._chunk(), self.m)
        indices = yield Broadcast(payload, context.leader, nbytes, partial(self._indices, gradient.size))
        sent = self._send(corrected, indices, state)
        average = yield AllReduce(sent, self.wire, partial(mean_at, indices, gradient.size, context.world))
        return average.reshape(gradient.shape)

    def together(
        self, gradients: Sequence[np.ndarray], states: Sequence[LayerState], contexts: Sequence[Context]
    ) -> tuple[np.ndarray, list[tuple[int, str, int]]]:
        """The leader's gradient first; then what each learner sends, while its gradient is in the cache."""
        shape, numel, leader = gradients[0].shape, gradients[0].size, contexts[0].leader
        first = self._corrected(gradients[leader], states[leader], contexts[leader])
        payload = self._payload(first)
        indices, values = self._indices(numel, payload), []
        for rank, (gradient, state, context) in enumerate(zip(gradients, states, contexts, strict=True)):
            corrected = first if rank == leader else self._corrected(gradient, state, context)
            values.append(self._send(corrected, indices, state))
        average = mean_at(indices, numel, len(values), sum_of_ranks(values)).reshape(shape)
        each = len(indices) * bytes_per_value(self.wire)
        return average, [
            (leader, Broadcast.kind, len(payload)),
            *((r, AllReduce.kind, each) for r in range(len(values))),
        ]

    def _corrected(self, gradient: np.ndarray, state: LayerState, context: Context) -> np.ndarray:
        """Residual plus gradient; in the memory of the new residual."""
        return corrected_gradient(gradient, state, gradient if context.overwrite else state.blank("residual"))

    def _payload(self, corrected: np.ndarray) -> np.ndarray:
        """The message with the indices that the leader selects."""
        chunk = self._chunk()
        return scalecom_wire.encode(selection.largest_per_chunk(corrected, chunk, self.m), chunk)

    def _indices(self, numel: int, payload: np.ndarray) -> np.ndarray:
        return scalecom_wire.decode(payload, numel, self._chunk(), self.m)

    def _send(self, corrected: np.ndarray, indices: np.ndarray, state: LayerState) -> np.ndarray:
        """What is sent, rounded to the wire; the rest is proposed as the new residual."""
        if self.wire == "fp32":
            sent = selection.take_sent(corrected, indices)
        else:
            selected = corrected.take(indices)
            sent = round_to_wire(selected, self.wire)
            corrected[indices] = selected - sent
        state.propose(residual=self._filtered(state["residual"], corrected))
        return sent

    def _filtered(self, residual: np.ndarray, unsent: np.ndarray) -> np.ndarray:
        """The new residual; ``unsent`` is overwritten."""
        if self.beta == 1:
            return unsent
        unsent *= np.float32(self.beta)
        unsent += residual * np.float32(1 - self.beta)
        return unsent

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """Indices from the leader, values from all."""
        numel, chunk = element_count(shape), self._chunk()
        values = scalecom_wire.count_of(numel, chunk, self.m) * bytes_per_value(self.wire)
        indices = scalecom_wire.size_of(numel, chunk, self.m)
        return (Transfer("broadcast", indices, paper_bytes=0), Transfer("sum", values))

    def _chunk(self) -> int:
        if self.chunk is None:
            raise ValueError("ScaleCom's chunk depends on the layer: use ScaleCom(...).for_layer(info), or give chunk=")
        return self.chunk


def chunk_for(layer: LayerInfo) -> int:
    """Elements in a chunk, by the number of multiplications per gradient value and sample.

    >>> [chunk_for(LayerInfo("w", (8, 8), weight_reuse=n)) for n in (1, 128, 196, 197)]
    [400, 50, 50, 25]
    """
    if layer.kind == "small":
        return 25
    return next(chunk for reuse, chunk in CHUNK_BY_WEIGHT_REUSE if layer.weight_reuse >= reuse)
