"""Compiled loops of the selection: few passes over memory, the same bits as :mod:`lplab.compression.selection`.

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
    """Write r + g to ``total``; whether no g is NaN or infinite."""
    use_wide_vectors()
    largest = np.int32(0)
    for j in range(gradient.size):
        total[j] = np.float32(residual[j] + gradient[j])
        largest = np.int32(max(largest, np.int32(np.float32(gradient[j]).view(np.int32) & MAGNITUDE)))
    return largest < INFINITY


@compile_loop
def add_finite_in_place(residual, gradient):
    """Write r + g to g; whether no g was NaN or infinite. In the loop above, aliases prevent vector instructions."""
    use_wide_vectors()
    largest = np.int32(0)
    for j in range(gradient.size):
        value = np.float32(gradient[j])
        gradient[j] = np.float32(residual[j] + value)
        largest = np.int32(max(largest, np.int32(value.view(np.int32) & MAGNITUDE)))
    return largest < INFINITY


@compile_loop
def take_sent(corrected, indices, sent):
    """Move the values at some indices to ``sent``; zeros remain."""
    for k in range(indices.size):
        sent[k] = corrected[indices[k]]
        corrected[indices[k]] = np.float32(0)


@compile_loop
def maxima_of_sums(residual, gradient, bin, maxima):
    """max |r + g| of each bin."""
    use_wide_vectors()
    for b in range(maxima.size):
        first, last = b * bin, min((b + 1) * bin, gradient.size)
        largest = np.int32(0)
        for j in range(first, last):
            pattern = np.float32(residual[j] + gradient[j]).view(np.int32) & MAGNITUDE
            largest = np.int32(max(largest, np.int32(pattern)))
        maxima[b] = np.int32(largest).view(np.float32)


@compile_loop
def select(residual, gradient, extra, scale, maxima, bin, sign_of_g, always_one, zeros, new, indices, negative):
    """Write the new residual, and indices and signs as far as their arrays reach; return how many elements are sent."""
    use_wide_vectors()
    count, capacity = 0, indices.size
    for b in range(maxima.size):
        first, last = b * bin, min((b + 1) * bin, gradient.size)
        limit = maxima[b]
        hits = 0
        for j in range(first, last):  # without branches: vector instructions
            total = np.float32(residual[j] + gradient[j])
            new[j] = total
            hits += abs(np.float32(total + np.float32(extra * gradient[j]))) >= limit
        if limit == np.float32(0):
            for j in range(first, last if zeros else first):  # every element of the bin is sent
                sign = new[j] if sign_of_g else np.float32(np.float32(extra * gradient[j]) + new[j])
                if count < capacity:
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
                    if count < capacity:
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
            if count < capacity:
                indices[count], negative[count] = j, sign < np.float32(0)
            new[j] = np.float32(total + scale) if sign < np.float32(0) else np.float32(total - scale)
            count += 1
    return count
