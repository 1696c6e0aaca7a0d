"""Unbiased stochastic quantization to few levels: TernGrad (Wen et al. 2017) and QSGD (Alistarh et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lplab.compression import arrays
from lplab.compression.arrays import single
from lplab.compression.compressor import (
    AllGather,
    Compressor,
    Context,
    Steps,
    Transfer,
    dense_mean,
    element_count,
    ensure_finite,
    flat_gradient,
)
from lplab.compression.layer_state import LayerState
from lplab.compression.wire.bits import pack_fields, pack_trits, unpack_fields, unpack_trits
from lplab.compression.wire.values import scales


@dataclass(frozen=True)
class TernGrad(Compressor):
    """Each element becomes −S, 0 or S at random, S the largest magnitude of the layer; E[sent] is the gradient.

    Args:
        clip: gradients are first clipped at this many standard deviations (about zero), which makes the result
            biased; the paper uses 2.5. None: no clipping.

    Message: S, float32 little-endian; then the symbols, five to a byte (1.6 bits each).

    >>> TernGrad().plan((1000,))
    (Transfer(kind='all_gather', payload_bytes=204),)
    """

    takes_tensors: ClassVar[bool] = True

    clip: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be above 0 standard deviations, got {self.clip}")

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-gather of messages."""
        xp, g = arrays.of(gradient), self._clipped(flat_gradient(gradient, state))
        scale = abs(g).max()
        symbols = xp.cast(xp.sign(g), "int8") * (_random(context, g) * scale < abs(g))
        payload = xp.concatenate([xp.float_bytes(scale), pack_trits(symbols)])
        average = yield AllGather(payload, dense_mean(len(g), decode_ternary))
        return average.reshape(gradient.shape)

    def _clipped(self, g: Any) -> Any:
        if self.clip is None:
            return g
        xp, clip = arrays.of(g), float(self.clip)
        finish = lambda total: xp.cast(xp.sqrt(xp.divided(total, len(g))) * clip, "float32")  # noqa: E731
        limit = xp.rounded_sums(xp.cast(g, "float64") ** 2, finish)
        return xp.clip(g, -limit, limit)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """Four bytes, and one byte for five elements."""
        return (Transfer("all_gather", 4 + -(-element_count(shape) // 5)),)


def decode_ternary(payload: Any, numel: int) -> Any:
    """Decode a message of :class:`TernGrad`: float32, flat.

    Raises:
        ValueError: a damaged message.
    """
    scale = scales(payload, 1, signed=False)[0]
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
    (Transfer(kind='all_gather', payload_bytes=520),)
    """

    takes_tensors: ClassVar[bool] = True

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

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-gather of messages."""
        xp, g = arrays.of(gradient), flat_gradient(gradient, state)
        squares = xp.cast(g, "float64") ** 2
        norms = xp.rounded_bucket_sums(squares, self.bucket, lambda total: xp.cast(xp.sqrt(total), "float32"))
        ensure_finite(norms, "the norms of the buckets")
        norm = xp.repeat(norms, self.bucket)[: len(g)]
        ratio = abs(g) / xp.where(norm > 0, norm, 1) * single(self.levels)
        random = _random(context, g)
        level = xp.cast(xp.floor(ratio + random).clip(max=self.levels), "int16")
        payload = xp.concatenate([xp.float_bytes(norms), pack_fields(level << 1 | (g < 0), self.width)])
        average = yield AllGather(payload, dense_mean(len(g), self.decode))
        return average.reshape(gradient.shape)

    def decode(self, payload: Any, numel: int) -> Any:
        """Decode a message: float32, flat.

        Raises:
            ValueError: a damaged message.
        """
        xp, buckets = arrays.of(payload), -(-numel // self.bucket)
        norms = scales(payload, buckets, signed=False)
        fields = unpack_fields(payload[4 * buckets :], self.width, numel)
        level = fields >> 1
        if len(level) and level.max() > self.levels:
            raise ValueError(f"this message is damaged: level {level.max()} of {self.levels}")
        part = xp.cast(xp.divided(xp.cast(level, "float64"), self.levels), "float32")
        values = xp.repeat(norms, self.bucket)[:numel] * part
        return xp.where(fields & 1 != 0, -values, values)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """A norm for each bucket and a field for each element."""
        numel = element_count(shape)
        return (Transfer("all_gather", 4 * -(-numel // self.bucket) + -(-numel * self.width // 8)),)


def _random(context: Context, like: Any) -> Any:
    """The uniform float32 numbers of this learner, which numpy's generator draws on the host."""
    return arrays.of(like).from_host(context.rank_rng().random(len(like), "float32"), like)
