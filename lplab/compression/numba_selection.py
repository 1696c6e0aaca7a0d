"""Compiled loops of AdaComp's selection and of common checks: few passes over memory, the bits of array operations.

Magnitudes are compared as integers: positive floats and their bit patterns have the same order, and
an integer maximum is vectorized, which a float maximum (NaN, signed zeros) is not.
"""

# mypy: ignore-errors
# (numba gives the types in these loops a stricter meaning than Python's)

from __future__ import annotations

import numpy as np

from lplab.formats.paths.numba_compile import compile_loop, use_wide_vectors

MAGNITUDE = np.int32(0x7FFFFFFF)
INFINITY = np.int32(0x7F800000)  # the pattern of infinity; those of NaN are above


@compile_loop
def is_finite(values):
    """Whether no value is NaN or infinite."""
    use_wide_vectors()
    largest = np.int32(0)
    for j in range(values.size):
        largest = np.int32(max(largest, np.int32(np.float32(values[j]).view(np.int32) & MAGNITUDE)))
    return largest < INFINITY


@compile_loop
def add_finite(residual, gradient, total):
    """Write r + g to ``total``; whether no sum is NaN or infinite."""
    use_wide_vectors()
    largest = np.int32(0)
    for j in range(gradient.size):
        value = np.float32(residual[j] + gradient[j])
        total[j] = value
        largest = np.int32(max(largest, np.int32(value.view(np.int32) & MAGNITUDE)))
    return largest < INFINITY


@compile_loop
def add_finite_in_place(residual, gradient):
    """Write r + g to g; whether no sum is NaN or infinite. In the loop above, aliases prevent vector instructions."""
    use_wide_vectors()
    largest = np.int32(0)
    for j in range(gradient.size):
        value = np.float32(residual[j] + gradient[j])
        gradient[j] = value
        largest = np.int32(max(largest, np.int32(value.view(np.int32) & MAGNITUDE)))
    return largest < INFINITY


@compile_loop
def take_sent(corrected, indices, sent):
    """Move the values at some indices to ``sent``; zeros remain."""
    for k in range(indices.size):
        sent[k] = corrected[indices[k]]
        corrected[indices[k]] = np.float32(0)


@compile_loop
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
            largest = np.int32(max(largest, np.int32(np.float32(total[j]).view(np.int32) & MAGNITUDE)))
        limit = np.int32(largest).view(np.float32)
        maxima[b] = limit
        if limit == np.float32(0):
            # Every element of the bin is sent.
            for j in range(g.size if zeros else 0):
                sign = total[j] if sign_of_g else np.float32(np.float32(extra * g[j]) + total[j])
                if count < capacity:
                    indices[count], negative[count] = first + j, sign < np.float32(0)
                count += 1
            continue
        for j in range(g.size):
            hits[j] = abs(np.float32(total[j] + np.float32(extra * g[j]))) >= limit
        hits[g.size :] = 0
        before = count
        for w in range(words.size):
            # Of most eights nothing is sent.
            if words[w] == 0:
                continue
            for j in range(8 * w, 8 * w + 8):
                if hits[j]:
                    sign = total[j] if sign_of_g else np.float32(total[j] + np.float32(extra * g[j]))
                    if sign != np.float32(0):
                        if count < capacity:
                            indices[count], negative[count] = first + j, sign < np.float32(0)
                        count += 1
        if always_one and count == before:
            j = 0
            while abs(total[j]) != limit:
                j += 1
            sign = total[j] if sign_of_g else np.float32(total[j] + np.float32(extra * g[j]))
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
