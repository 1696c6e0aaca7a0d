"""ScaleCom's index message, byte by byte: for each chunk in order, ascending positions of the selected elements in it.

A position is one byte for chunks of up to 256 elements, else two bytes, little-endian. Every chunk has m of them; a
last chunk shorter than m has one for each element. The length follows from the size of the layer.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from lplab.compression import arrays


def position_bytes(chunk: int) -> int:
    """1 for chunks of up to 256 elements, else 2."""
    return 1 if chunk <= 256 else 2


def count_of(numel: int, chunk: int, m: int = 1) -> int:
    """The number of elements sent.

    >>> count_of(1001, chunk=100), count_of(1001, chunk=100, m=2)
    (11, 21)
    """
    return numel // chunk * m + min(m, numel % chunk)


@cache  # each learner asks for it in each step
def size_of(numel: int, chunk: int, m: int = 1) -> int:
    """Bytes of a message."""
    return count_of(numel, chunk, m) * position_bytes(chunk)


def encode(indices: Any, chunk: int) -> Any:
    """Ascending indices as uint8.

    >>> import numpy as np
    >>> encode(np.array([7, 1005]), chunk=1000).tolist()
    [7, 0, 5, 0]
    """
    return arrays.of(indices).unsigned_bytes(indices % chunk, position_bytes(chunk))


def decode(payload: Any, numel: int, chunk: int, m: int = 1) -> Any:
    """The inverse of :func:`encode`, int64.

    Raises:
        ValueError: the payload has another length, a position lies outside its chunk or is out of order.

    >>> import numpy as np
    >>> decode(np.array([7, 0, 5, 0], np.uint8), numel=1010, chunk=1000).tolist()
    [7, 1005]
    """
    need = size_of(numel, chunk, m)
    if len(payload) != need:
        raise ValueError(
            f"{numel:,} elements in chunks of {chunk} need {need:,} bytes of indices; {len(payload):,} arrived"
        )
    xp = arrays.of(payload)
    positions = xp.unsigned(payload, position_bytes(chunk))
    indices = positions + xp.arange(len(positions), positions) // m * chunk
    if (positions >= chunk).any() or (indices >= numel).any() or (indices[1:] <= indices[:-1]).any():
        raise ValueError("these indices are damaged: a position lies outside its chunk, or is out of order")
    return indices
