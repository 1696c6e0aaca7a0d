"""Local selection: which elements of each bin or chunk of a layer are sent, of arrays and of tensors.

Where numba is installed, AdaComp's selection from large arrays takes the loops of ``numba_selection.py``: fewer passes
over memory, the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lplab.compression import arrays
from lplab.compression.arrays import single


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
    """The elements of a layer that AdaComp sends: arrays or tensors.

    Attributes:
        scale: S, float32.
        indices: ascending, int64.
        negative: bool, one for each index.
        residual: after the step, float32.
    """

    scale: Any
    indices: Any
    negative: Any
    residual: Any


def adacomp_select(residual: Any, gradient: Any, settings: SelectionSettings, bin: int, out: Any = None) -> Selection:
    """AdaComp's steps 1 to 8 for one layer.

    Args:
        residual, gradient: flat float32, not changed.
        settings: an AdaComp.
        bin: elements in a bin.
        out: flat float32 that receives the new residual; None: new memory.
    """
    if arrays.of(gradient).compiles(gradient):
        return adacomp_select_compiled(residual, gradient, settings, bin, out)
    return adacomp_select_arrays(residual, gradient, settings, bin, out)


def adacomp_select_arrays(
    residual: Any, gradient: Any, settings: SelectionSettings, bin: int, out: Any = None
) -> Selection:
    """:func:`adacomp_select` by operations on whole arrays or tensors."""
    xp, numel = arrays.of(gradient), len(gradient)
    total = xp.empty_like(gradient) if out is None else out
    total[:] = residual + gradient
    boosted = total + gradient * single(settings.scale_factor - 1)
    maxima = xp.bin_maxima(total, bin)
    scale = mean_maximum(maxima, settings.scale_over)
    limit = xp.repeat(maxima, bin)[:numel]
    signs = total if settings.sign_of == "G" else boosted
    sent = (abs(boosted) >= limit) & xp.where(limit > 0, signs != 0, settings.zero_bins == "all")
    if settings.always_one:  # the first largest element of each bin that sends nothing and is not all zero
        silent = (xp.bincount(xp.nonzero(sent) // bin, len(maxima)) == 0) & (maxima > 0)
        sent[largest_per_chunk(total, bin)[silent]] = True
    indices = xp.nonzero(sent)
    negative = signs[indices] < 0
    total[indices] -= xp.where(negative, -scale, scale)
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


def mean_maximum(maxima: Any, over: str = "all") -> Any:
    """The mean of the maxima of all bins or of the nonzero ones: summed in float64, rounded once to float32.

    >>> float(mean_maximum(np.array([3, 0], np.float32))), float(mean_maximum(np.array([3, 0], np.float32), "nonzero"))
    (1.5, 3.0)
    """
    xp = arrays.of(maxima)
    counted = len(maxima) if over == "all" else xp.count(maxima)
    return xp.rounded_sums(maxima, lambda total: xp.cast(xp.divided(total, max(counted, 1)), "float32"))


def largest_per_chunk(x: Any, chunk: int, m: int = 1) -> Any:
    """Indices of the m largest |x| of each chunk of a flat array or tensor, ascending, int64; of equal ones the first.

    A chunk with fewer than m elements (the last one may be shorter) gives all of them.

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
        return rows.argmax(1) + first  # of equal values the first, as both libraries promise
    return (xp.sort_rows(xp.argsort_descending(rows)[:, :m]) + first[:, None]).reshape(-1)


def top_k_indices(x: Any, k: int) -> Any:
    """Indices of the k largest |x| of a flat array or tensor, ascending; of equal magnitudes the first ones.

    >>> top_k_indices(np.array([2, -3, 2, 2], np.float32), 2).tolist()
    [0, 1]
    """
    xp, magnitudes = arrays.of(x), abs(x)
    limit = xp.kth_largest(magnitudes, k)
    above = magnitudes > limit
    ties = xp.nonzero(magnitudes == limit)[: k - xp.count(above)]
    above[ties] = True
    return xp.nonzero(above)
