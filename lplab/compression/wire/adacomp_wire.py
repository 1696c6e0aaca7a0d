"""AdaComp's messages, byte by byte.

    bytes 0–3   scale S, float32, little-endian, finite and not negative
    then        codes: one byte each for bins of up to 63 elements, else two bytes, little-endian

A code is ``position << 2 | last << 1 | negative``: the position inside the bin, whether this is the bin's last code,
and the sign of the value ±S. A bin that sends nothing has one code: all position bits set, last set, negative clear.
The stream marks the end of each bin: it needs no counts, and the receiver detects missing codes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

HEADER = 4  # bytes
ONE_BYTE_BIN = 63  # with one byte the position has six bits, and one of their values means "nothing sent"


@dataclass(frozen=True)
class SentCounts:
    """Counts of one message: elements sent, and bins that send nothing."""

    sent: int
    empty_bins: int


@dataclass(frozen=True, eq=False)
class Message:
    """A decoded message.

    Attributes:
        scale: S.
        indices: of the elements sent, ascending, int64.
        negative: bool, one for each index.
        empty_bins: bins that send nothing.
    """

    scale: np.float32
    indices: np.ndarray
    negative: np.ndarray
    empty_bins: int

    def values(self) -> np.ndarray:
        """The values sent: ±S, float32."""
        return np.where(self.negative, -self.scale, self.scale).astype(np.float32)

    @property
    def sent_counts(self) -> SentCounts:
        """For :meth:`~lplab.compression.adacomp.AdaComp.plan`."""
        return SentCounts(self.indices.size, self.empty_bins)


def code_type(bin: int) -> np.dtype:
    """uint8 for bins of up to 63 elements, else little-endian uint16.

    >>> code_type(50).itemsize, code_type(500).itemsize
    (1, 2)
    """
    return np.dtype("u1" if bin <= ONE_BYTE_BIN else "<u2")


def size_of(activity: SentCounts, bin: int) -> int:
    """Bytes of a message.

    >>> size_of(SentCounts(sent=5, empty_bins=0), bin=50)
    9
    """
    return HEADER + (activity.sent + activity.empty_bins) * code_type(bin).itemsize


def encode(scale: float | np.float32, indices: np.ndarray, negative: np.ndarray, numel: int, bin: int) -> np.ndarray:
    """A message, as uint8.

    Args:
        scale: S.
        indices: of the elements sent, ascending.
        negative: bool, one for each index.
        numel: elements of the layer.
        bin: elements in a bin.

    >>> encode(0.5, np.array([1, 3]), np.array([False, True]), numel=6, bin=2).tolist()
    [0, 0, 0, 63, 6, 7, 254]
    """
    bins = -(-numel // bin)
    of_bin = indices // bin
    sent = np.bincount(of_bin, minlength=bins)
    last = np.ones(indices.size, bool)
    last[:-1] = of_bin[1:] != of_bin[:-1]
    codes = (indices - of_bin * bin).astype(code_type(bin)) << 2  # in the type of the message: less memory is moved
    codes |= last.astype(np.uint8) << 1 | negative.astype(np.uint8)
    empty = np.flatnonzero(sent == 0)
    before = np.searchsorted(of_bin, empty)  # an empty bin's code precedes those of the next bin
    stream = np.insert(codes, before, empty_code(bin)) if empty.size else codes
    return np.concatenate([np.array([scale], "<f4").view(np.uint8), stream.astype(code_type(bin)).view(np.uint8)])


def empty_code(bin: int) -> int:
    """The code of a bin that sends nothing: all bits set except the sign."""
    return int(np.iinfo(code_type(bin)).max) - 1


def decode(payload: np.ndarray, numel: int, bin: int) -> Message:
    """The inverse of :func:`encode`.

    Raises:
        ValueError: the payload is too short, too long, or not a message for a layer of this size.

    >>> decode(np.array([0, 0, 0, 63, 6, 7, 254], np.uint8), numel=6, bin=2).indices.tolist()
    [1, 3]
    """
    codes = _codes(payload, bin)
    scale = np.ascontiguousarray(payload[:HEADER]).view("<f4")[0]
    if not (np.isfinite(scale) and not np.signbit(scale)):
        raise ValueError(f"the scale of an AdaComp message must be finite and 0 or more, got {scale}")
    last = codes & 2 != 0
    bins = -(-numel // bin)
    if np.count_nonzero(last) != bins or not last[-1]:
        raise ValueError(f"this AdaComp message has {np.count_nonzero(last)} bins; {numel:,} elements have {bins}")
    of_bin = np.concatenate([[0], np.cumsum(last)[:-1]])
    filled = codes != empty_code(bin)
    indices = of_bin * bin + (codes >> 2)
    _check_order(indices, of_bin, filled, min(bin, numel), numel, bin)
    return Message(scale, indices[filled], (codes[filled] & 1).astype(bool), int(np.count_nonzero(~filled)))


def _codes(payload: np.ndarray, bin: int) -> np.ndarray:
    width = code_type(bin).itemsize
    if payload.size <= HEADER or (payload.size - HEADER) % width:
        raise ValueError(
            f"{payload.size} bytes are no AdaComp message: it has 4 bytes of scale, then codes of {width} bytes"
        )
    return np.ascontiguousarray(payload[HEADER:]).view(code_type(bin)).astype(np.int64)


def _check_order(
    indices: np.ndarray, of_bin: np.ndarray, filled: np.ndarray, longest: int, numel: int, bin: int
) -> None:
    """Refuse positions outside their bins or out of order, and bins with more than the code for nothing."""
    alone = np.bincount(of_bin, minlength=1)[of_bin] == 1
    position = indices - of_bin * bin
    outside = filled & ((position >= longest) | (indices >= numel))
    descending = np.concatenate([[False], (np.diff(indices) <= 0) & (np.diff(of_bin) == 0)])
    if (outside | descending | (~filled & ~alone)).any():
        raise ValueError("this AdaComp message is damaged: a position lies outside its bin, or is out of order")
