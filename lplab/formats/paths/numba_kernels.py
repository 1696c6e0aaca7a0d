"""The loops over memory that numba compiles: each calls functions of :mod:`lplab.formats.words` and has no rule itself.

Serial and without fast-math on purpose: results must not depend on contraction. :func:`share` cuts large arrays into
pieces for several threads. Each loop is compiled for one word, one function and its flags; numba keeps the machine code
on disk. Loops take addresses of contiguous memory.
"""

# mypy: ignore-errors
# ruff: noqa: F821
# (numba gives the types in these loops a stricter meaning than Python's; capital names, ``rule`` and the functions of
# words are given to ``compile_loop``)

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numba import carray, njit
from numba.np.unsafe.ndarray import to_fixed_tuple

from lplab.formats.paths import block_rounding
from lplab.formats.paths.array_kernels import MIN_ELEMENTS_TO_SHARE
from lplab.formats.paths.grid_rules import FLOAT_LAYOUTS, BlockRule, Rule, scale_constants
from lplab.formats.paths.numba_compile import compile_loop, pointer, use_wide_vectors, words_for
from lplab.formats.rounding import MIN_FRACTION
from lplab.formats.rounding_spec import BlockSpec

int32, float32 = np.int32, np.float32
MAGNITUDE, INFINITY, ZERO = int32(0x7FFFFFFF), int32(0x7F800000), int32(0)
HARD = int32(128)  # stands for the exponent of a block that a loop does not round
BlockLoop = Callable[..., np.ndarray | None]
"""(addresses of float32 x and out, blocks, keys of the random bits) → the blocks that it cannot round, if any."""

PIECES_PER_THREAD = 6  # more pieces cost more calls; with fewer, threads wait longer for the last one
PIECE = 2**12  # numbers: pieces begin at multiples of so many
_pools: dict[int, Any] = {}


def bound(loop: Callable, rule: Rule, real: str = "float32", **names: int) -> tuple[Callable, np.ndarray]:
    """A loop of this module compiled for a rule, and the constants whose address it takes.

    Args:
        loop: the loop.
        rule: what rounds.
        real: "float32" or "float64".
        names: more names for the loop: numbers that the compiler knows.
    """
    flat = [part for constant in rule.constants for part in (constant if isinstance(constant, tuple) else (constant,))]
    draw_constants = 32 - rule.random_bits, (1 << rule.random_bits) - 1
    table = np.array([*flat, *draw_constants], FLOAT_LAYOUTS[real].integer)
    more = {"COUNT": len(flat), "DRAWS": rule.random_bits > 0, **names}
    return _compiled(loop, rule.word, rule.flags, real, tuple(more.items())), table


@cache
def _compiled(loop: Callable, word: str, flags: tuple, real: str, names: tuple) -> Callable:
    layout, functions = FLOAT_LAYOUTS[real], words_for(real, **dict(flags))
    function = functions[word]
    if word.startswith("general"):  # the one function that looks at the draws
        rule = function
    elif word == "compared":
        rule = njit(lambda bits, draw, *c: function(bits, c[0], c[1:]), forceinline=True)
    else:
        rule = njit(lambda bits, draw, *more: function(bits, *more), forceinline=True)
    I, F = np.dtype(layout.integer).type, np.dtype(real).type  # noqa: E741
    given = {**functions, "rule": rule, "I": I, "F": F, "LEAST": I(layout.pattern(MIN_FRACTION)), **dict(names)}
    decided = [real, word, *(str(value) if name == "CODE" else name for name, value in flags if value)]
    return compile_loop(loop, given, ".".join([*decided, *(f"{name}{int(value)}" for name, value in names)]))


def rounding_loop(rule: Rule, real: str, step: bool) -> Callable[..., None]:
    """The loop that rounds number by number, with its constants bound.

    Args:
        rule: what rounds.
        real: "float32" or "float64".
        step: whether numbers are divided by a scale before and multiplied by it afterwards.

    Returns:
        A function of the addresses of x and out, the number of elements, the scale, the number of the first element and
        the keys of the random bits. x and out are disjoint.
    """
    loop, table = bound(_round, rule, real, STEP=step)
    address, size = table.ctypes.data, np.dtype(real).itemsize

    def call(x: int, out: int, count: int, scale: float = 1.0, first: int = 0, keys: tuple[int, int] = (0, 0)) -> None:
        def piece(start: int, stop: int) -> None:
            loop(x + size * start, out + size * start, stop - start, scale, first + start, *keys, address)

        share(piece, count)

    call.table = table  # keeps the address valid
    return call


def _round(x_address, out_address, count, scale, first, key_1, key_2, constants):
    use_wide_vectors()
    x, out = carray(pointer(x_address), count, I), carray(pointer(out_address), count, I)
    table = carray(pointer(constants), COUNT + 2, I)
    c, shift, mask = to_fixed_tuple(table, COUNT), int32(table[COUNT]), int32(table[COUNT + 1])
    key_1, key_2, step = int32(key_1), int32(key_2), as_bits(F(scale))
    for i in range(count):
        draw = random_bits(int32(first + i), key_1, key_2, shift, mask) if DRAWS else ZERO
        if STEP:
            out[i] = multiplied(rule(divided(x[i], step, LEAST), draw, *c), step)
        else:
            out[i] = rule(x[i], draw, *c)


def power_of_two_blocks_loop(spec: BlockSpec, block: BlockRule) -> BlockLoop:
    """The loops for blocks with power-of-two scales (MX), with their constants bound."""
    round_blocks, table = bound(_round_shifted_blocks, block.element, SIZE=spec.size)
    find_exponents, address, size = exponent_loop(), table.ctypes.data, spec.size
    rule = *scale_constants(spec, FLOAT_LAYOUTS["float32"]), block.least, block.most

    def call(x: int, out: int, blocks: int, keys: tuple[int, int] = (0, 0)) -> np.ndarray | None:
        exponents, hard = np.empty(blocks, int32), []
        shifts = exponents.ctypes.data

        def piece(start: int, stop: int) -> None:
            at, count, shift = 4 * size * start, stop - start, shifts + 4 * start
            if find_exponents(x + at, shift, count, size, *rule):
                hard.append(start)
            round_blocks(x + at, out + at, count, shift, size * start, *keys, address)

        share(piece, blocks, size)
        return np.flatnonzero(exponents == HARD) if hard else None

    call.table = table  # keeps the address valid
    return call


def rounded_scale_blocks_loop(spec: BlockSpec, block: BlockRule) -> BlockLoop:
    """The loops for blocks with rounded scales under one scale of the tensor (NVFP4), with their constants bound."""
    round_blocks, table = bound(_round_scaled_blocks, block.element, SIZE=spec.size)
    round_scales, scale_table = bound(_round_scales, block.scale)
    find_largest, address, scale_address = largest_loop(), table.ctypes.data, scale_table.ctypes.data
    size, of_scales = spec.size, block_rounding.scale_patterns(spec)
    top = of_scales[0]

    def call(x: int, out: int, blocks: int, keys: tuple[int, int] = (0, 0)) -> None:
        scratch, tops = np.empty((3, blocks), int32), []
        largest = scratch.ctypes.data
        scales, factors = largest + 4 * blocks, largest + 8 * blocks

        def find(start: int, stop: int) -> None:
            tops.append(find_largest(x + 4 * size * start, largest + 4 * start, stop - start, size))

        share(find, blocks, size)
        amax = max(tops) if spec.tensor_scale else 0

        def piece(start: int, stop: int) -> None:
            at, of_blocks, count = 4 * size * start, 4 * start, stop - start
            s, f = scales + of_blocks, factors + of_blocks
            round_scales(largest + of_blocks, s, f, count, amax, *of_scales, scale_address)
            round_blocks(x + at, out + at, count, f, s, amax, top, size * start, *keys, address)

        share(piece, blocks, size)

    call.table = table, scale_table  # keeps the addresses valid
    return call


def _round_shifted_blocks(x_address, out_address, blocks, exponents_at, first, key_1, key_2, constants):
    """Round SIZE numbers to the grid that is 2 to the power of an exponent as large, for each block."""
    use_wide_vectors()
    x, out = carray(pointer(x_address), (blocks, SIZE), I), carray(pointer(out_address), (blocks, SIZE), I)
    exponents, table = carray(pointer(exponents_at), blocks, I), carray(pointer(constants), COUNT + 2, I)
    c, shift, mask = to_fixed_tuple(table, COUNT), table[COUNT], table[COUNT + 1]
    key_1, key_2 = int32(key_1), int32(key_2)
    for b in range(blocks):
        exponent = exponents[b]
        for j in range(SIZE):
            draw = random_bits(int32(first + b * SIZE + j), key_1, key_2, shift, mask) if DRAWS else ZERO
            out[b, j] = rule(x[b, j], draw, exponent, *c)


def _round_scaled_blocks(
    x_address, out_address, blocks, factors_at, scales_at, amax, top, first, key_1, key_2, constants
):
    """Round SIZE numbers times a factor, then multiply by the scale of the block and by that of the tensor."""
    use_wide_vectors()
    x, out = carray(pointer(x_address), (blocks, SIZE), I), carray(pointer(out_address), (blocks, SIZE), I)
    factors, scales = carray(pointer(factors_at), blocks, I), carray(pointer(scales_at), blocks, I)
    table = carray(pointer(constants), COUNT + 2, I)
    c, shift, mask = to_fixed_tuple(table, COUNT), table[COUNT], table[COUNT + 1]
    key_1, key_2, last = int32(key_1), int32(key_2), tensor_scales(int32(amax), int32(top))[1]
    for b in range(blocks):
        factor, scale = factors[b], scales[b]
        for j in range(SIZE):
            draw = random_bits(int32(first + b * SIZE + j), key_1, key_2, shift, mask) if DRAWS else ZERO
            scaled = visible(multiplied(x[b, j], factor), x[b, j], LEAST)  # the product may underflow
            out[b, j] = multiplied(multiplied(rule(scaled, draw, *c), scale), last)


def _round_scales(largest_at, scales_at, factors_at, blocks, amax, top, inverse, highest, constants):
    """The rounded scales of blocks and what their numbers are multiplied with, from their largest magnitudes."""
    largest, scales = carray(pointer(largest_at), blocks, I), carray(pointer(scales_at), blocks, I)
    factors, c = carray(pointer(factors_at), blocks, I), to_fixed_tuple(carray(pointer(constants), COUNT, I), COUNT)
    encode, decode = tensor_scales(int32(amax), int32(top))
    per_element, highest = multiplied(encode, int32(inverse)), int32(highest)
    for b in range(blocks):
        scale = rule(scale_target(largest[b], per_element, highest), ZERO, *c)
        scales[b] = scale
        factors[b] = block_factor(largest[b], scale, decode)


@cache
def largest_loop() -> Callable:
    """The loop that finds the pattern of the largest magnitude in each block; NaN exceeds infinity.

    It takes the addresses of float32 patterns and of results (int32 [blocks]), the number of blocks and their size. It
    returns the largest finite pattern. The size is an argument, not a constant: LLVM would unroll a short loop of known
    length and not vectorize it.
    """

    def loop(x_address, largest_address, blocks, size):
        x = carray(pointer(x_address), (blocks, size), int32)
        largest = carray(pointer(largest_address), blocks, int32)
        finite = ZERO
        for b in range(blocks):
            top = ZERO
            for j in range(size):
                top = int32(max(top, int32(x[b, j] & MAGNITUDE)))
            largest[b] = top
            if top < INFINITY:
                finite = int32(max(finite, top))
        return finite

    return compile_loop(loop)


@cache
def exponent_loop() -> Callable:
    """The loop that finds the exponent of each block's power-of-two scale.

    It takes the addresses of float32 patterns and of results (int32 [blocks]), the number of blocks, their size, the
    three constants of :func:`lplab.formats.words.block_exponent`, and two bounds. A block with NaN or infinity gets
    HARD, and so does one whose exponent lies outside these bounds; the loop returns whether there is one.
    """

    def loop(x_address, exponent_address, blocks, size, add, limit, element_exponent, least, most):
        x = carray(pointer(x_address), (blocks, size), int32)
        exponents = carray(pointer(exponent_address), blocks, int32)
        add, limit, element_exponent = int32(add), int32(limit), int32(element_exponent)
        any_is_hard = False
        for b in range(blocks):
            top = ZERO
            for j in range(size):
                top = int32(max(top, int32(x[b, j] & MAGNITUDE)))
            exponent = block_exponent(top, add, limit, element_exponent)
            is_hard = top >= INFINITY or exponent < least or exponent > most
            if top == ZERO:  # the scale of zeros does not matter
                exponent, is_hard = ZERO, False
            exponents[b] = HARD if is_hard else exponent
            any_is_hard = any_is_hard or is_hard
        return any_is_hard

    return compile_loop(loop, {"block_exponent": words_for("float32")["block_exponent"]})


@cache
def two_powers_loop() -> Callable:
    """The loop that rounds the same numbers to powers twice, and finds their largest magnitude on the way.

    It takes the addresses of float32 patterns and of both results, how many there are, and for each result the
    constants of :func:`lplab.formats.words.power`. It returns the largest magnitude, NaN where a number is NaN.
    """

    def loop(x_address, a_address, b_address, count, a, b):
        use_wide_vectors()
        x, for_a = carray(pointer(x_address), count, int32), carray(pointer(a_address), count, int32)
        for_b = carray(pointer(b_address), count, int32)
        a_least, a_top, a_lead, a_mask = int32(a[0]), int32(a[1]), int32(a[2]), int32(a[3])
        b_least, b_top, b_lead, b_mask = int32(b[0]), int32(b[1]), int32(b[2]), int32(b[3])
        a_zero, b_zero = int32(a[4]), int32(b[4])
        largest = ZERO
        for i in range(count):
            largest = int32(maximum(largest, int32(x[i] & MAGNITUDE)))
            for_a[i] = power(x[i], a_least, a_top, a_lead, a_mask, a_zero)
            for_b[i] = power(x[i], b_least, b_top, b_lead, b_mask, b_zero)
        return largest

    compiled = compile_loop(loop, {name: words_for("float32")[name] for name in ("power", "maximum")})

    def call(x: int, for_a: int, for_b: int, count: int, a: tuple[int, ...], b: tuple[int, ...]) -> float:
        largest: list[int] = []  # of each piece, as patterns: that of NaN exceeds that of infinity

        def piece(start: int, stop: int) -> None:
            at = 4 * start
            largest.append(compiled(x + at, for_a + at, for_b + at, stop - start, a, b))

        share(piece, count)
        return float(int32(max(largest)).view(float32))

    return call


def table_loop(low_bits: np.uint32, cuts: np.ndarray, results: np.ndarray) -> Callable[..., None]:
    """The loop that looks results up, see :func:`lplab.formats.paths.table_rules.lookup_arguments`, bound to them.

    It takes the addresses of x and out and the number of elements; more arguments are ignored.
    """
    look_up = _lookup_loop()

    def call(x: int, out: int, count: int, *more: object) -> None:
        def piece(start: int, stop: int) -> None:
            look_up(x + 4 * start, out + 4 * start, stop - start, low_bits, cuts, results)

        share(piece, count)

    return call


@cache
def _lookup_loop() -> Callable:
    """The loop that looks results up by the upper bits of a float32 pattern; the lower bits decide between two.

    It takes the addresses of the patterns and of the results, and how many there are.
    """
    U = np.uint32  # unsigned: an index needs no check for being negative

    def loop(x_address, out_address, count, low_bits, cuts, results):
        x, out = carray(pointer(x_address), count, int32), carray(pointer(out_address), count, int32)
        mask = U(U(U(1) << low_bits) - U(1))
        for i in range(count):
            bits = U(x[i])
            bucket = U(bits >> low_bits)
            past = U(bits & mask) >= cuts[bucket]
            out[i] = results[U(U(bucket << U(1)) + U(past))]

    return compile_loop(loop)


# ---- threads ---------------------------------------------------------------------------------------------------------

# numba's parallel loops are not used: their OpenMP layer changes torch's thread count, and it kills forked children
# that use it. A Python thread pool does not survive a fork either, so a forked child drops it and makes a new one when
# needed. Compiled loops release the GIL while they run.


def default_threads() -> int:
    """torch's thread count if torch is loaded; else ``OMP_NUM_THREADS``, or the processors this process may use."""
    torch_threads = getattr(sys.modules.get("torch"), "get_num_threads", None)  # missing while torch is being imported
    if torch_threads is not None:
        return int(torch_threads())
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def parallel_for(work: Callable[[int, int], Any], count: int, threads: int, min_piece: int = 1) -> None:
    """Call ``work(first, last)`` for consecutive pieces of 0 … count, on several threads; wait for all.

    Each thread takes the next piece when it has finished one. So another program on its processor, or torch's own
    threads, which spin for milliseconds after their work, delay one piece and not half of the work.

    Args:
        work: a function that releases the GIL.
        count: number of items.
        threads: number of threads, the calling one included.
        min_piece: items in a piece at least, unless there would be fewer pieces than threads.

    >>> done = []
    >>> parallel_for(lambda first, last: done.append((first, last)), 10, 3, min_piece=4)
    >>> sorted(done)
    [(0, 3), (3, 6), (6, 10)]
    """
    threads = min(threads, count)
    if threads < 2:
        work(0, count)
        return
    pieces = max(threads, min(PIECES_PER_THREAD * threads, count // min_piece))
    cuts = [count * i // pieces for i in range(pieces + 1)]
    waiting = deque(pairwise(cuts))

    def take_pieces() -> None:
        while waiting:
            try:
                piece = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            work(*piece)

    others = [_pool(threads).submit(take_pieces) for _ in range(threads - 1)]
    take_pieces()
    for other in others:
        if not other.cancel():  # one that has not begun has nothing left to do
            other.result()


def share(work: Callable[[int, int], Any], count: int, unit: int = 1) -> None:
    """Call ``work(first, last)`` for consecutive pieces of ``count`` items: on one thread, or as many as torch has.

    Pieces begin at multiples of ``PIECE`` numbers, and threads share only what is worth it.

    Args:
        work: a function that releases the GIL.
        count: how many items there are.
        unit: how many numbers an item has.
    """
    if count * unit < MIN_ELEMENTS_TO_SHARE or (threads := default_threads()) < 2:
        work(0, count)
        return
    size = max(1, PIECE // unit)
    pieces, least = -(-count // size), MIN_ELEMENTS_TO_SHARE // 4 // (size * unit)
    parallel_for(lambda first, last: work(size * first, min(size * last, count)), pieces, threads, max(1, least))


def _pool(threads: int) -> Any:
    if threads not in _pools:
        from concurrent.futures import ThreadPoolExecutor  # slow to import; most processes need none

        _pools[threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="lplab")
    return _pools[threads]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # the threads exist in the parent only
