"""Local selection in few passes over memory: the bits of :mod:`lplab.compression.local`, compiled by numba.

Magnitudes are compared as integers: for positive floats the order of the patterns is the order of the values, and an
integer maximum runs in vector instructions, which a float maximum (NaN, zeros) does not.
"""

# mypy: ignore-errors
# (numba gives the types in these loops a stricter meaning than Python's)

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lplab.compression.local import Selected, mean_of
from lplab.formats.compiling import compile_loop, use_wide_vectors

if TYPE_CHECKING:
    from lplab.compression.adacomp import AdaComp

MAGNITUDE = np.int32(0x7FFFFFFF)


def adacomp_select(
    residue: np.ndarray, gradient: np.ndarray, settings: AdaComp, bin: int, out: np.ndarray | None = None
) -> Selected:
    """:func:`lplab.compression.local.adacomp_arrays` in two passes."""
    bins = -(-gradient.size // bin)
    maxima = np.empty(bins, np.float32)
    _maxima(residue, gradient, bin, maxima)
    scale = mean_of(maxima, settings.scale_over)
    new = np.empty(gradient.size, np.float32) if out is None else out
    indices = np.empty(max(bins, gradient.size // 8), np.int64)
    negative = np.empty(indices.size, np.bool_)
    extra = np.float32(settings.scale_factor - 1)
    switches = settings.sign_of == "G", settings.always_one, settings.zero_bins == "all"
    arguments = residue, gradient, extra, scale, maxima, bin, *switches, new
    sent = _select(*arguments, indices, negative)
    if sent > indices.size:  # more than one in eight: only now is it known how much room is needed
        indices, negative = np.empty(sent, np.int64), np.empty(sent, np.bool_)
        _select(*arguments, indices, negative)
    return Selected(scale, indices[:sent], negative[:sent], new)


@compile_loop
def _maxima(residue, gradient, bin, maxima):
    """max |r + g| of each bin."""
    use_wide_vectors()
    for b in range(maxima.size):
        first, last = b * bin, min((b + 1) * bin, gradient.size)
        most = np.int32(0)
        for j in range(first, last):
            pattern = np.float32(residue[j] + gradient[j]).view(np.int32) & MAGNITUDE
            most = np.int32(max(most, np.int32(pattern)))
        maxima[b] = np.int32(most).view(np.float32)


@compile_loop
def _select(residue, gradient, extra, scale, maxima, bin, sign_of_g, always_one, zeros, new, indices, negative):
    """Write the new residue; note indices and signs as far as there is room; return how many are sent."""
    use_wide_vectors()
    count, room = 0, indices.size
    for b in range(maxima.size):
        first, last = b * bin, min((b + 1) * bin, gradient.size)
        limit = maxima[b]
        hits = 0
        for j in range(first, last):  # without branches: vector instructions
            total = np.float32(residue[j] + gradient[j])
            new[j] = total
            hits += abs(np.float32(total + np.float32(extra * gradient[j]))) >= limit
        if limit == np.float32(0):
            for j in range(first, last if zeros else first):  # all of it is sent
                sign = new[j] if sign_of_g else np.float32(np.float32(extra * gradient[j]) + new[j])
                if count < room:
                    indices[count], negative[count] = j, sign < np.float32(0)
                new[j] = np.float32(new[j] + scale) if sign < np.float32(0) else np.float32(new[j] - scale)
                count += 1
            continue
        before, j = count, first
        while hits > 0:
            total = new[j]
            boosted = np.float32(total + np.float32(extra * gradient[j]))
            if abs(boosted) >= limit:
                hits -= 1
                sign = total if sign_of_g else boosted
                if sign != np.float32(0):
                    if count < room:
                        indices[count], negative[count] = j, sign < np.float32(0)
                    new[j] = np.float32(total + scale) if sign < np.float32(0) else np.float32(total - scale)
                    count += 1
            j += 1
        if always_one and count == before:
            j = first
            while abs(new[j]) != limit:
                j += 1
            total = new[j]
            sign = total if sign_of_g else np.float32(total + np.float32(extra * gradient[j]))
            if count < room:
                indices[count], negative[count] = j, sign < np.float32(0)
            new[j] = np.float32(total + scale) if sign < np.float32(0) else np.float32(total - scale)
            count += 1
    return count
