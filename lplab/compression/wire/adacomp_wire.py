"""AdaComp's messages, byte by byte.

    bytes 0–3   scale S, float32, little-endian, finite and not negative
    then        codes: one byte each for bins of up to 63 elements, else two bytes, little-endian

A code is ``position << 2 | last << 1 | negative``: the position inside the bin, whether this is the bin's last code,
and the sign of the value ±S. A bin that sends nothing has one code: all position bits set, last set, negative clear.
The stream marks the end of each bin: it needs no counts, and the receiver detects missing codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.compression import arrays

HEADER = 4  # bytes
ONE_BYTE_BIN = 63  # with one byte the position has six bits, and one of their values means "nothing sent"


@dataclass(frozen=True)
class SentCounts:
    """Counts of one message: elements sent, and bins that send nothing."""

    sent: int
    empty_bins: int


@dataclass(frozen=True, eq=False)
class Message:
    """A decoded message, arrays or tensors.

    Attributes:
        scale: S, float32.
        indices: of the elements sent, ascending, int64.
        negative: bool, one for each index.
        empty_bins: bins that send nothing.
    """

    scale: Any
    indices: Any
    negative: Any
    empty_bins: int

    def values(self) -> Any:
        """The values sent: ±S, float32."""
        return arrays.of(self.negative).where(self.negative, -self.scale, self.scale)


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


def encode(scale: Any, indices: Any, negative: Any, numel: int, bin: int) -> Any:
    """A message, as uint8.

    Args:
        scale: S; a tensor if the indices are one.
        indices: of the elements sent, ascending.
        negative: bool, one for each index.
        numel: elements of the layer.
        bin: elements in a bin.

    >>> encode(0.5, np.array([1, 3]), np.array([False, True]), numel=6, bin=2).tolist()
    [0, 0, 0, 63, 6, 7, 254]
    """
    xp, width = arrays.of(indices), code_type(bin).itemsize
    of_bin = indices // bin
    last = xp.ones_like(negative)
    last[:-1] = of_bin[1:] != of_bin[:-1]
    # In the type of the message less memory is moved.
    codes = xp.narrow(indices - of_bin * bin, width) << 2
    codes |= xp.cast(last, "uint8") << 1 | negative
    empty = xp.nonzero(xp.bincount(of_bin, -(-numel // bin)) == 0)
    # The code of an empty bin precedes those of the next bin.
    if len(empty):
        codes = xp.insert(codes, xp.searchsorted(of_bin, empty), empty_code(bin))
    return xp.concatenate([xp.float_bytes(scale), xp.unsigned_bytes(codes, width)])


def empty_code(bin: int) -> int:
    """The code of a bin that sends nothing: all bits set except the sign."""
    return int(np.iinfo(code_type(bin)).max) - 1


def decode(payload: Any, numel: int, bin: int) -> Message:
    """The inverse of :func:`encode`.

    Raises:
        ValueError: the payload is too short, too long, or not a message for a layer of this size.

    >>> decode(np.array([0, 0, 0, 63, 6, 7, 254], np.uint8), numel=6, bin=2).indices.tolist()
    [1, 3]
    """
    xp, width = arrays.of(payload), code_type(bin).itemsize
    if len(payload) <= HEADER or (len(payload) - HEADER) % width:
        raise ValueError(
            f"{len(payload)} bytes are no AdaComp message: it has 4 bytes of scale, then codes of {width} bytes"
        )
    scale = xp.floats(payload[:HEADER])[0]
    if not xp.isfinite(scale) or xp.signbit(scale):
        number = np.float32(scale.item())
        raise ValueError(f"the scale of an AdaComp message must be finite and 0 or more, got {number}")
    codes = xp.unsigned(payload[HEADER:], width)
    last = codes & 2 != 0
    bins = -(-numel // bin)
    if xp.count(last) != bins or not last[-1]:
        raise ValueError(f"this AdaComp message has {xp.count(last)} bins; {numel:,} elements have {bins}")
    ends = xp.cast(last, "int64")
    of_bin = ends.cumsum(0) - ends
    filled = codes != empty_code(bin)
    position = codes >> 2
    indices = of_bin * bin + position
    outside = filled & ((position >= min(bin, numel)) | (indices >= numel))
    # In a bin with several codes each has a position, and positions ascend.
    disorder = ~last[:-1] & (~filled[:-1] | ~filled[1:] | (indices[1:] <= indices[:-1]))
    if outside.any() or disorder.any():
        raise ValueError("this AdaComp message is damaged: a position lies outside its bin, or is out of order")
    sent = codes[filled]
    return Message(scale, indices[filled], sent & 1 != 0, len(codes) - len(sent))
