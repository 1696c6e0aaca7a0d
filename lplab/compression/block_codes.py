"""Numbers as codes of few bits with one scale for each block: the messages of ZeRO++ (Wang et al. 2023).

In training with sharded models, weights are gathered and gradients are reduced in each step. ZeRO++ sends weights as
8-bit and gradients as 4-bit integers. The largest magnitude of each block becomes the largest number of the format, so
a large value spoils its own block alone. Rounding is to nearest.

A block in which something is not finite is decoded as NaN, so that whoever receives it notices.

Sources: arXiv 2306.10209; DeepSpeed's documentation and code. The size of a block is our choice.

Message: the scales, float32 little-endian; then the codes of the format, packed without gaps, lowest bit first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lplab import formats
from lplab.checks import check_int
from lplab.compression import sharded_weights
from lplab.compression.low_bit import FORMATS, in_units
from lplab.compression.wire.bits import pack_fields, unpack_fields


class Code(Protocol):
    """How numbers travel: as the bytes of one message."""

    def encode(self, x: np.ndarray) -> bytes:
        """The bytes of numbers, float32 [n]."""

    def decode(self, data: bytes, count: int) -> np.ndarray:
        """The inverse of :meth:`encode`, up to rounding: float32 [count]."""

    def nbytes(self, count: int) -> int:
        """The length of a message about so many numbers."""


@dataclass(frozen=True)
class BlockCode:
    """Codes of a format, with or without scales.

    Args:
        format: with blocks, "e3m0", "e2m1" or "int4", which have 4 bits, or "e4m3fn", "e5m2" or "int8", which have 8;
            without, any format of 8, 16 or 32 bits.
        block: elements that share a scale; the last block may be shorter. None: no scales.

    Raises:
        ValueError: another format, or a block without elements.

    >>> code = BlockCode("int4", block=4)
    >>> x = np.array([7, -3.4, 0.2, 1, 700, 100], np.float32)
    >>> code.decode(code.encode(x), 6).tolist(), code.nbytes(6)
    ([7.0, -3.0, 0.0, 1.0, 700.0, 100.0], 11)
    """

    format: str = "int4"
    block: int | None = 256

    def __post_init__(self) -> None:
        if self.block is None:
            sharded_weights.check_whole_bytes("format", self.format)
            return
        check_int("block", self.block, 1, 2**30)
        if self.format not in FORMATS:
            raise ValueError(f"unknown format {self.format!r} of blocks; allowed: {', '.join(FORMATS)}")

    # What is not finite is found.
    @np.errstate(over="ignore", invalid="ignore", under="ignore")
    def encode(self, x: np.ndarray) -> bytes:
        """The bytes of a message.

        Args:
            x: float32 [n], an array.
        """
        if self.block is None:
            return sharded_weights.to_bytes(x, self.format)
        fmt, blocks = FORMATS[self.format], self._blocks(len(x))
        padded = np.zeros(blocks * self.block, np.float32)
        padded[: len(x)] = x
        rows = padded.reshape(blocks, self.block)
        scales = np.abs(rows).max(axis=1) / np.float32(fmt.max)
        scales[~np.isfinite(scales)] = np.nan
        ratio = in_units(rows, scales[:, None], fmt)
        ratio = np.where(np.isnan(ratio), np.float32(0), ratio)
        codes = pack_fields(fmt.encode(ratio.reshape(-1)[: len(x)]), fmt.bits)
        return scales.astype("<f4").tobytes() + codes.tobytes()

    @np.errstate(invalid="ignore", under="ignore")
    def decode(self, data: bytes, count: int) -> np.ndarray:
        """The numbers of a message: float32 [count].

        Raises:
            ValueError: the message has another length.
        """
        if len(data) != self.nbytes(count):
            raise ValueError(f"a message about {count:,} numbers has {self.nbytes(count):,} bytes, got {len(data):,}")
        if self.block is None:
            return sharded_weights.from_bytes(data, self.format)
        fmt, start = FORMATS[self.format], 4 * self._blocks(count)
        scales = np.frombuffer(data[:start], "<f4").astype(np.float32)
        codes = unpack_fields(np.frombuffer(data[start:], np.uint8), fmt.bits, count).astype(np.uint8)
        values = np.asarray(fmt.decode(codes), np.float32)
        return values * np.repeat(scales, self.block)[:count]

    def nbytes(self, count: int) -> int:
        """The length of a message about so many numbers."""
        if self.block is None:
            return count * formats.get(self.format).bits // 8
        return 4 * self._blocks(count) + -(-count * FORMATS[self.format].bits // 8)

    def _blocks(self, count: int) -> int:
        return -(-count // (self.block or 1))


@dataclass(frozen=True)
class PiecesCode:
    """A message of several pieces, each with a code of its own: the parameters of a shard.

    Args:
        pieces: how many numbers, and their code, in order.

    >>> code = PiecesCode(((2, BlockCode("fp32", None)), (4, BlockCode("int4", 4))))
    >>> code.nbytes(6), code.decode(code.encode(np.arange(6, dtype=np.float32)), 6).tolist()[:2]
    (14, [0.0, 1.0])
    """

    pieces: tuple[tuple[int, BlockCode], ...]

    def encode(self, x: np.ndarray) -> bytes:
        """The bytes of a message; ``x`` is float32, as long as all pieces together."""
        parts = np.split(x, np.cumsum([count for count, _ in self.pieces])[:-1])
        return b"".join(code.encode(part) for part, (_, code) in zip(parts, self.pieces, strict=True))

    def decode(self, data: bytes, count: int) -> np.ndarray:
        """The numbers of a message: float32 [count].

        Raises:
            ValueError: the message has another length.
        """
        if len(data) != self.nbytes(count):
            raise ValueError(f"a message of these pieces has {self.nbytes(count):,} bytes, got {len(data):,}")
        decoded, start = [], 0
        for size, code in self.pieces:
            end = start + code.nbytes(size)
            decoded.append(code.decode(data[start:end], size))
            start = end
        return np.concatenate(decoded)

    def nbytes(self, count: int) -> int:
        """The length of a message; ``count`` is that of all pieces together."""
        return sum(code.nbytes(size) for size, code in self.pieces)


def split(data: bytes, lengths: Sequence[int]) -> list[bytes]:
    """Cut a message into parts of these lengths.

    >>> split(b"abcde", [2, 3])
    [b'ab', b'cde']
    """
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    return [data[end - length : end] for end, length in zip(ends, lengths, strict=True)]
