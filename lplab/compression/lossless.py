"""Lossless compression of the dense gradient by general-purpose codecs: LZ4, Zstandard, zlib.

Message: the codec's output for the float32 values, little-endian. With ``shuffle`` all lowest bytes come first, then
all second bytes and so on, since signs and exponents repeat and the other bits are noise.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from lplab.compression.compressor import (
    AllGather,
    Compressor,
    Context,
    Steps,
    Transfer,
    dense_mean,
    element_count,
    flat_gradient,
)
from lplab.compression.layer_state import LayerState


@dataclass(frozen=True)
class LosslessCodec:
    """Functions of a package: compress bytes at a level; decompress, given the length of the result."""

    compress: Callable[[bytes, int], bytes]
    decompress: Callable[[bytes, int], bytes]


def _zlib() -> LosslessCodec:
    def decompress(data: bytes, size: int) -> bytes:
        decoder = zlib.decompressobj()
        return _complete(decoder, decoder.decompress(data, size + 1))

    return LosslessCodec(zlib.compress, decompress)


def _zstd() -> LosslessCodec:
    zstd = _package("zstandard")

    def decompress(data: bytes, size: int) -> bytes:
        if zstd.get_frame_parameters(data).content_size > size:
            raise ValueError("it is longer than the tensor")
        decoder = zstd.ZstdDecompressor().decompressobj()
        return _complete(decoder, decoder.decompress(data))

    return LosslessCodec(lambda data, level: zstd.ZstdCompressor(level=level).compress(data), decompress)


def _lz4() -> LosslessCodec:
    lz4 = _package("lz4.frame")

    def decompress(data: bytes, size: int) -> bytes:
        decoder = lz4.LZ4FrameDecompressor()
        return _complete(decoder, decoder.decompress(data, max_length=size + 1))

    return LosslessCodec(lambda data, level: lz4.compress(data, compression_level=level), decompress)


def _complete(decoder: Any, result: bytes) -> bytes:
    """Refuse a message that is cut short or has bytes after its end, which the packages ignore."""
    if not decoder.eof or decoder.unused_data:
        raise ValueError("it is cut short, too long, or followed by other bytes")
    return result


CODECS: dict[str, Callable[[], LosslessCodec]] = {"zlib": _zlib, "zstd": _zstd, "lz4": _lz4}
LEVELS = {"zlib": (0, 9), "zstd": (1, 22), "lz4": (0, 16)}  # lowest and highest


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        root = name.partition(".")[0]
        raise ModuleNotFoundError(f"this codec needs {root}: pip install 'lplab[compression]'", name=root) from None


@dataclass(frozen=True)
class Lossless(Compressor):
    """The gradient without loss, compressed by a general-purpose codec.

    Args:
        codec: "zlib", "zstd" or "lz4".
        level: of the codec: higher is slower and smaller. Up to 9 for zlib, 22 for zstd, 16 for lz4.
        shuffle: whether bytes are grouped by significance first.

    Raises:
        ValueError: an unknown codec, or a level out of its range.
        ModuleNotFoundError: (when it runs) the codec's package is missing.

    >>> Lossless("zlib", level=1)
    Lossless(codec='zlib', level=1, shuffle=True)
    """

    codec: str = "zstd"
    level: int = 1
    shuffle: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.codec not in CODECS:
            raise ValueError(f"unknown codec {self.codec!r}; allowed: {', '.join(CODECS)}")
        lowest, highest = LEVELS[self.codec]
        if not lowest <= self.level <= highest:
            raise ValueError(f"level of {self.codec} must be from {lowest} to {highest}, got {self.level}")

    def encode(self, values: np.ndarray) -> np.ndarray:
        """float32 values as uint8."""
        raw = np.ascontiguousarray(values, "<f4").view(np.uint8).reshape(-1, 4)
        data = np.ascontiguousarray(raw.T if self.shuffle else raw).tobytes()
        return np.frombuffer(CODECS[self.codec]().compress(data, self.level), np.uint8)

    def decode(self, payload: np.ndarray, numel: int) -> np.ndarray:
        """The inverse of :meth:`encode`.

        Raises:
            ValueError: the codec cannot read it, or it holds another number of values.
        """
        codec = CODECS[self.codec]()
        try:
            data = codec.decompress(payload.tobytes(), 4 * numel)
        # Each package has an error class of its own.
        except Exception as error:
            raise ValueError(f"{self.codec} cannot read this message: {error}") from None
        if len(data) != 4 * numel:
            raise ValueError(f"{numel:,} values are {4 * numel:,} bytes; this message holds {len(data):,}")
        raw = np.frombuffer(data, np.uint8)
        in_order = np.ascontiguousarray(raw.reshape(4, -1).T) if self.shuffle else raw
        return in_order.reshape(-1).view("<f4").astype(np.float32)

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """Average with one all-gather of messages."""
        payload = self.encode(flat_gradient(gradient, state))
        average = yield AllGather(payload, dense_mean(gradient.size, self.decode))
        return average.reshape(gradient.shape)

    def plan(self, shape: Sequence[int], activity: int | None = None) -> tuple[Transfer, ...]:
        """``activity``: bytes of the message; without it the uncompressed size."""
        return (Transfer("all_gather", 4 * element_count(shape) if activity is None else activity),)
