"""The kernel of AdaComp's bins, which Triton compiles; it knows memory alone.

What is asked of an element stands in :mod:`lplab.compression.adacomp_words`. The names that are not defined here come
from :mod:`lplab.compression.gpu_selection`.
"""

# mypy: ignore-errors
# ruff: noqa: F821
# (Triton gives the types in these functions a stricter meaning than Python's)

import triton.language as tl


def select(residual, gradient, new, maxima, sent, count, bins, bin, extra, BINS: tl.constexpr, WIDTH: tl.constexpr):
    """Store the sums of whole bins, their largest magnitudes, and which elements are sent: 1 or 0."""
    b, j = tl.program_id(0) * BINS + tl.arange(0, BINS)[:, None], tl.arange(0, WIDTH)[None, :]
    at = b.to(tl.int64) * bin + j
    inside = (j < bin) & (at < count)
    old, values = tl.load(residual + at, mask=inside, other=0.0), tl.load(gradient + at, mask=inside, other=0.0)
    total = old + values
    limit = as_real(tl.max(as_bits(total) & MAGNITUDE, 1, keep_dims=True))  # NaN exceeds infinity
    chosen = is_sent(total, boosted(total, values, extra), limit) & inside
    if ALWAYS_ONE:
        first = tl.min(where((abs(total) == limit) & inside, j, WIDTH), 1, keep_dims=True)
        is_silent = tl.sum(chosen.to(tl.int32), 1, keep_dims=True) == 0
        chosen = chosen | (is_silent & (limit > 0) & (j == first))
    tl.store(new + at, total, mask=inside)
    tl.store(sent + at, chosen.to(tl.int8), mask=inside)
    tl.store(maxima + b, limit, mask=b < bins)
