"""Packing of signs (eight to a byte), ternary symbols (five to a byte) and bit fields."""

from __future__ import annotations

import numpy as np

TRITS = np.array([1, 3, 9, 27, 81], np.uint8)  # five symbols of 0, 1, 2 make one byte below 243


def pack_signs(negative: np.ndarray) -> np.ndarray:
    """Bools, eight to a byte, the first in the lowest bit; the last byte is filled with 0.

    >>> pack_signs(np.array([True, False, True])).tolist()
    [5]
    """
    return np.packbits(negative, bitorder="little")


def unpack_signs(payload: np.ndarray, count: int) -> np.ndarray:
    """The inverse of :func:`pack_signs`.

    Raises:
        ValueError: the length is not that of ``count`` signs, or a bit after the last sign is set.
    """
    if payload.size != -(-count // 8):
        raise ValueError(f"{count:,} signs are {-(-count // 8):,} bytes; {payload.size:,} arrived")
    bits = np.unpackbits(payload, bitorder="little")
    if bits[count:].any():
        raise ValueError("these signs are damaged: a bit after the last sign is set")
    return bits[:count].astype(bool)


def pack_trits(symbols: np.ndarray) -> np.ndarray:
    """Symbols −1, 0, 1, five to a byte: 1.6 bits each. The last byte is filled with 0.

    >>> pack_trits(np.array([1, -1], np.int8)).tolist()
    [119]
    """
    padded = np.ones(-(-symbols.size // 5) * 5, np.uint8)
    padded[: symbols.size] = symbols + 1
    return (padded.reshape(-1, 5) * TRITS).sum(axis=1, dtype=np.uint8)


def unpack_trits(payload: np.ndarray, count: int) -> np.ndarray:
    """The inverse of :func:`pack_trits`: int8.

    Raises:
        ValueError: the length is not that of ``count`` symbols, or a byte above 242.
    """
    if payload.size != -(-count // 5):
        raise ValueError(f"{count:,} ternary symbols are {-(-count // 5):,} bytes; {payload.size:,} arrived")
    if payload.size and payload.max() >= 243:
        raise ValueError(f"ternary symbols are damaged: five of them make a byte up to 242, not {payload.max()}")
    symbols = (payload[:, None] // TRITS % 3).reshape(-1).astype(np.int8) - np.int8(1)
    if symbols[count:].any():
        raise ValueError("ternary symbols are damaged: there is one after the last")
    return symbols[:count]


def pack_fields(values: np.ndarray, width: int) -> np.ndarray:
    """Integers of ``width`` bits each, without gaps, lowest bit first.

    >>> pack_fields(np.array([1, 5, 2]), width=3).tolist()
    [169, 0]
    """
    spread = (values.astype(np.uint16)[:, None] >> np.arange(width, dtype=np.uint16)) & 1
    return np.packbits(spread.astype(bool).reshape(-1), bitorder="little")


def unpack_fields(payload: np.ndarray, width: int, count: int) -> np.ndarray:
    """The inverse of :func:`pack_fields`: int64.

    Raises:
        ValueError: the length is not that of ``count`` integers, or a bit after the last one is set.
    """
    flat = unpack_signs(payload, count * width).reshape(count, width)
    return flat @ (1 << np.arange(width, dtype=np.int64))
