"""DeMo: the cosine transform of blocks, its largest coefficients, and signs (Peng et al. 2024, arXiv 2411.19870).

Decoupled momentum: each learner keeps a momentum of its own, δ, and sends what stands out of it. In each step

1. δ ← decay·δ + g;
2. δ is cut into blocks of 64 × 64, and a discrete cosine transform (DCT-II, orthonormal) makes coefficients of each;
3. the k largest coefficients of each block are sent, and what they stand for is subtracted from δ;
4. the average of a coefficient is the mean over those who sent it; it is transformed back, and its sign is the update.

The residual is δ, so the optimizer must be SGD without momentum. Its step is the learning rate, as with signSGD, and is
much smaller than for gradients; the authors use 4e-4 for 300 million parameters.

The transform is computed in float64 and rounded to float32. Matrix products have other bits on other processors, so
learners on unequal machines can differ in a sign where the mean is close to zero.

Source: the authors' code (bloc97/DeMo), where the learning rate multiplies g instead of the sign, and weight decay is
the optimizer's, before the step. A vector has blocks of up to 64, so that k = 32 sends at least half of it.

Message: the positions (``square_chunks.py``), then the coefficients in ``wire``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from lplab.compression import arrays
from lplab.compression.arrays import single
from lplab.compression.compressor import (
    CORRECTED,
    AllGather,
    Compressor,
    Context,
    Steps,
    Transfer,
    ensure_finite,
    flat_gradient,
)
from lplab.compression.layer_state import LayerState
from lplab.compression.scalecom import largest_per_chunk
from lplab.compression.square_chunks import ChunkGrid, check_k, mean_of_senders, side_of
from lplab.compression.wire.values import bytes_per_value, check_wire, from_bytes


@dataclass(frozen=True)
class DeMo(Compressor):
    """The largest coefficients of a cosine transform, and the sign of their mean: −1, 0 or 1 for each element.

    Args:
        chunk: elements of a block, a square; the paper takes 64 × 64.
        k: how many coefficients of each block are sent.
        decay: of the momentum, from 0 to below 1.
        wire: "fp32", "fp16" or "bf16" for the coefficients.

    Raises:
        ValueError: a value out of range.

    >>> DeMo().plan((1024, 1024))
    (Transfer(kind='all_gather', payload_bytes=45056),)
    """

    takes_tensors: ClassVar[bool] = True
    state_names = ("residual",)

    chunk: int = 4096
    k: int = 32
    decay: float = 0.999
    wire: str = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        side_of(self.chunk)
        check_k(self.k, self.chunk)
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay must be from 0 to below 1, got {self.decay}")
        check_wire(self.wire)

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-gather of messages."""
        xp, grid = arrays.of(gradient), self._grid(state.shape)
        momentum = ensure_finite(state["residual"] * single(self.decay) + flat_gradient(gradient, state), CORRECTED)
        coefficients = to_coefficients(momentum, grid)
        indices = largest_per_chunk(coefficients, grid.elements, self.k)
        sent = xp.round_to_wire(ensure_finite(coefficients[indices], "the cosine transform"), self.wire)
        sent_part = xp.zeros(len(momentum), momentum)
        sent_part[indices] = sent
        state.propose(residual=ensure_finite(momentum - from_coefficients(sent_part, grid), "the new momentum"))
        payload = xp.concatenate([grid.encode_positions(indices), xp.float_bytes(sent, self.wire)])
        mean = yield AllGather(payload, mean_of_senders(len(momentum), lambda payload: self.decode(payload, grid)))
        return xp.sign(from_coefficients(mean, grid)).reshape(state.shape)

    def decode(self, payload: Any, grid: ChunkGrid) -> tuple[Any, Any]:
        """Decode a message: indices (int64) of coefficients, block by block, and their values (float32).

        Raises:
            ValueError: a damaged message.
        """
        indices = grid.decode_positions(payload[: grid.position_bytes])
        values = from_bytes(payload[grid.position_bytes :], self.wire, grid.sent)
        if not arrays.of(values).isfinite(values).all():
            raise ValueError("this message is damaged: a coefficient is not finite")
        return indices, values

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """One all-gather of positions and coefficients."""
        grid = self._grid(shape)
        return (Transfer("all_gather", grid.position_bytes + grid.sent * bytes_per_value(self.wire)),)

    def position_bytes(self, shape: Sequence[int]) -> int:
        """The bytes of a message about a layer that say which elements it is about."""
        return self._grid(shape).position_bytes

    def _grid(self, shape: Sequence[int]) -> ChunkGrid:
        return ChunkGrid.of(shape, side_of(self.chunk), self.k)


def to_coefficients(x: Any, grid: ChunkGrid) -> Any:
    """The cosine transform of the chunks of a layer, float32, chunk by chunk.

    Args:
        x: float32 [numel], an array or a tensor.
        grid: the chunks.

    >>> to_coefficients(np.ones(4, np.float32), ChunkGrid.of((2, 2), side=2, k=1)).round(6).tolist()
    [2.0, 0.0, 0.0, 0.0]
    """
    return _transformed(grid.cut(x), grid, cosines(grid.height), np.ascontiguousarray(cosines(grid.width).T))


def from_coefficients(coefficients: Any, grid: ChunkGrid) -> Any:
    """The inverse of :func:`to_coefficients`: float32 [numel].

    >>> grid = ChunkGrid.of((2, 4), side=2, k=1)
    >>> from_coefficients(to_coefficients(np.arange(1, 9, dtype=np.float32), grid), grid).round(4).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    """
    return grid.join(
        _transformed(coefficients, grid, np.ascontiguousarray(cosines(grid.height).T), cosines(grid.width))
    )


@cache
def cosines(size: int) -> np.ndarray:
    """The matrix of the orthonormal DCT-II, float64 [size, size]: its rows are the cosines.

    >>> cosines(2).round(4).tolist()
    [[0.7071, 0.7071], [0.7071, -0.7071]]
    """
    places, frequencies = np.arange(size) + 0.5, np.arange(size)[:, None]
    matrix = np.cos(np.pi / size * places * frequencies) * np.sqrt(2 / size)
    matrix[0] /= np.sqrt(2)
    return matrix


def _transformed(chunks: Any, grid: ChunkGrid, left: np.ndarray, right: np.ndarray) -> Any:
    """The products left · chunk · right in float64, rounded to float32: flat."""
    xp, blocks = arrays.of(chunks), chunks.reshape(grid.count, grid.height, grid.width)
    wide = xp.cast(blocks, "float64")
    product = xp.product(xp.product(xp.from_host(left, wide), wide), xp.from_host(right, wide))
    return xp.cast(product.reshape(-1), "float32")
