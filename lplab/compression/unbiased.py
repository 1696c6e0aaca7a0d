"""Unbiased stochastic quantization to few levels: TernGrad (Wen et al. 2017) and QSGD (Alistarh et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lplab.compression.averaging import dense_mean
from lplab.compression.compressor import (
    AllGather,
    Compressor,
    Context,
    Steps,
    Transfer,
    element_count,
    ensure_finite,
    flat_gradient,
)
from lplab.compression.state import LayerState
from lplab.compression.wire.bits import pack_fields, pack_trits, unpack_fields, unpack_trits


@dataclass(frozen=True)
class TernGrad(Compressor):
    """Each element becomes −S, 0 or S at random, S the largest magnitude of the layer; E[sent] is the gradient.

    Args:
        clip: gradients are first clipped at this many standard deviations (about zero), which makes the result
            biased; the paper uses 2.5. None: no clipping.

    Message: S, float32 little-endian; then the symbols, five to a byte (1.6 bits each).

    >>> TernGrad().plan((1000,))
    (Transfer(kind='gather', payload_bytes=204),)
    """

    clip: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be above 0 standard deviations, got {self.clip}")

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """One all-gather."""
        g = self._clipped(flat_gradient(gradient, state))
        scale = np.max(np.abs(g))
        nonzero = context.rank_rng().random(g.size, np.float32) * scale < np.abs(g)
        symbols = np.sign(g).astype(np.int8) * nonzero
        payload = np.concatenate([np.array([scale], "<f4").view(np.uint8), pack_trits(symbols)])
        average = yield AllGather(payload, dense_mean(gradient.size, decode_ternary))
        return average.reshape(gradient.shape)

    def _clipped(self, g: np.ndarray) -> np.ndarray:
        if self.clip is None:
            return g
        limit = np.float32(self.clip * np.sqrt(np.mean(g.astype(np.float64) ** 2)))
        return np.clip(g, -limit, limit)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """Four bytes, and one byte for five elements."""
        return (Transfer("gather", 4 + -(-element_count(shape) // 5)),)


def decode_ternary(payload: np.ndarray, numel: int) -> np.ndarray:
    """Decode a message of :class:`TernGrad`: float32, flat.

    Raises:
        ValueError: a damaged message.
    """
    scale = _scales(payload, 1)[0]
    return unpack_trits(payload[4:], numel) * scale


@dataclass(frozen=True)
class QSGD(Compressor):
    """A sign and a level 0 … s of the norm of a bucket, rounded stochastically; E[sent] is the gradient.

    Args:
        levels: s, 1 to 255.
        bucket: elements that share a norm.

    Message: the L2 norm of each bucket, float32 little-endian; then for each element a field of ⌈log2(s + 1)⌉ + 1 bits,
    level · 2 + sign. (The paper codes the levels with Elias codes, which are shorter where most levels are zero.)

    Raises:
        ValueError: a value out of range.

    >>> QSGD(levels=7, bucket=512).plan((1024,))
    (Transfer(kind='gather', payload_bytes=520),)
    """

    levels: int = 7
    bucket: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.levels <= 255:
            raise ValueError(f"levels must be from 1 to 255, got {self.levels}")
        if self.bucket < 1:
            raise ValueError(f"bucket must be 1 or more, got {self.bucket}")

    @property
    def width(self) -> int:
        """Bits per element."""
        return int(self.levels).bit_length() + 1

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """One all-gather."""
        g = flat_gradient(gradient, state)
        starts = np.arange(0, g.size, self.bucket)
        norms = np.sqrt(np.add.reduceat(g.astype(np.float64) ** 2, starts)).astype(np.float32)
        ensure_finite(norms, "the norms of the buckets")
        each = np.repeat(norms, self.bucket)[: g.size]
        ratio = np.divide(np.abs(g), each, out=np.zeros_like(g), where=each > 0) * np.float32(self.levels)
        random = context.rank_rng().random(g.size, np.float32)
        level = np.minimum(np.floor(ratio + random), self.levels).astype(np.int64)
        fields = pack_fields(level << 1 | (g < 0), self.width)
        payload = np.concatenate([norms.astype("<f4").view(np.uint8), fields])
        average = yield AllGather(payload, dense_mean(gradient.size, self.decode))
        return average.reshape(gradient.shape)

    def decode(self, payload: np.ndarray, numel: int) -> np.ndarray:
        """Decode a message: float32, flat.

        Raises:
            ValueError: a damaged message.
        """
        buckets = -(-numel // self.bucket)
        norms = _scales(payload, buckets)
        fields = unpack_fields(payload[4 * buckets :], self.width, numel)
        if fields.size and fields.max() >> 1 > self.levels:
            raise ValueError(f"this message is damaged: level {fields.max() >> 1} of {self.levels}")
        values = np.repeat(norms, self.bucket)[:numel] * ((fields >> 1) / np.float32(self.levels)).astype(np.float32)
        return np.where(fields & 1, -values, values)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """A norm for each bucket and a field for each element."""
        numel = element_count(shape)
        return (Transfer("gather", 4 * -(-numel // self.bucket) + -(-numel * self.width // 8)),)


def _scales(payload: np.ndarray, count: int) -> np.ndarray:
    if payload.size < 4 * count:
        raise ValueError(f"this message begins with {4 * count} bytes of float32; only {payload.size} arrived")
    scales = np.ascontiguousarray(payload[: 4 * count]).view("<f4").astype(np.float32)
    if not (np.isfinite(scales) & (scales >= 0)).all():
        raise ValueError("this message is damaged: a scale is negative or not finite")
    return scales
