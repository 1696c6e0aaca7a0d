"""ScaleCom: one learner chooses for all, so that masks and sums commute (Chen et al., NeurIPS 2020, arXiv 2104.11125).

Learner i has memory m and p = m + g. The leader of the step (step mod learners) chooses the largest |p| of each chunk
and broadcasts the indices; everybody sends its own p there, and an ordinary sum adds them up: the message does not
grow with the number of learners. Memory: m ← (1 − β)·m + β·(p − sent). Where p was sent, (1 − β)·m stays: it is not
set to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lplab.compression import local, scalecom_wire
from lplab.compression.dense import Dense
from lplab.compression.layer import LayerInfo
from lplab.compression.means import mean_at
from lplab.compression.protocol import Broadcast, Compressor, Context, Steps, Sum, Transfer, checked, size_of
from lplab.compression.state import LayerState
from lplab.compression.values import bytes_per_value, check_wire, round_to_wire

LARGEST_CHUNK = 2**16
RATES = ((197, 25), (128, 50), (1, 400))  # from so many positions a weight on: elements for one that is sent


@dataclass(frozen=True)
class ScaleCom(Compressor):
    """Scalable sparsified gradient compression (CLT-k with a low-pass filter).

    Args:
        chunk: elements a chunk, 1 to 65,536; None: by the layer, 400, 50 or 25 as its weights are used below 128,
            from 128 to 196, or more times for a sample, and the first layer dense (the paper's guide, as our notes
            reconstruct it).
        beta: of the memory's low-pass filter, above 0 and up to 1. 1 is plain error feedback, which loses nothing;
            the paper takes 0.1 with large batches and learning rates. Below 1 a part of what is not sent is
            forgotten.
        m: how many elements of each chunk are sent.
        wire: "fp32", "fp16" or "bf16" for the values; the error of rounding stays in the memory.
        small: "dense" or "compressed" (chunk 25): biases, normalization and tensors below 1,024 elements.

    Raises:
        ValueError: a value out of range.

    >>> ScaleCom().for_layer(LayerInfo("conv", (64, 64, 3, 3), "convolution", positions=56 * 56)).chunk
    25
    """

    chunk: int | None = None
    beta: float = 1.0
    m: int = 1
    wire: str = "fp32"
    small: str = "dense"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chunk is not None and not 1 <= self.chunk <= LARGEST_CHUNK:
            raise ValueError(f"chunk must be from 1 to {LARGEST_CHUNK:,} elements, got {self.chunk}")
        if not 0 < self.beta <= 1:
            raise ValueError(f"beta must be above 0 and at most 1, got {self.beta}")
        if self.m < 1 or (self.chunk is not None and self.m > self.chunk):
            raise ValueError(f"m must be from 1 to the chunk's length, got {self.m}")
        if self.small not in ("dense", "compressed"):
            raise ValueError(f"small must be 'dense' or 'compressed', got {self.small!r}")
        check_wire(self.wire)

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """With the chunk of the layer; unless told otherwise the first layer and small tensors go dense."""
        if (layer.first and self.chunk is None) or (layer.is_small and self.small == "dense"):
            return Dense()
        return self if self.chunk is not None else replace(self, chunk=chunk_for(layer))

    def init(self, shape: Sequence[int]) -> LayerState:
        """A memory of zeros."""
        return LayerState(shape, residue=np.zeros(size_of(shape), np.float32))

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """A broadcast of indices by the leader, then a sum."""
        chunk, memory = self._chunk(), state["residue"]
        wanted = np.add(memory, checked(gradient, state), out=state.blank("residue"))
        payload = None
        if context.rank == context.leader:
            payload = scalecom_wire.encode(local.largest_of_chunks(wanted, chunk, self.m), chunk)
        nbytes = scalecom_wire.size_of(gradient.size, chunk, self.m)
        decode = partial(scalecom_wire.decode, numel=gradient.size, chunk=chunk, m=self.m)
        indices = yield Broadcast(payload, context.leader, nbytes, decode)
        chosen = wanted.take(indices)
        sent = round_to_wire(chosen, self.wire)
        wanted[indices] = chosen - sent
        state.propose(residue=self._filtered(memory, wanted))
        average = yield Sum(sent, self.wire, partial(mean_at, indices, gradient.size, context.world))
        return average.reshape(gradient.shape)

    def _filtered(self, memory: np.ndarray, left: np.ndarray) -> np.ndarray:
        if self.beta == 1:
            return left
        left *= np.float32(self.beta)
        left += memory * np.float32(1 - self.beta)
        return left

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """Indices from the leader, values from everybody."""
        numel, chunk = size_of(shape), self._chunk()
        values = scalecom_wire.count_of(numel, chunk, self.m) * bytes_per_value(self.wire)
        indices = scalecom_wire.size_of(numel, chunk, self.m)
        return (Transfer("broadcast", indices, paper_bytes=0), Transfer("sum", values))

    def _chunk(self) -> int:
        if self.chunk is None:
            raise ValueError(
                "ScaleCom's chunk depends on the layer: take ScaleCom(...).for_layer(info), or give chunk="
            )
        return self.chunk


def chunk_for(layer: LayerInfo) -> int:
    """Elements for one that is sent, by the number of multiplications per gradient value and sample.

    >>> [chunk_for(LayerInfo("w", (8, 8), positions=n)) for n in (1, 128, 196, 197)]
    [400, 50, 50, 25]
    """
    if layer.kind == "small":
        return 25
    return next(rate for positions, rate in RATES if layer.positions >= positions)
