"""Kernels that know memory and nothing of numbers: they load, call word functions, and store.

Triton compiles them. The names that are not defined here, those of word functions, come from
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
    """Store the numbers with these patterns in the float type of the memory."""
    tl.store(address, as_real(bits).to(address.dtype.element_ty), mask=inside)


def rule(bits, c, number, key_1, key_2):
    """Round patterns by the word function that RULE names; ``c`` is the address of its constants."""
    if RULE == "nearest":
        result = nearest(
            bits, tl.load(c), tl.load(c + 1), tl.load(c + 2), tl.load(c + 3), tl.load(c + 7), tl.load(c + 9),
            tl.load(c + 13), tl.load(c + 14),
        )  # fmt: skip
    elif RULE == "general":
        draw = bits
        if IS_STOCHASTIC:
            draw = random_bits(number, key_1, key_2, tl.load(c + 16).to(tl.int32), tl.load(c + 17).to(tl.int32))
        result = general(
            bits, draw, tl.load(c), tl.load(c + 1), tl.load(c + 2), tl.load(c + 3), tl.load(c + 4), tl.load(c + 5),
            tl.load(c + 6), tl.load(c + 7), tl.load(c + 8), tl.load(c + 9), tl.load(c + 10), tl.load(c + 11),
            tl.load(c + 12), tl.load(c + 13), tl.load(c + 14), tl.load(c + 15),
        )  # fmt: skip
    return result


def elementwise(x, out, count, constants, first, key_1, key_2, BLOCK: tl.constexpr):
    """Round ``count`` contiguous numbers; element i is number ``first + i`` of its stretch of random bits."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    store_bits(out + at, rule(load_bits(x + at, inside), constants, at + first, key_1, key_2), inside)


KERNELS = ("load_bits", "store_bits", "rule", "elementwise")
