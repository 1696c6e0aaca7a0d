"""Local selection: the sum of residual and gradient, and which elements of each bin or chunk of it are sent.

Whole-array numpy. Where numba is installed, large tensors take the loops of ``numba_selection.py``: fewer passes over
memory, the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lplab.formats.paths import kernel_selection

BLOCK = 2**15  # elements processed together: their copies stay in the cache


class SelectionSettings(Protocol):
    """What the selection reads of :class:`~lplab.compression.adacomp.AdaComp`."""

    @property
    def scale_factor(self) -> float:
        """The factor s of H = r + s·g."""

    @property
    def sign_of(self) -> str:
        """Whose sign is sent: "G" or "H"."""

    @property
    def scale_over(self) -> str:
        """Whose maxima the scale averages: "all" bins or the "nonzero" ones."""

    @property
    def always_one(self) -> bool:
        """Whether each bin sends at least one element."""

    @property
    def zero_bins(self) -> str:
        """What a bin of zeros sends: "nothing" or "all"."""


@dataclass(frozen=True, eq=False)
class Selection:
    """The elements of a layer that AdaComp sends.

    Attributes:
        scale: S, float32.
        indices: ascending, int64.
        negative: bool, one for each index.
        residual: after the step, float32.
    """

    scale: np.float32
    indices: np.ndarray
    negative: np.ndarray
    residual: np.ndarray


def is_finite(values: np.ndarray) -> bool:
    """Whether no value is NaN or infinite.

    Args:
        values: flat float32.

    >>> is_finite(np.array([1, -np.inf], np.float32))
    False
    """
    if _compiles(values):
        from lplab.compression import numba_selection

        return bool(numba_selection.is_finite(values))
    return bool(np.isfinite(values).all())


def add_finite(residual: np.ndarray, gradient: np.ndarray, total: np.ndarray) -> bool:
    """Write residual + gradient to ``total``; whether all sums are finite, which those of a NaN or infinity are not.

    Args:
        residual, gradient: flat float32, not changed.
        total: flat float32, other memory than these; or the same array as ``gradient``.

    >>> total = np.empty(2, np.float32)
    >>> add_finite(np.array([1, 2], np.float32), np.array([3, 4], np.float32), total), total.tolist()
    (True, [4.0, 6.0])
    """
    if _compiles(gradient):
        from lplab.compression import numba_selection

        if total is gradient:
            return bool(numba_selection.add_finite_in_place(residual, gradient))
        return bool(numba_selection.add_finite(residual, gradient, total))
    np.add(residual, gradient, out=total)
    return is_finite(total)


def take_sent(corrected: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The values at some indices, where ``corrected`` becomes zero: they are sent without rounding.

    >>> corrected = np.array([1, 2, 3], np.float32)
    >>> take_sent(corrected, np.array([0, 2])).tolist(), corrected.tolist()
    ([1.0, 3.0], [0.0, 2.0, 0.0])
    """
    if _compiles(corrected):
        from lplab.compression import numba_selection

        sent = np.empty(indices.size, np.float32)
        numba_selection.take_sent(corrected, indices, sent)
        return sent
    sent = corrected.take(indices)
    corrected[indices] = 0
    return sent


def _compiles(values: np.ndarray) -> bool:
    """Whether compiled loops pay off for an array of this size, and numba is installed."""
    return values.size >= kernel_selection.MIN_COMPILED_SIZE and kernel_selection.available()


def adacomp_select(
    residual: np.ndarray, gradient: np.ndarray, settings: SelectionSettings, bin: int, out: np.ndarray | None = None
) -> Selection:
    """AdaComp's steps 1 to 8 for one layer.

    Args:
        residual, gradient: flat float32, not changed.
        settings: an AdaComp.
        bin: elements in a bin.
        out: flat float32 that receives the new residual; None: a new array.
    """
    if _compiles(gradient):
        return adacomp_select_compiled(residual, gradient, settings, bin, out)
    return adacomp_select_arrays(residual, gradient, settings, bin, out)


def adacomp_select_arrays(
    residual: np.ndarray, gradient: np.ndarray, settings: SelectionSettings, bin: int, out: np.ndarray | None = None
) -> Selection:
    """:func:`adacomp_select` by whole-array numpy."""
    total = np.add(residual, gradient, out=out)
    boosted = total + np.float32(settings.scale_factor - 1) * gradient
    maxima = bin_maxima(total, bin)
    scale = mean_maximum(maxima, settings.scale_over)
    limit = np.repeat(maxima, bin)[: total.size]
    signs = total if settings.sign_of == "G" else boosted
    sent = (np.abs(boosted) >= limit) & np.where(limit > 0, signs != 0, settings.zero_bins == "all")
    if settings.always_one:
        sent |= _first_maxima(total, maxima, sent, bin)
    indices = np.flatnonzero(sent)
    negative = signs[indices] < 0
    total[indices] -= np.where(negative, -scale, scale)
    return Selection(scale, indices, negative, total)


def adacomp_select_compiled(
    residual: np.ndarray, gradient: np.ndarray, settings: SelectionSettings, bin: int, out: np.ndarray | None = None
) -> Selection:
    """:func:`adacomp_select` by compiled loops, in one pass; needs numba."""
    from lplab.compression import numba_selection

    bins = -(-gradient.size // bin)
    maxima = np.empty(bins, np.float32)
    new = np.empty(gradient.size, np.float32) if out is None else out
    indices = np.empty(max(bins, gradient.size // 8), np.int64)
    negative = np.empty(indices.size, np.bool_)
    extra = np.float32(settings.scale_factor - 1)
    switches = settings.sign_of == "G", settings.always_one, settings.zero_bins == "all"
    arguments = residual, gradient, extra, bin, *switches, new, maxima
    sent = numba_selection.select(*arguments, indices, negative)
    if sent > indices.size:  # more than one in eight: the needed size is known only now
        indices, negative = np.empty(sent, np.int64), np.empty(sent, np.bool_)
        numba_selection.select(*arguments, indices, negative)
    indices, negative = indices[:sent], negative[:sent]
    scale = mean_maximum(maxima, settings.scale_over)
    numba_selection.subtract_sent(new, indices, negative, scale)
    return Selection(scale, indices, negative, new)


def bin_maxima(x: np.ndarray, bin: int) -> np.ndarray:
    """max |x| of each bin; the last one may be short.

    >>> bin_maxima(np.array([1, -3, 2], np.float32), bin=2).tolist()
    [3.0, 2.0]
    """
    return np.maximum.reduceat(np.abs(x), np.arange(0, x.size, bin))


def mean_maximum(maxima: np.ndarray, over: str = "all") -> np.float32:
    """The mean of the maxima of all bins or of the nonzero ones: summed in float64, rounded once.

    >>> float(mean_maximum(np.array([3, 0], np.float32))), float(mean_maximum(np.array([3, 0], np.float32), "nonzero"))
    (1.5, 3.0)
    """
    counted = maxima.size if over == "all" else np.count_nonzero(maxima)
    return np.float32(np.add.reduce(maxima, dtype=np.float64) / max(counted, 1))


def _first_maxima(total: np.ndarray, maxima: np.ndarray, sent: np.ndarray, bin: int) -> np.ndarray:
    """The first largest element of each bin that sends nothing and is not all zero, as a mask."""
    empty = ~np.logical_or.reduceat(sent, np.arange(0, total.size, bin)) & (maxima > 0)
    mask = np.zeros(total.size, bool)
    mask[largest_per_chunk(total, bin)[empty]] = True
    return mask


def largest_per_chunk(x: np.ndarray, chunk: int, m: int = 1) -> np.ndarray:
    """Indices of the m largest |x| of each chunk, ascending, int64; of equal magnitudes the first ones.

    A chunk with fewer than m elements (the last one may be shorter) gives all of them.

    >>> largest_per_chunk(np.array([1, -5, 5, 2, 7], np.float32), chunk=3, m=2).tolist()
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
    """:func:`largest_per_chunk` of one block of magnitudes."""
    full = magnitudes.size // chunk
    parts = [_largest_per_row(magnitudes[: full * chunk].reshape(full, chunk), m)]
    if magnitudes.size % chunk:
        parts.append(_largest_per_row(magnitudes[full * chunk :].reshape(1, -1), m) + full * chunk)
    return np.concatenate(parts)


def _largest_per_row(rows: np.ndarray, m: int) -> np.ndarray:
    if m == 1:
        columns = rows.argmax(axis=1, keepdims=True) if rows.size else np.zeros((0, 1), np.int64)
    else:
        columns = np.sort(np.argsort(-rows, axis=1, kind="stable")[:, :m], axis=1)
    return (columns + np.arange(len(rows))[:, None] * rows.shape[1]).reshape(-1)
