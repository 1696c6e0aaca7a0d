"""One bit an element: 1-bit SGD (Seide et al. 2014) and EF-signSGD (Karimireddy et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lplab.compression.bits import pack_signs, unpack_signs
from lplab.compression.means import dense_mean
from lplab.compression.protocol import Compressor, Context, Gather, Steps, Transfer, checked, size_of
from lplab.compression.state import LayerState


@dataclass(frozen=True)
class OneBit(Compressor):
    """1-bit SGD: the sign of gradient plus residue; each column has one value for either side, the mean of that side.

    A column is what one output of a layer receives: a row of torch's weight (first dimension). Vectors are one column.
    The way back is not quantized again here: every learner gathers all messages and takes the mean.

    Message: for each column the mean of its values of 0 or more and that of its negative ones, float32 little-endian;
    then the signs, eight to a byte.

    >>> OneBit().plan((10, 800))
    (Transfer(kind='gather', payload_bytes=1080),)
    """

    def init(self, shape: Sequence[int]) -> LayerState:
        """A residue of zeros."""
        return LayerState(shape, residue=np.zeros(size_of(shape), np.float32))

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """One gather."""
        columns = _columns(gradient.shape)
        wanted = checked(gradient, state) + state["residue"]
        negative = wanted < 0
        means = _sides(wanted.reshape(columns, -1), negative.reshape(columns, -1))
        state.propose(residue=wanted - _values(means, negative))
        payload = np.concatenate([means.astype("<f4").reshape(-1).view(np.uint8), pack_signs(negative)])

        average = yield Gather(payload, dense_mean(gradient.size, partial(decode_columns, columns=columns)))
        return average.reshape(gradient.shape)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """Eight bytes a column and a bit an element."""
        return (Transfer("gather", 8 * _columns(shape) + -(-size_of(shape) // 8)),)


def decode_columns(payload: np.ndarray, numel: int, columns: int) -> np.ndarray:
    """What a message of :class:`OneBit` says: float32, flat.

    Raises:
        ValueError: a message of another length, or one with a mean that is not finite.
    """
    means = _finite(payload, 2 * columns)
    return _values(means.reshape(columns, 2), unpack_signs(payload[8 * columns :], numel))


@dataclass(frozen=True)
class EFSign(Compressor):
    """Sign compression with error feedback: sign(p)·mean|p|, p the gradient plus the residue.

    The residue is in units of the gradient; the learning rate comes after the average. Zero counts as positive.

    Args:
        error_feedback: False: plain signs with a scale, which need not converge.

    Message: mean|p|, float32 little-endian; then the signs, eight to a byte.

    >>> EFSign().plan((1000,))
    (Transfer(kind='gather', payload_bytes=129),)
    """

    error_feedback: bool = True

    def init(self, shape: Sequence[int]) -> LayerState:
        """A residue of zeros, if there is error feedback."""
        if not self.error_feedback:
            return LayerState(shape)
        return LayerState(shape, residue=np.zeros(size_of(shape), np.float32))

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """One gather."""
        flat = checked(gradient, state)
        wanted = flat + state["residue"] if self.error_feedback else flat
        negative = wanted < 0
        scale = np.float32(np.add.reduce(np.abs(wanted), dtype=np.float64) / wanted.size)
        if self.error_feedback:
            state.propose(residue=wanted - np.where(negative, -scale, scale))
        payload = np.concatenate([np.array([scale], "<f4").view(np.uint8), pack_signs(negative)])
        average = yield Gather(payload, dense_mean(gradient.size, decode_signs))
        return average.reshape(gradient.shape)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """Four bytes and a bit an element."""
        return (Transfer("gather", 4 + -(-size_of(shape) // 8)),)


def decode_signs(payload: np.ndarray, numel: int) -> np.ndarray:
    """What a message of :class:`EFSign` says: float32, flat.

    Raises:
        ValueError: a message of another length, or one with a scale that is not finite.
    """
    scale = _finite(payload, 1)[0]
    return np.where(unpack_signs(payload[4:], numel), -scale, scale)


def _columns(shape: Sequence[int]) -> int:
    return shape[0] if len(shape) > 1 else 1


def _finite(payload: np.ndarray, count: int) -> np.ndarray:
    """The float32 values at the start of a message."""
    if payload.size < 4 * count:
        raise ValueError(f"this message begins with {4 * count} bytes of float32; only {payload.size} arrived")
    values = np.ascontiguousarray(payload[: 4 * count]).view("<f4").astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError("this message is damaged: a scale is not finite")
    return values


def _sides(wanted: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """[columns, 2]: mean of the values of 0 or more, mean of the negative ones; 0 where there are none."""
    sums = [np.where(side, wanted, 0).sum(axis=1, dtype=np.float64) for side in (~negative, negative)]
    counts = [np.count_nonzero(side, axis=1) for side in (~negative, negative)]
    return np.stack([s / np.maximum(n, 1) for s, n in zip(sums, counts, strict=True)], axis=1).astype(np.float32)


def _values(means: np.ndarray, negative: np.ndarray) -> np.ndarray:
    signs = negative.reshape(means.shape[0], -1)
    return np.where(signs, means[:, 1:], means[:, :1]).reshape(-1)
