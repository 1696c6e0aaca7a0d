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
        code = code_of(code, codes)
    if COUNTS_UNKNOWN:
        tl.atomic_add(unknown, tl.sum(where((code < 0) & inside, 1, 0), 0))
    tl.store(out + at, code.to(out.dtype.element_ty), mask=inside)


def decoded(codes, out, count, values, BLOCK: tl.constexpr):
    """Store the values of codes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    code = tl.load(codes + at, mask=inside, other=0).to(tl.int32)
    tl.store(out + at, tl.load(values + code), mask=inside)


def block_places(groups, inner, per_row, BLOCKS: tl.constexpr, WIDTH: tl.constexpr):
    """Where the numbers of this program's blocks lie: outer, column and lane, their numbers, and which of them exist.

    A group is one block, or PARTS blocks whose numbers are transformed together. Neighbouring groups are neighbours
    along ``inner``. Random bits are numbered row by row, as if the last group of each row were whole.
    """
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)[:, None]
    j = tl.arange(0, WIDTH)[None, :]
    group = block // PARTS
    lane, place, outer = group % inner, (group // inner) % per_row, group // inner // per_row
    column = (place * PARTS + block % PARTS) * SIZE + j
    number = (outer * inner + lane) * (per_row * PARTS * SIZE) + column
    return outer, column, lane, number, (group < groups) & (j < SIZE)


def block_addresses(outer, column, lane, length, inner):
    """Addresses in [outer, length, inner]."""
    return (outer.to(tl.int64) * length + column) * inner + lane


def scale_places(groups, BLOCKS: tl.constexpr):
    """The numbers of this program's blocks, where they are not transformed, and which of them exist."""
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)[:, None]
    return block, block < groups


def load_blocks(x, signs, outer, column, lane, exists, length, inner):
    """The patterns of blocks in [outer, length, inner], transformed where ROUNDS is set; zeros fill up rows."""
    at, inside = block_addresses(outer, column, lane, length, inner), exists & (column < length)
    if ROUNDS == 0:
        bits = load_bits(x + at, inside)
    else:
        numbers = tl.load(x + at, mask=inside, other=0.0)
        numbers = numbers.to(tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32)
        rows = tl.reshape(numbers, (numbers.shape[0] * numbers.shape[1] // (1 << ROUNDS), 1 << ROUNDS))
        rows = hadamard(rows * tl.load(signs + tl.arange(0, 1 << ROUNDS))[None, :].to(rows.dtype), FACTOR)
        numbers = tl.reshape(rows, numbers.shape).to(x.dtype.element_ty)
        bits = as_bits(numbers.to(REAL))
    return bits


def power_of_two_elements(bits, number, constants, scale_constants, key_1, key_2):
    """Blocks rounded under power-of-two scales: the rounded elements, exponents of scales, largest magnitudes.

    Numbers are multiplied by PRE_SCALE once the scales are found.
    """
    largest = tl.max(bits & MAGNITUDE, 1, keep_dims=True)
    exponent = wide_block_exponent(
        wide_as_bits(as_real(largest).to(tl.float64)),
        tl.load(scale_constants), tl.load(scale_constants + 1), tl.load(scale_constants + 2),
    )  # fmt: skip
    down = as_bits(wide_as_real((-exponent + 1023) << 52).to(REAL))
    smaller = bits
    if PRE_SCALE != 1:
        smaller = as_bits(as_real(bits) * PRE_SCALE)
    if tl.float32 == REAL:
        scaled = visible(multiplied(smaller, down), smaller, tl.load(constants + AFTER + 1))
    else:
        scaled = multiplied(visible(smaller, smaller, MIN_NORMAL), down)
    return rounded(scaled, constants, number, key_1, key_2), exponent, largest


def power_of_two_blocks(
    x, out, signs, groups, length, longer, inner, per_row, constants, scale_constants, key_1, key_2,
    BLOCKS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Round blocks under power-of-two scales: find the largest magnitude of each, its scale, then round.

    Rows of ``length`` numbers are transformed to ``longer`` ones where ROUNDS is set; else both are the same.
    """
    outer, column, lane, number, exists = block_places(groups, inner, per_row, BLOCKS, WIDTH)
    bits = load_blocks(x, signs, outer, column, lane, exists, length, inner)
    element, exponent, largest = power_of_two_elements(bits, number, constants, scale_constants, key_1, key_2)
    result = multiplied(element, as_bits(wide_as_real((exponent + 1023) << 52).to(REAL)))
    if PRE_SCALE != 1:
        result = as_bits(divide(as_real(result), PRE_SCALE))
    at = block_addresses(outer, column, lane, longer, inner)
    store_bits(out + at, where(largest < INFINITY, result, NAN), exists & (column < longer))


def largest_of_blocks(x, largest, signs, groups, length, inner, per_row, BLOCKS: tl.constexpr, WIDTH: tl.constexpr):
    """Store the pattern of the largest magnitude of all blocks that are finite; the memory starts at 0."""
    outer, column, lane, _, exists = block_places(groups, inner, per_row, BLOCKS, WIDTH)
    of_blocks = tl.max(load_blocks(x, signs, outer, column, lane, exists, length, inner) & MAGNITUDE, 1)
    tl.atomic_max(largest, tl.max(where(of_blocks < INFINITY, of_blocks, 0), 0))


def rounded_scale_elements(bits, number, constants, scale_constants, amax, key_1, key_2):
    """Blocks rounded under rounded scales: the rounded elements, both scales, largest magnitudes.

    ``amax`` is the address of the largest finite magnitude of the tensor.
    """
    largest = tl.max(bits & MAGNITUDE, 1, keep_dims=True)
    of_scales = scale_constants + SCALE_AFTER
    encode, decode = tensor_scales(tl.load(amax), tl.load(of_scales))
    per_element = multiplied(encode, tl.load(of_scales + 1))
    target = scale_target(largest, per_element, tl.load(of_scales + 2))
    scale = rounded_as_scale(target, scale_constants, number, key_1, key_2)
    factor = block_factor(largest, scale, decode)
    scaled = visible(multiplied(bits, factor), bits, tl.load(constants + AFTER + 1))
    return rounded(scaled, constants, number, key_1, key_2), scale, decode, largest


def rounded_scale_blocks(
    x, out, signs, groups, length, longer, inner, per_row, constants, scale_constants, amax, key_1, key_2,
    BLOCKS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Round blocks whose scales are rounded under one scale of the tensor; else as :func:`power_of_two_blocks`."""
    outer, column, lane, number, exists = block_places(groups, inner, per_row, BLOCKS, WIDTH)
    bits = load_blocks(x, signs, outer, column, lane, exists, length, inner)
    element, scale, decode, _ = rounded_scale_elements(bits, number, constants, scale_constants, amax, key_1, key_2)
    at = block_addresses(outer, column, lane, longer, inner)
    store_bits(out + at, multiplied(multiplied(element, scale), decode), exists & (column < longer))


def code_of(value, codes):
    """The codes of rounded numbers: they stand at the address ``codes`` under the upper bits of float32."""
    bits = as_real(value).to(tl.float32).to(tl.int32, bitcast=True)
    return tl.load(codes + ((bits >> DROPPED) & ((1 << (32 - DROPPED)) - 1)))


def encoded_power_of_two_blocks(
    x, elements, scales, signs, groups, length, inner, per_row, constants, scale_constants, codes, scale_codes,
    key_1, key_2, BLOCKS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Store the codes of elements, and those of scales, which stand at ``scale_codes`` by exponent + 127, NaN last."""
    outer, column, lane, number, exists = block_places(groups, inner, per_row, BLOCKS, WIDTH)
    bits = load_blocks(x, signs, outer, column, lane, exists, length, inner)
    element, exponent, largest = power_of_two_elements(bits, number, constants, scale_constants, key_1, key_2)
    code = code_of(where(largest < INFINITY, element, 0), codes)
    at = block_addresses(outer, column, lane, length, inner)
    tl.store(elements + at, code.to(elements.dtype.element_ty), mask=exists & (column < length))
    code = tl.load(scale_codes + where(largest < INFINITY, exponent + 127, 255))
    block, is_block = scale_places(groups, BLOCKS)
    tl.store(scales + block, code.to(scales.dtype.element_ty), mask=is_block)


def encoded_rounded_scale_blocks(
    x, elements, scales, signs, groups, length, inner, per_row, constants, scale_constants, codes, scale_codes, amax,
    bad, key_1, key_2, BLOCKS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Store the codes of elements and of scales, and count at ``bad`` the blocks with NaN or infinity."""
    outer, column, lane, number, exists = block_places(groups, inner, per_row, BLOCKS, WIDTH)
    bits = load_blocks(x, signs, outer, column, lane, exists, length, inner)
    element, scale, _, largest = rounded_scale_elements(bits, number, constants, scale_constants, amax, key_1, key_2)
    code = code_of(where(largest < INFINITY, element, 0), codes)
    at = block_addresses(outer, column, lane, length, inner)
    tl.store(elements + at, code.to(elements.dtype.element_ty), mask=exists & (column < length))
    code = code_of_scale(where(largest < INFINITY, scale, NAN), scale_codes)
    block, is_block = scale_places(groups, BLOCKS)
    tl.store(scales + block, code.to(scales.dtype.element_ty), mask=is_block)
    tl.atomic_add(bad, tl.sum(tl.sum(where((largest < INFINITY) | (block >= groups), 0, 1), 0), 0))


def decoded_blocks(
    elements, scales, out, groups, length, inner, per_row, values, scale_values, tensor_scale,
    BLOCKS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Store the float64 values of codes. Where RESCALES is set, the tensor's scale is a factor of a float32 product."""
    outer, column, lane, _, exists = block_places(groups, inner, per_row, BLOCKS, WIDTH)
    at, inside = block_addresses(outer, column, lane, length, inner), exists & (column < length)
    code = tl.load(elements + at, mask=inside, other=0).to(tl.int32)
    block, is_block = scale_places(groups, BLOCKS)
    scale_code = tl.load(scales + block, mask=is_block, other=0).to(tl.int32)
    value = tl.load(values + code) * tl.load(scale_values + scale_code)
    if RESCALES:
        value = (value.to(tl.float32) * tl.load(tensor_scale)).to(tl.float64)
    tl.store(out + at, value, mask=inside)
