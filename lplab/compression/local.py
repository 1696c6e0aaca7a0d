"""Local selection: what AdaComp and ScaleCom send of each stretch of a vector. Compiled where numba is installed.

The functions here are whole-array numpy; ``local_compiled.py`` has the same in one or two passes over memory, with the
same bits, for large tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lplab.formats import kernels

if TYPE_CHECKING:
    from lplab.compression.adacomp import AdaComp

BLOCK = 2**15  # elements at a time: their copies stay in the cache


@dataclass(frozen=True, eq=False)
class Selected:
    """What AdaComp sends of a layer.

    Attributes:
        scale: S, float32.
        indices: rising, int64.
        negative: bool.
        residue: the new one, float32.
    """

    scale: np.float32
    indices: np.ndarray
    negative: np.ndarray
    residue: np.ndarray


def adacomp_select(
    residue: np.ndarray, gradient: np.ndarray, settings: AdaComp, bin: int, out: np.ndarray | None = None
) -> Selected:
    """AdaComp's steps 1 to 8 for one layer.

    Args:
        residue, gradient: flat float32; they stay as they are.
        settings: of the algorithm.
        bin: elements a bin.
        out: flat float32 for the new residue; a new array unless given.
    """
    if gradient.size >= kernels.LARGE and kernels.available():
        from lplab.compression import local_compiled

        return local_compiled.adacomp_select(residue, gradient, settings, bin, out)
    return adacomp_arrays(residue, gradient, settings, bin, out)


def adacomp_arrays(
    residue: np.ndarray, gradient: np.ndarray, settings: AdaComp, bin: int, out: np.ndarray | None = None
) -> Selected:
    """:func:`adacomp_select` with whole arrays."""
    total = np.add(residue, gradient, out=out)
    boosted = total + np.float32(settings.scale_factor - 1) * gradient
    maxima = bin_maxima(total, bin)
    scale = mean_of(maxima, settings.scale_over)
    limit = np.repeat(maxima, bin)[: total.size]
    signs = total if settings.sign_of == "G" else boosted
    sent = (np.abs(boosted) >= limit) & np.where(limit > 0, signs != 0, settings.zero_bins == "all")
    if settings.always_one:
        sent |= _first_maxima(total, maxima, sent, bin)
    indices = np.flatnonzero(sent)
    negative = signs[indices] < 0
    total[indices] -= np.where(negative, -scale, scale)
    return Selected(scale, indices, negative, total)


def bin_maxima(x: np.ndarray, bin: int) -> np.ndarray:
    """max |x| of each bin; the last one may be short.

    >>> bin_maxima(np.array([1, -3, 2], np.float32), bin=2).tolist()
    [3.0, 2.0]
    """
    return np.maximum.reduceat(np.abs(x), np.arange(0, x.size, bin))


def mean_of(maxima: np.ndarray, over: str = "all") -> np.float32:
    """The mean of the maxima, of all bins or of the nonzero ones: summed in float64, rounded once.

    >>> float(mean_of(np.array([3, 0], np.float32))), float(mean_of(np.array([3, 0], np.float32), "nonzero"))
    (1.5, 3.0)
    """
    counted = maxima.size if over == "all" else np.count_nonzero(maxima)
    return np.float32(np.add.reduce(maxima, dtype=np.float64) / max(counted, 1))


def _first_maxima(total: np.ndarray, maxima: np.ndarray, sent: np.ndarray, bin: int) -> np.ndarray:
    """The first largest element of each bin that sends nothing and is not all zero."""
    empty = ~np.logical_or.reduceat(sent, np.arange(0, total.size, bin)) & (maxima > 0)
    chosen = np.zeros(total.size, bool)
    chosen[largest_of_chunks(total, bin)[empty]] = True
    return chosen


def largest_of_chunks(x: np.ndarray, chunk: int, m: int = 1) -> np.ndarray:
    """Indices of the m largest |x| of each chunk, rising; where equal, the first ones. int64.

    A chunk that is shorter than m, as the last one may be, gives all that it has.

    >>> largest_of_chunks(np.array([1, -5, 5, 2, 7], np.float32), chunk=3, m=2).tolist()
    [1, 2, 3, 4]
    """
    step = max(BLOCK // chunk, 1) * chunk
    scratch = np.empty(min(step, x.size), x.dtype)
    parts = []
    for first in range(0, x.size, step):
        part = x[first : first + step]
        parts.append(_largest(np.abs(part, out=scratch[: part.size]), chunk, m) + first)
    return np.concatenate(parts)


def _largest(magnitudes: np.ndarray, chunk: int, m: int) -> np.ndarray:
    """The same for one block of magnitudes."""
    whole = magnitudes.size // chunk
    found = [_of_rows(magnitudes[: whole * chunk].reshape(whole, chunk), m)]
    if magnitudes.size % chunk:
        found.append(_of_rows(magnitudes[whole * chunk :].reshape(1, -1), m) + whole * chunk)
    return np.concatenate(found)


def _of_rows(rows: np.ndarray, m: int) -> np.ndarray:
    if m == 1:
        columns = rows.argmax(axis=1, keepdims=True) if rows.size else np.zeros((0, 1), np.int64)
    else:
        columns = np.sort(np.argsort(-rows, axis=1, kind="stable")[:, :m], axis=1)
    return (columns + np.arange(len(rows))[:, None] * rows.shape[1]).reshape(-1)
