"""Kernels that know memory and nothing of numbers: they load, call word functions, and store.

Triton compiles them. The names that are not defined here, those of word functions and of flags, come from
:func:`lplab.formats.gpu.compiler.namespace`.
"""

# mypy: ignore-errors
# ruff: noqa: F821
# (Triton gives the types in these functions a stricter meaning than Python's)

import triton.language as tl


def load_bits(address, inside):
    """The patterns of numbers of any float type, in the word of the kernel; 0 outside."""
    return as_bits(tl.load(address, mask=inside, other=0.0).to(REAL))


def store_bits(address, bits, inside):
    """Store the numbers with these patterns in the float type of the memory; in half precision they were float32."""
    real = as_real(bits)
    if address.dtype.element_ty != tl.float64:
        real = real.to(tl.float32)
    tl.store(address, real.to(address.dtype.element_ty), mask=inside)


def applied(bits, draw, c):
    """Round patterns by the word function WORD, whose constants lie at the address ``c``; "" leaves them alone."""
    if WORD == "nearest":
        result = nearest(
            bits, tl.load(c), tl.load(c + 1), tl.load(c + 2), tl.load(c + 3), tl.load(c + 4), tl.load(c + 5),
            tl.load(c + 6), tl.load(c + 7),
        )  # fmt: skip
    elif WORD == "general":
        result = general(
            bits, draw, tl.load(c), tl.load(c + 1), tl.load(c + 2), tl.load(c + 3), tl.load(c + 4), tl.load(c + 5),
            tl.load(c + 6), tl.load(c + 7), tl.load(c + 8), tl.load(c + 9), tl.load(c + 10), tl.load(c + 11),
            tl.load(c + 12), tl.load(c + 13), tl.load(c + 14), tl.load(c + 15),
        )  # fmt: skip
    elif WORD == "evenly_spaced":
        result = evenly_spaced(bits, tl.load(c), tl.load(c + 1), tl.load(c + 2))
    elif WORD == "nearest_sum":
        result = nearest_sum(
            bits, tl.load(c), tl.load(c + 1), tl.load(c + 2), tl.load(c + 3), tl.load(c + 4), tl.load(c + 5),
            tl.load(c + 6), tl.load(c + 7), tl.load(c + 8),
        )  # fmt: skip
    elif WORD == "":
        result = bits
    elif WORD == "power":
        result = power(bits, tl.load(c), tl.load(c + 1), tl.load(c + 2), tl.load(c + 3), tl.load(c + 4))
    elif WORD == "compared":
        steps = (
            tl.load(c + 1), tl.load(c + 2), tl.load(c + 3), tl.load(c + 4), tl.load(c + 5), tl.load(c + 6),
            tl.load(c + 7), tl.load(c + 8), tl.load(c + 9), tl.load(c + 10), tl.load(c + 11), tl.load(c + 12),
            tl.load(c + 13), tl.load(c + 14), tl.load(c + 15), tl.load(c + 16),
        )  # fmt: skip
        result = compared(bits, tl.load(c), steps)
    else:  # "lookup": the upper bits find an entry, a threshold for the lower bits and the results on both sides of it
        entry = c + 3 * ((bits >> LOW_BITS) & ((1 << (32 - LOW_BITS)) - 1))
        is_past = (bits & ((1 << LOW_BITS) - 1)) >= tl.load(entry)
        result = where(is_past, tl.load(entry + 2), tl.load(entry + 1))
    return result


def rounded_number(number, draw, c):
    """Round as :func:`applied`, for numbers instead of patterns."""
    return as_real(applied(as_bits(number), draw, c))


def rounded(bits, c, number, key_1, key_2):
    """Round as :func:`applied`; AFTER its constants lie those of shells, and each number draws a random integer."""
    draw = bits
    if DRAWS:
        shift, mask = tl.load(c + AFTER + 2).to(tl.int32), tl.load(c + AFTER + 3).to(tl.int32)
        draw = random_bits(number, key_1, key_2, shift, mask)
    return applied(bits, draw, c)


def in_steps(bits, c, number, key_1, key_2):
    """Round as :func:`rounded`; where STEP is set, after a division by the step and before the product with it."""
    result = bits
    if STEP:
        result = divided(result, tl.load(c + AFTER), tl.load(c + AFTER + 1))
    result = rounded(result, c, number, key_1, key_2)
    if STEP:
        result = multiplied(result, tl.load(c + AFTER))
    return result


def elementwise(x, out, count, constants, first, key_1, key_2, BLOCK: tl.constexpr):
    """Round ``count`` contiguous numbers; element i is number ``first + i`` of its stretch of random bits."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    store_bits(out + at, in_steps(load_bits(x + at, inside), constants, at + first, key_1, key_2), inside)


def two_roundings(x, first, second, count, constants, more_constants, largest, BLOCK: tl.constexpr):
    """Round numbers in two ways, and raise the pattern at ``largest`` to that of their largest magnitude."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    bits = load_bits(x + at, inside)
    store_bits(first + at, applied(bits, bits, constants), inside)
    store_bits(second + at, applied_again(bits, bits, more_constants), inside)
    tl.atomic_max(largest, tl.max(bits & MAGNITUDE, 0))


def encoded(x, out, count, constants, codes, unknown, first, key_1, key_2, BLOCK: tl.constexpr):
    """Store the codes of rounded numbers, which stand at the address ``codes`` under the upper bits of float32.

    What the function WORD gives is a code already where CODES is not set. Numbers without a code, −1, are counted.
    """
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    code = rounded(load_bits(x + at, inside), constants, at + first, key_1, key_2)
    if CODES:
        value = as_real(code).to(tl.float32).to(tl.int32, bitcast=True)
        code = tl.load(codes + ((value >> DROPPED) & ((1 << (32 - DROPPED)) - 1)))
    if COUNTS_UNKNOWN:
        tl.atomic_add(unknown, tl.sum(where((code < 0) & inside, 1, 0), 0))
    tl.store(out + at, code.to(out.dtype.element_ty), mask=inside)


def decoded(codes, out, count, values, BLOCK: tl.constexpr):
    """Store the values of codes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    code = tl.load(codes + at, mask=inside, other=0).to(tl.int32)
    tl.store(out + at, tl.load(values + code), mask=inside)


def block_addresses(blocks, length, inner, per_row, BLOCKS: tl.constexpr, WIDTH: tl.constexpr):
    """Where the numbers of this program's blocks lie in [outer, length, inner]; their numbers; which of them exist.

    Neighbouring blocks are neighbours along ``inner``. Random bits are numbered row by row, as if the last block of
    each row were whole.
    """
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)[:, None]
    j = tl.arange(0, WIDTH)[None, :]
    lane, place, outer = block % inner, (block // inner) % per_row, block // inner // per_row
    column = place * SIZE + j
    inside = (block < blocks) & (j < SIZE) & (column < length)
    number = ((outer * inner + lane) * per_row + place) * SIZE + j
    return (outer.to(tl.int64) * length + column) * inner + lane, number, inside


def power_of_two_blocks(
    x, out, blocks, length, inner, per_row, constants, scale_constants, key_1, key_2,
    BLOCKS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Round blocks under power-of-two scales: find the largest magnitude of each, its scale, then round."""
    at, number, inside = block_addresses(blocks, length, inner, per_row, BLOCKS, WIDTH)
    bits = load_bits(x + at, inside)
    largest = tl.max(bits & MAGNITUDE, 1, keep_dims=True)
    exponent = wide_block_exponent(
        wide_as_bits(as_real(largest).to(tl.float64)),
        tl.load(scale_constants), tl.load(scale_constants + 1), tl.load(scale_constants + 2),
    )  # fmt: skip
    down = as_bits(wide_as_real((-exponent + 1023) << 52).to(REAL))
    up = as_bits(wide_as_real((exponent + 1023) << 52).to(REAL))
    if tl.float32 == REAL:
        scaled = visible(multiplied(bits, down), bits, tl.load(constants + AFTER + 1))
    else:
        scaled = multiplied(visible(bits, bits, MIN_NORMAL), down)
    result = multiplied(rounded(scaled, constants, number, key_1, key_2), up)
    store_bits(out + at, where(largest < INFINITY, result, NAN), inside)


def largest_of_blocks(x, largest, blocks, length, inner, per_row, BLOCKS: tl.constexpr, WIDTH: tl.constexpr):
    """Store the pattern of the largest magnitude of all blocks that are finite; the memory starts at 0."""
    at, _, inside = block_addresses(blocks, length, inner, per_row, BLOCKS, WIDTH)
    of_blocks = tl.max(load_bits(x + at, inside) & MAGNITUDE, 1)
    tl.atomic_max(largest, tl.max(where(of_blocks < INFINITY, of_blocks, 0), 0))


def rounded_scale_blocks(
    x, out, blocks, length, inner, per_row, constants, scale_constants, tensor_scales, key_1, key_2,
    BLOCKS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Round blocks whose scales are rounded under one scale of the tensor."""
    at, number, inside = block_addresses(blocks, length, inner, per_row, BLOCKS, WIDTH)
    bits = load_bits(x + at, inside)
    largest = tl.max(bits & MAGNITUDE, 1, keep_dims=True)
    per_element, decode = tl.load(tensor_scales), tl.load(tensor_scales + 1)
    target = scale_target(largest, per_element, tl.load(scale_constants + SCALE_AFTER))
    scale = rounded_as_scale(target, scale_constants, number, key_1, key_2)
    factor = block_factor(largest, scale, decode)
    scaled = visible(multiplied(bits, factor), bits, tl.load(constants + AFTER + 1))
    result = multiplied(multiplied(rounded(scaled, constants, number, key_1, key_2), scale), decode)
    store_bits(out + at, result, inside)
