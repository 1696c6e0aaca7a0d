"""Packing of signs (eight to a byte), ternary symbols (five to a byte) and bit fields."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.compression import arrays

TRITS = np.array([1, 3, 9, 27, 81], np.uint8)  # five symbols of 0, 1, 2 make one byte below 243


def pack_signs(negative: Any) -> Any:
    """Bools, eight to a byte, the first in the lowest bit; the last byte is filled with 0.

    >>> pack_signs(np.array([True, False, True])).tolist()
    [5]
    """
    return arrays.of(negative).pack_bits(negative)


def unpack_signs(payload: Any, count: int) -> Any:
    """The inverse of :func:`pack_signs`.

    Raises:
        ValueError: the length is not that of ``count`` signs, or a bit after the last sign is set.
    """
    if len(payload) != -(-count // 8):
        raise ValueError(f"{count:,} signs are {-(-count // 8):,} bytes; {len(payload):,} arrived")
    bits = arrays.of(payload).unpack_bits(payload)
    if bits[count:].any():
        raise ValueError("these signs are damaged: a bit after the last sign is set")
    return bits[:count]


def pack_trits(symbols: Any) -> Any:
    """Symbols −1, 0, 1, five to a byte: 1.6 bits each. The last byte is filled with 0.

    >>> pack_trits(np.array([1, -1], np.int8)).tolist()
    [119]
    """
    xp = arrays.of(symbols)
    fives = xp.rows(xp.cast(symbols + 1, "uint8"), 5, fill=1)
    return xp.cast((fives * xp.from_host(TRITS, fives)).sum(1), "uint8")


def unpack_trits(payload: Any, count: int) -> Any:
    """The inverse of :func:`pack_trits`: int8.

    Raises:
        ValueError: the length is not that of ``count`` symbols, or a byte above 242.
    """
    if len(payload) != -(-count // 5):
        raise ValueError(f"{count:,} ternary symbols are {-(-count // 5):,} bytes; {len(payload):,} arrived")
    if len(payload) and payload.max() >= 243:
        raise ValueError(f"ternary symbols are damaged: five of them make a byte up to 242, not {payload.max()}")
    xp = arrays.of(payload)
    symbols = xp.cast((payload[:, None] // xp.from_host(TRITS, payload) % 3).reshape(-1), "int8") - 1
    if symbols[count:].any():
        raise ValueError("ternary symbols are damaged: there is one after the last")
    return symbols[:count]


def pack_fields(values: Any, width: int) -> Any:
    """Integers of ``width`` bits each, up to 15, without gaps, lowest bit first.

    >>> pack_fields(np.array([1, 5, 2]), width=3).tolist()
    [169, 0]
    """
    xp = arrays.of(values)
    short = xp.cast(values, "int16")
    return pack_signs(xp.cast(short[:, None] >> xp.cast(xp.arange(width, short), "int16") & 1, "bool").reshape(-1))


def unpack_fields(payload: Any, width: int, count: int) -> Any:
    """The inverse of :func:`pack_fields`: int64.

    Raises:
        ValueError: the length is not that of ``count`` integers, or a bit after the last one is set.
    """
    xp, bits = arrays.of(payload), unpack_signs(payload, count * width).reshape(count, width)
    return sum(xp.cast(bits[:, i], "int64") << i for i in range(width))
