"""ScaleCom's index message, byte by byte: for each chunk in order, ascending positions of the selected elements in it.

A position is one byte for chunks of up to 256 elements, else two bytes, little-endian. Every chunk has m of them; a
last chunk shorter than m has one for each element. The length follows from the size of the layer.
"""

from __future__ import annotations

import numpy as np


def position_type(chunk: int) -> np.dtype:
    """uint8 for chunks of up to 256 elements, else little-endian uint16."""
    return np.dtype("u1" if chunk <= 256 else "<u2")


def count_of(numel: int, chunk: int, m: int = 1) -> int:
    """The number of elements sent.

    >>> count_of(1001, chunk=100), count_of(1001, chunk=100, m=2)
    (11, 21)
    """
    return numel // chunk * m + min(m, numel % chunk)


def size_of(numel: int, chunk: int, m: int = 1) -> int:
    """Bytes of a message."""
    return count_of(numel, chunk, m) * position_type(chunk).itemsize


def encode(indices: np.ndarray, chunk: int) -> np.ndarray:
    """Ascending indices as uint8.

    >>> encode(np.array([7, 1005]), chunk=1000).tolist()
    [7, 0, 5, 0]
    """
    return (indices % chunk).astype(position_type(chunk)).view(np.uint8)


def decode(payload: np.ndarray, numel: int, chunk: int, m: int = 1) -> np.ndarray:
    """The inverse of :func:`encode`, int64.

    Raises:
        ValueError: the payload has another length, a position lies outside its chunk or is out of order.

    >>> decode(np.array([7, 0, 5, 0], np.uint8), numel=1010, chunk=1000).tolist()
    [7, 1005]
    """
    need = size_of(numel, chunk, m)
    if payload.size != need:
        raise ValueError(
            f"{numel:,} elements in chunks of {chunk} need {need:,} bytes of indices; {payload.size:,} arrived"
        )
    positions = np.ascontiguousarray(payload).view(position_type(chunk)).astype(np.int64)
    indices = positions + np.arange(positions.size) // m * chunk
    if (positions >= chunk).any() or (indices >= numel).any() or (np.diff(indices) <= 0).any():
        raise ValueError("these indices are damaged: a position lies outside its chunk, or is out of order")
    return indices
