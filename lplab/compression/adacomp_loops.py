"""Compiled loops of AdaComp's selection: few passes over memory, the bits of array operations."""

# mypy: ignore-errors
# ruff: noqa: F821
# (numba gives the types in these loops a stricter meaning than Python's; ``boosted`` is given to ``compile_loop``)

from __future__ import annotations

from functools import partial

import numpy as np
from numba import njit

from lplab.compression import adacomp_words
from lplab.compression.arrays import MAGNITUDE
from lplab.formats.paths.numba_compile import (
    compile_loop,
    narrowed_words,
    use_wide_vectors,
    words_for,
    words_stamp,
)
from lplab.formats.words import bound

_inlined = njit(forceinline=True, nogil=True)
_boosted = {"boosted": narrowed_words(adacomp_words)["boosted"]}
_words = words_for("float32")
_names = {name: _words[name] for name in ("maximum", "as_bits", "as_real")}
_names["boosted"] = bound({**_words}, _inlined, _boosted)["boosted"]


@partial(compile_loop, names=_names, label=words_stamp(adacomp_words))
def select(residual, gradient, extra, bin, sign_of_g, always_one, zeros, new, maxima, indices, negative):
    """Select in one pass over memory: write r + g to ``new``, max |r + g| of each bin to ``maxima``, and indices and
    signs as far as their arrays reach. Return how many elements are sent.
    """  # noqa: D205
    use_wide_vectors()
    count, capacity = 0, indices.size
    # Of one bin, in the cache like the bin itself.
    hits = np.zeros(-(-bin // 8) * 8, np.uint8)
    words = hits.view(np.uint64)
    for b in range(maxima.size):
        first = b * bin
        # Slices from 0 and loops that do one thing each: so the compiler finds the vector instructions.
        g, old, total = gradient[first : first + bin], residual[first : first + bin], new[first : first + bin]
        for j in range(g.size):
            total[j] = np.float32(old[j] + g[j])
        largest = np.int32(0)
        for j in range(g.size):
            largest = np.int32(maximum(largest, np.int32(as_bits(total[j]) & MAGNITUDE)))
        limit = as_real(largest)
        maxima[b] = limit
        if limit == np.float32(0):
            # Every element of the bin is sent.
            for j in range(g.size if zeros else 0):
                sign = total[j] if sign_of_g else boosted(total[j], g[j], extra)
                if count < capacity:
                    indices[count], negative[count] = first + j, sign < np.float32(0)
                count += 1
            continue
        for j in range(g.size):
            hits[j] = abs(boosted(total[j], g[j], extra)) >= limit
        hits[g.size :] = 0
        before = count
        for w in range(words.size):
            # Of most eights nothing is sent.
            if words[w] == 0:
                continue
            for j in range(8 * w, 8 * w + 8):
                if hits[j]:
                    sign = total[j] if sign_of_g else boosted(total[j], g[j], extra)
                    if sign != np.float32(0):
                        if count < capacity:
                            indices[count], negative[count] = first + j, sign < np.float32(0)
                        count += 1
        if always_one and count == before:
            j = 0
            while abs(total[j]) != limit:
                j += 1
            sign = total[j] if sign_of_g else boosted(total[j], g[j], extra)
            if count < capacity:
                indices[count], negative[count] = first + j, sign < np.float32(0)
            count += 1
    return count


@compile_loop
def subtract_sent(new, indices, negative, scale):
    """Subtract what is sent, −scale or scale, from the sums: the new residual."""
    for k in range(indices.size):
        j = indices[k]
        new[j] = np.float32(new[j] + scale) if negative[k] else np.float32(new[j] - scale)
