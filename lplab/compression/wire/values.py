"""Values on the wire: float32, float16 or bfloat16, little-endian."""

from __future__ import annotations

import numpy as np

from lplab import formats

BYTES_PER_VALUE = {"fp32": 4, "fp16": 2, "bf16": 2}


def check_wire(wire: str) -> str:
    """Check the name of a format and return it.

    Raises:
        ValueError: not "fp32", "fp16" or "bf16".
    """
    if wire not in BYTES_PER_VALUE:
        raise ValueError(f"unknown format {wire!r} for values on the wire; allowed: {', '.join(BYTES_PER_VALUE)}")
    return wire


def bytes_per_value(wire: str) -> int:
    """Bytes of one value.

    >>> bytes_per_value("bf16")
    2
    """
    return BYTES_PER_VALUE[check_wire(wire)]


def round_to_wire(values: np.ndarray, wire: str) -> np.ndarray:
    """The float32 values that arrive: rounded to nearest even, and clipped to the largest number of the format.

    >>> round_to_wire(np.array([1.001, 1e6], np.float32), "fp16").tolist()
    [1.0009765625, 65504.0]
    """
    if check_wire(wire) == "fp32":
        return values
    fmt = formats.get(wire)
    return fmt.quantize(np.clip(values, -fmt.max, fmt.max).astype(np.float32))


def to_bytes(values: np.ndarray, wire: str) -> np.ndarray:
    """Values that :func:`round_to_wire` returned, as uint8.

    >>> to_bytes(np.array([1.0], np.float32), "bf16").tolist()
    [128, 63]
    """
    if check_wire(wire) == "fp32":
        return values.astype("<f4").view(np.uint8)
    if wire == "fp16":
        return values.astype("<f2").view(np.uint8)
    return (np.ascontiguousarray(values, "<f4").view("<u4") >> 16).astype("<u2").view(np.uint8)


def from_bytes(payload: np.ndarray, wire: str, count: int) -> np.ndarray:
    """The inverse of :func:`to_bytes`, float32.

    Raises:
        ValueError: the length is not that of ``count`` values.
    """
    need = count * bytes_per_value(wire)
    if payload.size != need:
        raise ValueError(f"{count:,} values in {wire} are {need:,} bytes; {payload.size:,} arrived")
    packed = np.ascontiguousarray(payload)
    if wire == "fp32":
        return packed.view("<f4").astype(np.float32)
    if wire == "fp16":
        return packed.view("<f2").astype(np.float32)
    return (packed.view("<u2").astype(np.uint32) << 16).view(np.float32)
