"""ScaleCom: one learner selects for all, so that masks and sums commute (Chen et al., NeurIPS 2020, arXiv 2104.11125).

Each learner has a residual m (the paper's memory) and p = m + g. The leader of the step (step mod learners) selects the
largest |p| of each chunk and broadcasts their indices. All learners send their own p there, and an all-reduce sums
them: the message does not grow with the number of learners. Residual: m ← (1 − β)·m + β·(p − sent). Where p was sent,
(1 − β)·m remains: it is not set to zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    corrected_gradients,
    element_count,
    sum_of_ranks,
)
from lplab.compression.computed_gradients import ComputedGradients, fit_a_block
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
        sent = self._send(corrected, indices, state, context)
        average = yield AllReduce(sent, self.wire, partial(mean_at, indices, gradient.size, context.world))
        return average.reshape(gradient.shape)

    def together(
        self, gradients: Sequence[np.ndarray], states: Sequence[LayerState], context: Context
    ) -> tuple[np.ndarray, list[tuple[int, str, int]]]:
        """The leader's gradient first; then what each learner sends, while its gradient is in the cache."""
        world, shape, numel, leader = len(gradients), states[0].shape, element_count(states[0].shape), context.leader
        if isinstance(gradients, np.ndarray) and fit_a_block(gradients.nbytes):
            values: Iterable[np.ndarray]
            payload, indices, values = self._at_once(gradients, states, context)
        else:
            first = self._corrected(gradients[leader], states[leader], context)
            payload = self._payload(first)
            indices = self._indices(numel, payload)
            values = self._one_by_one(gradients, states, context, first, indices)
        average = mean_at(indices, numel, world, sum_of_ranks(values)).reshape(shape)
        each = len(indices) * bytes_per_value(self.wire)
        return average, [(leader, Broadcast.kind, len(payload)), *((r, AllReduce.kind, each) for r in range(world))]

    def _one_by_one(
        self,
        gradients: Sequence[np.ndarray],
        states: Sequence[LayerState],
        context: Context,
        first: np.ndarray,
        indices: np.ndarray,
    ) -> Iterator[np.ndarray]:
        """What each learner sends, in the order of ranks; the leader's sum, ``first``, is there already.

        Where gradients are computed block by block, the leader's block is dealt with before the others.
        """

        def send(rank: int) -> np.ndarray:
            state = states[rank]
            corrected = first if rank == context.leader else self._corrected(gradients[rank], state, context)
            return self._send(corrected, indices, state, context)

        early = gradients.block_of(context.leader) if isinstance(gradients, ComputedGradients) else range(0)
        kept = {rank: send(rank) for rank in early}
        for rank in range(context.world):
            yield kept[rank] if rank in kept else send(rank)

    def _at_once(
        self, gradients: np.ndarray, states: Sequence[LayerState], context: Context
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the leader sends, the indices, and what each learner sends, from gradients that fit the cache."""
        residuals = np.stack([state["residual"] for state in states])
        corrected = corrected_gradients(gradients, states, residuals, context.overwrite)
        payload = self._payload(corrected[context.leader])
        indices = self._indices(corrected.shape[1], payload)
        selected = corrected.take(indices, axis=1)
        sent = round_to_wire(selected, self.wire)
        corrected[:, indices] = 0 if self.wire == "fp32" else selected - sent
        for state, unsent in zip(states, self._filtered(residuals, corrected), strict=True):
            state.propose(residual=unsent)
        return payload, indices, sent

    def _corrected(self, gradient: np.ndarray, state: LayerState, context: Context) -> np.ndarray:
        """Residual plus gradient; in the memory of the new residual, or of the gradient to be added to it in place."""
        if context.in_place:
            residual, flat = state["residual"], gradient.reshape(-1)
            return np.add(residual, flat, out=residual if self.beta == 1 else flat)
        return corrected_gradient(gradient, state, gradient if context.overwrite else state.blank("residual"))

    def _payload(self, corrected: np.ndarray) -> np.ndarray:
        """The message with the indices that the leader selects."""
        chunk = self._chunk()
        return scalecom_wire.encode(selection.largest_per_chunk(corrected, chunk, self.m), chunk)

    def _indices(self, numel: int, payload: np.ndarray) -> np.ndarray:
        return scalecom_wire.decode(payload, numel, self._chunk(), self.m)

    def _send(self, corrected: np.ndarray, indices: np.ndarray, state: LayerState, context: Context) -> np.ndarray:
        """What is sent, rounded to the wire; the rest is proposed as the new residual, or becomes it at once."""
        if self.wire == "fp32":
            sent = selection.take_sent(corrected, indices)
        else:
            selected = corrected.take(indices)
            sent = round_to_wire(selected, self.wire)
            corrected[indices] = selected - sent
        residual = state["residual"]
        if not context.in_place:
            state.propose(residual=self._filtered(residual, corrected))
        elif self.beta != 1:  # the sum of below, in the other order
            corrected *= np.float32(self.beta)
            residual *= np.float32(1 - self.beta)
            residual += corrected
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
