"""SparseLoCo: the largest elements of each chunk in two bits, and a residual that forgets (Sarfi et al. 2025).

Learners take many steps of their own and send how far they moved, Δ = start − end, a *pseudo-gradient*, once a round
(:class:`lplab.parallel.LocalSteps`). Each keeps a residual e, which takes the place of the outer momentum:

1. e ← decay·e + Δ;
2. e is cut into chunks of 64 × 64, and the k largest |e| of each chunk are chosen;
3. they are rounded to four values, whose table is made anew for each layer and round;
4. what is sent is subtracted from e;
5. the average of an element is the mean over those who sent it, not over all learners.

The table: with the mean μ and the standard deviation σ of all chosen values of the layer, a bin is w = 6·σ / bins wide,
and a value v falls into bin round((v − μ) / w + bins / 2), which is clipped. The value that is sent for a bin is the
mean of what fell into it. With four bins their centres are μ − 2·w, μ − w, μ and μ + w, which is not symmetric.

Sources: arXiv 2508.15706; chunks, table and constants are read in the code of the authors' run with 70 billion
parameters (tplr-ai/templar). There, the outer learning rate multiplies Δ; here, it is that of the outer optimizer.
There, k is even, and messages are clipped to the median norm of all, against learners that cheat; here, they are not.

Message: the table, float32 little-endian; the positions (``square_chunks.py``); the bins, packed without gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from lplab.compression import arrays
from lplab.compression.arrays import single
from lplab.compression.compressor import (
    CORRECTED,
    AllGather,
    Compressor,
    Context,
    Steps,
    Transfer,
    element_count,
    ensure_finite,
    flat_gradient,
    mean_of_messages,
)
from lplab.compression.layer_state import LayerState
from lplab.compression.scalecom import largest_per_chunk
from lplab.compression.square_chunks import ChunkGrid, check_k, mean_of_senders, side_of
from lplab.compression.wire.bits import pack_fields, unpack_fields
from lplab.compression.wire.values import scales

SIGMAS = 6  # that all bins together are wide
MEANS = ("senders", "learners")
UNITS = 2**36  # in the largest magnitude; the sum of 2^26 values then fits into int64


@dataclass(frozen=True)
class SparseLoCo(Compressor):
    """Top-k in square chunks, few bits a value, error feedback with decay.

    Args:
        chunk: elements of a chunk, a square; the paper takes 64 × 64.
        k: how many elements of each chunk are sent; of smaller chunks all, such as those of a vector, which have up to
            64. :class:`~lplab.compression.DenseIfSmall` sends vectors dense.
        bits: of a value, 1 to 8.
        decay: of the residual, 0 to 1. Below 1 a part of the unsent values is lost, on purpose; 0 is no error feedback.
        mean: over the "senders" of an element, as in the paper, or over all "learners".

    Raises:
        ValueError: a value out of range.

    >>> SparseLoCo().plan((1024, 1024))  # 4 MiB of float32: 146 times as much
    (Transfer(kind='all_gather', payload_bytes=28688),)
    """

    takes_tensors: ClassVar[bool] = True
    state_names = ("residual",)

    chunk: int = 4096
    k: int = 64
    bits: int = 2
    decay: float = 0.95
    mean: str = "senders"

    def __post_init__(self) -> None:
        super().__post_init__()
        side_of(self.chunk)
        check_k(self.k, self.chunk)
        if not 1 <= self.bits <= 8:
            raise ValueError(f"bits must be from 1 to 8, got {self.bits}")
        if not 0 <= self.decay <= 1:
            raise ValueError(f"decay must be from 0 to 1, got {self.decay}")
        if self.mean not in MEANS:
            raise ValueError(f"mean must be 'senders' or 'learners', got {self.mean!r}")

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-gather of messages."""
        xp, grid = arrays.of(gradient), self._grid(state.shape)
        error = state["residual"] * single(self.decay) + flat_gradient(gradient, state)
        chunks = grid.cut(ensure_finite(error, CORRECTED))
        indices = largest_per_chunk(chunks, grid.elements, self.k)
        table, bins = into_bins(chunks[indices], self.bits)
        chunks[indices] -= table[bins]
        state.propose(residual=ensure_finite(grid.join(chunks), "the new residual"))
        payload = xp.concatenate([xp.float_bytes(table), grid.encode_positions(indices), pack_fields(bins, self.bits)])
        average = yield AllGather(payload, self._mean_of(grid))
        return grid.join(average).reshape(state.shape)

    def decode(self, payload: Any, shape: Sequence[int]) -> tuple[Any, Any]:
        """Decode a message: indices (int64) of elements that are cut into chunks, and values (float32).

        Raises:
            ValueError: a damaged message.
        """
        grid, start = self._grid(shape), 4 * 2**self.bits
        table, end = scales(payload, 2**self.bits), start + grid.position_bytes
        indices = grid.decode_positions(payload[start:end])
        return indices, table[unpack_fields(payload[end:], self.bits, grid.sent)]

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """One all-gather of table, positions and bins."""
        grid = self._grid(shape)
        return (Transfer("all_gather", 4 * 2**self.bits + grid.position_bytes + -(-grid.sent * self.bits // 8)),)

    def position_bytes(self, shape: Sequence[int]) -> int:
        """The bytes of a message about a layer that say which elements it is about."""
        return self._grid(shape).position_bytes

    def _grid(self, shape: Sequence[int]) -> ChunkGrid:
        return ChunkGrid.of(shape, side_of(self.chunk), self.k)

    def _mean_of(self, grid: ChunkGrid) -> Any:
        """The ``finish`` of the all-gather: the mean, cut into chunks."""
        shape = (grid.rows, grid.columns)
        decode = partial(self.decode, shape=shape)
        if self.mean == "senders":
            return mean_of_senders(element_count(shape), decode)

        def add(total: Any, payload: Any) -> None:
            indices, values = decode(payload)
            total[indices] += values

        return mean_of_messages(element_count(shape), add)


def into_bins(values: Any, bits: int) -> tuple[Any, Any]:
    """The table of 2^bits values, float32, and the bin of each value, int64. A bin without values has 0.

    Args:
        values: flat, float32, at least one.
        bits: of a bin's number.

    >>> import numpy as np
    >>> table, bins = into_bins(np.array([-6, -5, 1, 5, 7], np.float32), bits=2)
    >>> table.tolist(), bins.tolist()
    ([0.0, -5.5, 1.0, 6.0], [1, 1, 2, 3, 3])
    """
    xp, count, wide = arrays.of(values), 2**bits, arrays.of(values).cast(values, "float64")
    # Sums of whole numbers have the same bits in any order. Their unit is far below a last bit of float32.
    largest = abs(wide).max()
    unit = xp.where(largest > 0, largest, 1) / UNITS
    whole = xp.cast(xp.round(wide / unit), "int64")

    def mean(part: Any) -> Any:
        return xp.cast(xp.divided(xp.cast(part.sum(), "float64") * unit, max(len(part), 1)), "float32")

    centred, degrees = wide - xp.cast(mean(whole), "float64"), max(len(values) - 1, 1)
    deviation = xp.rounded_sums(centred**2, lambda total: xp.cast(xp.sqrt(xp.divided(total, degrees)), "float32"))
    step = xp.cast(deviation, "float64") * (SIGMAS / count)
    bins = xp.cast(xp.round(centred / xp.where(step > 0, step, 1) + count // 2).clip(0, count - 1), "int64")
    return xp.stack([mean(whole[bins == number]) for number in range(count)]), bins
