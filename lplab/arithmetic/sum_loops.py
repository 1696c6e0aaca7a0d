"""The loops over memory, compiled by numba: products and sums with every addition rounded, in one pass.

What is done with a number stands in :mod:`lplab.arithmetic.accumulation`. The loops are serial; a pool of threads
distributes the rows. A loop works on a block of columns at a time: their accumulators are neighbours in memory, so one
vector instruction rounds many of them. A product may be fused with the addition; where that could change a bit, the
loops are not used (:mod:`lplab.arithmetic.exactness`).
"""

# mypy: ignore-errors
# ruff: noqa: F821
# (numba types these loops more strictly than Python does, and takes some names from elsewhere)

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numba import njit

from lplab.arithmetic import accumulation
from lplab.formats import words
from lplab.formats.paths.numba_compile import (
    compile_loop,
    narrowed_words,
    use_wide_vectors,
    words_for,
    words_stamp,
)

LINE = 64  # bytes of a cache line, and of the widest vector
DEPTH = 256  # steps in k done for all rows before the next steps
ROWS = 2  # rows that use a block of columns while it is in the fastest cache
Word = tuple[str, tuple[tuple[str, object], ...]]
"""How a loop rounds: a function of :mod:`lplab.formats.words` and its flags."""


@njit(inline="always")
def aligned_zeros(rows, columns, real):
    """Zeros [rows, columns] aligned to a cache line; loading a vector that spans two lines takes twice the time."""
    raw = np.zeros(rows * columns + LINE // 4, real)
    first = (LINE - raw.ctypes.data % LINE) % LINE // raw.itemsize
    return raw[first : first + rows * columns].reshape((rows, columns))


def accumulation_for(real: str, rounding: Word, product: Word | None = None, exact_sums: bool = True) -> dict:
    """The functions of :mod:`lplab.arithmetic.accumulation` for numba to inline, by name.

    Args:
        real: "float32" or "float64".
        rounding, product: of sums, and of products if they are rounded; draws are integers, constants tuples of them.
        exact_sums: recover what additions in this word lose.
    """
    inlined = njit(forceinline=True, nogil=True, error_model="numpy", fastmath={"contract"})
    names = {
        **words_for(real),
        "rounded": _rounder(real, rounding),
        "round_product": _rounder(real, product or rounding),
        "TOP_BIT": 31 if real == "float32" else 63,
        "EXACT_SUMS": exact_sums,
        "ROUNDS_PRODUCTS": product is not None,
    }
    return words.bound(names, inlined, narrowed_words(accumulation))


def _rounder(real: str, word: Word) -> Callable:
    """(number, draw, constants) → the number rounded."""
    name, flags = word
    names = words_for(real, **dict(flags))
    function, as_real, as_bits = names[name], names["as_real"], names["as_bits"]
    inlined = njit(forceinline=True, nogil=True, error_model="numpy")
    if name == "general":
        return inlined(lambda number, draw, constants: as_real(function(as_bits(number), draw, *constants)))
    return inlined(lambda number, draw, constants: as_real(function(as_bits(number), *constants)))


def _draw_for(word: Word) -> Callable:
    """(number of the element, two keys, shift, mask) → the random integer of an element, 0 where none is needed."""
    if is_stochastic(word):
        return words_for("float32")["random_bits"]
    zero = np.int32(0)
    return njit(forceinline=True, nogil=True)(lambda element, key_1, key_2, shift, mask: zero)


def is_stochastic(word: Word) -> bool:
    """Whether a function of words needs draws."""
    return str(dict(word[1]).get("CODE")).startswith("stochastic")


def _label(*parts: object) -> str:
    """A name for what a loop was made of, with the text of the accumulation."""
    return f"{'.'.join(map(str, parts))}.{words_stamp(accumulation)}"


@cache
def matmul_loop(
    real: str, inner: Word, outer: Word | None, product: Word | None, exact_sums: bool, rows: int, width: int
) -> Callable:
    """The loop for matrix products.

    Args:
        real: "float32" or "float64".
        inner, outer, product: how sums, sums over chunks and products are rounded; None for no chunks, and for exact
            products.
        exact_sums: recover the rounding errors of additions in this word.
        rows: 1 or ``ROWS``.
        width: columns in a block, a compile-time constant: many independent sums hide the latency of one addition.
            0: few columns, their number is known at run time only.

    The loop takes a [batch, m, length] with m a multiple of ``rows``, b [batch, blocks, length, width] and out [batch,
    m, blocks · width], all of the same word, and works on the groups of ``rows`` rows first … last − 1, numbered
    across the batch. ``inner_c``, ``outer_c`` and ``product_c`` are the constants of the roundings. For stochastic
    rounding ``steps`` are the increments of an element's index with batch, row and column; keys are int32 [steps, 2].
    """
    F, I = np.dtype(real).type, np.int32  # noqa: E741
    stochastic, in_chunks, rounds_products = is_stochastic(inner), outer is not None, product is not None
    names = accumulation_for(real, inner, product, exact_sums)
    names = {
        "accumulate": names["accumulate"],
        "collect": accumulation_for(real, outer or inner, None, exact_sums)["add_rounded"],
        "draw": _draw_for(inner),
    }

    # fmt: off
    def loop(
        a, b, out, first, last, chunk, inner_c, outer_c, product_c, inner_keys, outer_keys, product_keys, steps, shift,
        mask,
    ):
        # fmt: on
        use_wide_vectors()
        groups, length = a.shape[1] // rows, a.shape[2]
        used = width if width else b.shape[3]
        height = min(last - first, groups) * rows
        part, total = aligned_zeros(height, used, F), aligned_zeros(height if in_chunks else 0, used, F)
        batch_step, row_step, column_step = I(steps[0]), I(steps[1]), I(steps[2])
        at = key_1 = key_2 = product_key_1 = product_key_2 = I(0)
        group = first
        while group < last:
            batch = group // groups
            stop = min(last, (batch + 1) * groups)
            top, bottom = (group - batch * groups) * rows, (stop - batch * groups) * rows
            for block in range(b.shape[1]):
                part[:] = F(0)
                total[:] = F(0)
                for near in range(0, length, DEPTH):  # this part of b stays in the cache for all rows
                    for row in range(top, bottom, rows):
                        number = near // chunk
                        end = min((number + 1) * chunk, length)
                        for k in range(near, min(near + DEPTH, length)):
                            if stochastic:
                                key_1, key_2 = inner_keys[k, 0], inner_keys[k, 1]
                                if rounds_products:
                                    product_key_1, product_key_2 = product_keys[k, 0], product_keys[k, 1]
                            for r in range(rows):
                                x, sums, terms = a[batch, row + r, k], part[row - top + r], b[batch, block, k]
                                if stochastic:
                                    at = I(batch * batch_step + (row + r) * row_step + block * used * column_step)
                                for j in range(used):
                                    element = I(at + I(I(j) * column_step))
                                    drawn = draw(element, key_1, key_2, shift, mask)
                                    for_product = draw(element, product_key_1, product_key_2, shift, mask)
                                    sums[j] = accumulate(sums[j], x, terms[j], drawn, inner_c, for_product, product_c)
                            if in_chunks and k + 1 == end:
                                if stochastic:
                                    key_1, key_2 = outer_keys[number, 0], outer_keys[number, 1]
                                for r in range(rows):
                                    sums, totals = part[row - top + r], total[row - top + r]
                                    if stochastic:
                                        at = I(batch * batch_step + (row + r) * row_step + block * used * column_step)
                                    for j in range(used):
                                        drawn = draw(I(at + I(I(j) * column_step)), key_1, key_2, shift, mask)
                                        totals[j] = collect(totals[j], sums[j], drawn, outer_c)
                                        sums[j] = F(0)
                                number += 1
                                end = min(end + chunk, length)
                for row in range(top, bottom):
                    for j in range(used):
                        out[batch, row, block * used + j] = total[row - top, j] if in_chunks else part[row - top, j]
            group = stop

    label = _label("matmul", real, inner, outer, product, exact_sums)
    return compile_loop(loop, names, label, fastmath={"contract"})


@cache
def kahan_loop(word: Word) -> Callable:
    """The loop for Kahan's sum of float64 [length, sums] over the first axis into ``total``, which starts at zero."""
    stochastic = is_stochastic(word)
    names = {"compensate": accumulation_for("float64", word)["compensate"], "draw": _draw_for(word)}

    def loop(x, total, constants, keys, shift, mask):
        use_wide_vectors()
        lost = np.zeros(total.size)
        a = b = c = d = np.zeros(2, np.int32)
        for k in range(x.shape[0]):
            if stochastic:
                a, b, c, d = keys[0, k], keys[1, k], keys[2, k], keys[3, k]
            for j in range(total.size):
                draw_a, draw_b = draw(j, a[0], a[1], shift, mask), draw(j, b[0], b[1], shift, mask)
                draw_c, draw_d = draw(j, c[0], c[1], shift, mask), draw(j, d[0], d[1], shift, mask)
                total[j], lost[j] = compensate(total[j], lost[j], x[k, j], draw_a, draw_b, draw_c, draw_d, constants)

    return compile_loop(loop, names, _label("kahan", word), fastmath={"contract"})


@cache
def bit_range_loop() -> Callable:
    """The loop that computes a :class:`~lplab.arithmetic.exactness.BitRange` from float32 bit patterns."""
    I, MAGNITUDE, INFINITY = np.int32, np.int32(0x7FFFFFFF), np.int32(0x7F800000)  # noqa: E741
    words = accumulation_for("float32", ("nearest_sum", ()))
    names = {name: words[name] for name in ("last_bit", "minimum", "maximum")}

    def loop(x):
        use_wide_vectors()
        fewest, least, most, largest = I(24), I(1000), I(-1000), I(0)
        for i in range(x.size):
            magnitude = I(x[i] & MAGNITUDE)
            largest = I(maximum(largest, magnitude))
            exponent, zeros = last_bit(magnitude)
            counts = I(magnitude - I(1)) >= I(0) and magnitude < INFINITY
            fewest = I(minimum(fewest, zeros if counts else I(24)))
            least = I(minimum(least, I(exponent + zeros) if counts else I(1000)))
            most = I(maximum(most, exponent if counts else I(-1000)))
        if fewest == I(24):
            return 1, 0, 0, largest < INFINITY
        return 24 - fewest, least - 23, most + 1, largest < INFINITY

    return compile_loop(loop, names, _label("bit_range"), fastmath={"contract"})
