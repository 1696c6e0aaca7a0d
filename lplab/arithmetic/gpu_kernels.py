"""The kernel of products with rounded sums, which Triton compiles; it knows memory alone.

What is done with a number stands in :mod:`lplab.arithmetic.accumulation`. The names that are not defined here come from
:func:`lplab.arithmetic.gpu_sums.names_for`.
"""

# mypy: ignore-errors
# ruff: noqa: F821
# (Triton gives the types in these functions a stricter meaning than Python's)

import triton.language as tl


def draw_of(element, keys, step, shift, mask):
    """The random integers of elements at a step; ``keys`` is the address of int32 [steps, 2]."""
    return random_bits(element, tl.load(keys + 2 * step), tl.load(keys + 2 * step + 1), shift, mask)


def products(
    a, b, out, rows, columns, length, chunk, inner, outer, product, inner_keys, outer_keys, product_keys, shift, mask,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A tile of [batch, length, rows], transposed, times [batch, length, columns], added up one after the other."""
    batch = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    left, right = a + batch * length * rows + row, b + batch * length * columns + column
    place = row[:, None].to(tl.int64) * columns + column[None, :] + batch * rows * columns
    element = place.to(tl.int32)
    draw, product_draw = element, element
    nothing = tl.zeros((ROWS, COLUMNS), REAL)
    part, total = nothing, nothing
    for start in range(0, length, chunk):
        for k in range(start, minimum(start + chunk, length)):
            x = tl.load(left, mask=row < rows, other=0.0).to(REAL)[:, None]
            y = tl.load(right, mask=column < columns, other=0.0).to(REAL)[None, :]
            left += rows
            right += columns
            if DRAWS:
                draw = draw_of(element, inner_keys, k, shift, mask)
                if ROUNDS_PRODUCTS:
                    product_draw = draw_of(element, product_keys, k, shift, mask)
            part = accumulate(part, x, y, draw, inner, product_draw, product)
        if IN_CHUNKS:
            if DRAWS:
                draw = draw_of(element, outer_keys, start // chunk, shift, mask)
            total = collect(total, part, draw, outer)
            part = nothing
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    tl.store(out + place, total if IN_CHUNKS else part, mask=inside)
