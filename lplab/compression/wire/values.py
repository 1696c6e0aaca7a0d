"""Values on the wire: float32, float16 or bfloat16, little-endian. Arrays or tensors, as in all of this package."""

from __future__ import annotations

from typing import Any

from lplab.compression import arrays

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


def from_bytes(payload: Any, wire: str, count: int) -> Any:
    """The values of a message, float32: the inverse of ``float_bytes`` of :mod:`lplab.compression.arrays`.

    Raises:
        ValueError: the length is not that of ``count`` values.
    """
    need = count * bytes_per_value(wire)
    if len(payload) != need:
        raise ValueError(f"{count:,} values in {wire} are {need:,} bytes; {len(payload):,} arrived")
    return arrays.of(payload).floats(payload, wire)


def scales(payload: Any, count: int, signed: bool = True) -> Any:
    """The float32 scales at the start of a message.

    Args:
        payload: the message.
        count: of scales.
        signed: whether they may be negative.

    Raises:
        ValueError: fewer bytes, or a scale that cannot be.
    """
    if len(payload) < 4 * count:
        raise ValueError(f"this message begins with {4 * count} bytes of float32; only {len(payload)} arrived")
    xp = arrays.of(payload)
    values = xp.floats(payload[: 4 * count])
    if not (xp.isfinite(values) & (signed | (values >= 0))).all():
        what = "a scale is not finite" if signed else "a scale is negative or not finite"
        raise ValueError(f"this message is damaged: {what}")
    return values
