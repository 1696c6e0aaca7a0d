"""Square chunks of a layer, and messages about the largest elements of each: what DeMo and SparseLoCo share.

A matrix is cut into chunks of ``side`` × ``side`` elements. Where a side of the matrix is no multiple of that, the
chunk's side is the largest divisor that is smaller, as in the code of both papers, so no chunk is shorter than the
others. A side of 67, which is prime, is thus cut into single elements. A tensor of more dimensions is the matrix of its
first dimension and all others; a vector is one row.

The positions in a message: for each chunk in order, ascending positions of the selected elements in it, row by row. A
position has as few bits as the chunk needs, 12 in one of 64 × 64; they are packed without gaps, lowest bit first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

from lplab.compression import arrays
from lplab.compression.compressor import element_count
from lplab.compression.wire.bits import pack_fields, unpack_fields

MAX_SIDE = 2**7  # a position then has at most 14 bits


@dataclass(frozen=True)
class ChunkGrid:
    """The chunks of one layer.

    Args:
        rows, columns: of the layer as a matrix.
        height, width: of a chunk; they divide rows and columns.
        k: how many elements of each chunk are sent; of a smaller chunk all.

    >>> grid = ChunkGrid.of((128, 96), side=64, k=32)
    >>> grid.height, grid.width, grid.count, grid.position_bits
    (64, 48, 4, 12)
    """

    rows: int
    columns: int
    height: int
    width: int
    k: int

    @classmethod
    def of(cls, shape: Sequence[int], side: int, k: int) -> ChunkGrid:
        """The chunks of a tensor of this shape."""
        rows = shape[0] if len(shape) > 1 else 1
        columns = element_count(shape) // rows
        return cls(rows, columns, largest_divisor(rows, side), largest_divisor(columns, side), k)

    @property
    def elements(self) -> int:
        """The elements of a chunk."""
        return self.height * self.width

    @property
    def count(self) -> int:
        """The number of chunks."""
        return self.rows * self.columns // self.elements

    @property
    def sent(self) -> int:
        """How many elements of the layer are sent."""
        return self.count * min(self.k, self.elements)

    @property
    def position_bits(self) -> int:
        """The bits of a position in a chunk."""
        return max(1, (self.elements - 1).bit_length())

    @property
    def position_bytes(self) -> int:
        """The bytes of all positions of a message."""
        return -(-self.sent * self.position_bits // 8)

    def cut(self, x: Any) -> Any:
        """The elements of a flat array or tensor, chunk by chunk: new memory, flat.

        >>> import numpy as np
        >>> ChunkGrid.of((2, 4), side=2, k=1).cut(np.arange(8)).tolist()
        [0, 1, 4, 5, 2, 3, 6, 7]
        """
        blocks = x.reshape(self.rows // self.height, self.height, self.columns // self.width, self.width)
        return arrays.of(x).copy(blocks.swapaxes(1, 2)).reshape(-1)

    def join(self, chunks: Any) -> Any:
        """The inverse of :meth:`cut`.

        >>> import numpy as np
        >>> grid = ChunkGrid.of((2, 4), side=2, k=1)
        >>> grid.join(grid.cut(np.arange(8))).tolist()
        [0, 1, 2, 3, 4, 5, 6, 7]
        """
        blocks = chunks.reshape(self.rows // self.height, self.columns // self.width, self.height, self.width)
        return blocks.swapaxes(1, 2).reshape(-1)

    def encode_positions(self, indices: Any) -> Any:
        """The positions of a message as uint8, from ascending indices of elements that are cut into chunks.

        >>> import numpy as np
        >>> ChunkGrid.of((2, 4), side=2, k=1).encode_positions(np.array([1, 6])).tolist()
        [9]
        """
        return pack_fields(indices % self.elements, self.position_bits)

    def decode_positions(self, payload: Any) -> Any:
        """The inverse of :meth:`encode_positions`: int64.

        Raises:
            ValueError: the payload has another length, a position lies outside its chunk or is out of order.
        """
        positions = unpack_fields(payload, self.position_bits, self.sent).reshape(self.count, -1)
        if (positions >= self.elements).any() or (positions[:, 1:] <= positions[:, :-1]).any():
            raise ValueError("these positions are damaged: one lies outside its chunk, or is out of order")
        first = arrays.of(positions).arange(self.count, positions) * self.elements
        return (positions + first[:, None]).reshape(-1)


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of a number that does not exceed a limit.

    >>> largest_divisor(768, 64), largest_divisor(100, 64), largest_divisor(67, 64)
    (64, 50, 1)
    """
    return next(divisor for divisor in range(min(number, limit), 0, -1) if number % divisor == 0)


def side_of(chunk: int) -> int:
    """The side of a square chunk.

    Raises:
        ValueError: no square, or one that is too large.

    >>> side_of(4096)
    64
    """
    side = isqrt(max(chunk, 0))
    if side * side != chunk or not 1 <= side <= MAX_SIDE:
        raise ValueError(f"chunk must be a square from 1 to {MAX_SIDE**2:,} such as 4096 (64 × 64), got {chunk}")
    return side


def check_k(k: int, chunk: int) -> None:
    """Raise ValueError unless 1 ≤ k ≤ chunk."""
    if not 1 <= k <= chunk:
        raise ValueError(f"k must be from 1 to the chunk's {chunk:,} elements, got {k}")


def mean_of_senders(numel: int, decode: Callable[[Any], tuple[Any, Any]]) -> Callable[[Sequence[Any]], Any]:
    """Make a function of all payloads that returns the mean of each element over those who sent it: float32 [numel].

    Args:
        numel: elements of the layer.
        decode: of a payload: the indices, of which none occurs twice, and the values.

    >>> import numpy as np
    >>> def decode(payload):
    ...     return payload[:1].astype(int), payload[1:].astype(np.float32)
    >>> mean_of_senders(3, decode)([np.array(sent, np.uint8) for sent in ([0, 6], [1, 2], [1, 4])]).tolist()
    [6.0, 3.0, 0.0]
    """

    def finish(payloads: Sequence[Any]) -> Any:
        zeros = arrays.of(payloads[0]).zeros
        total, senders = zeros(numel, payloads[0]), zeros(numel, payloads[0])
        for payload in payloads:
            indices, values = decode(payload)
            total[indices] += values
            senders[indices] += 1
        return total / senders.clip(min=1)

    return finish
