"""The largest elements of a layer: of each chunk, or of the whole; of arrays and of tensors."""

from __future__ import annotations

from typing import Any

from lplab.compression import arrays


def largest_per_chunk(x: Any, chunk: int, m: int = 1) -> Any:
    """Indices of the m largest |x| of each chunk of a flat array or tensor, ascending, int64; of equal ones the first.

    A chunk with fewer than m elements (the last one may be shorter) gives all of them.

    >>> import numpy as np
    >>> largest_per_chunk(np.array([1, -5, 5, 2, 7], np.float32), chunk=3, m=2).tolist()
    [1, 2, 3, 4]
    """
    xp = arrays.of(x)
    step = max(xp.BLOCK // chunk, 1) * chunk
    scratch = xp.empty_like(x[:step])
    parts = []
    for first in range(0, len(x), step):
        part = x[first : first + step]
        parts.append(_largest(xp.abs(part, out=scratch[: len(part)]), chunk, m) + first)
    return xp.concatenate(parts)


def _largest(magnitudes: Any, chunk: int, m: int) -> Any:
    """:func:`largest_per_chunk` of one block of magnitudes."""
    full = len(magnitudes) // chunk * chunk
    parts = [_largest_per_row(magnitudes[:full].reshape(-1, chunk), m)] if full else []
    if full < len(magnitudes):
        parts.append(_largest_per_row(magnitudes[full:].reshape(1, -1), m) + full)
    return arrays.of(magnitudes).concatenate(parts)


def _largest_per_row(rows: Any, m: int) -> Any:
    xp = arrays.of(rows)
    first = xp.arange(len(rows), rows) * rows.shape[1]
    if m == 1:
        # Of equal values argmax gives the first, as both libraries promise.
        return rows.argmax(1) + first
    return (xp.sort_rows(xp.argsort_descending(rows)[:, :m]) + first[:, None]).reshape(-1)


def top_k_indices(x: Any, k: int) -> Any:
    """Indices of the k largest |x| of a flat array or tensor, ascending; of equal magnitudes the first ones.

    >>> import numpy as np
    >>> top_k_indices(np.array([2, -3, 2, 2], np.float32), 2).tolist()
    [0, 1]
    """
    xp, magnitudes = arrays.of(x), abs(x)
    limit = xp.kth_largest(magnitudes, k)
    above = magnitudes > limit
    ties = xp.nonzero(magnitudes == limit)[: k - xp.count(above)]
    above[ties] = True
    return xp.nonzero(above)
