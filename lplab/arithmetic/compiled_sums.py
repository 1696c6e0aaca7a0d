"""Choose a compiled loop for a product or sum: float32 or float64, how sums are rounded, the width of a block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lplab.arithmetic import rng_streams
from lplab.arithmetic.accumulator import Accumulator
from lplab.arithmetic.exactness import (
    WORD_BITS,
    BitRange,
    bit_range_of,
    no_overflow_or_underflow,
    products_are_exact,
    range_of_sums,
    rounding_once_is_exact,
)
from lplab.formats import Format, Rounding
from lplab.formats.paths import array_kernels
from lplab.formats.paths.grid_rules import FLOAT_LAYOUTS, Rule, grid_rule, rounding_strategy, sum_rule
from lplab.formats.paths.kernel_selection import available
from lplab.formats.rounding_spec import Grid

MIN_OPERATIONS_BEFORE_LOADING = 2**8  # fewer array operations than this cost less than loading a loop
MIN_PARALLEL_WORK = 2**17  # multiplications from which on a second thread pays
MIN_WIDE_COLUMNS = 64  # with fewer columns, the product is transposed if it has more rows than columns
# Measured cost of a column by block width: for sums in range, and for those that are checked.
_SIMPLE_ROUNDING_COST = {256: 1.0, 128: 1.1, 96: 1.15, 64: 1.3, 32: 1.9}
_FULL_ROUNDING_COST = {128: 1.0, 96: 1.0, 64: 1.03, 32: 1.1}
FLOAT32_MODES = ("nearest_even", "nearest_away")  # the common modes; only these have float32 loops
_loaded: set[Any] = set()  # loops that this process has loaded; only speed depends on it


@dataclass(frozen=True)
class LoopPlan:
    """How a loop computes a product.

    Attributes:
        real: "float32" or "float64", in which sums are formed.
        inner: how sums are rounded.
        outer: how sums over chunks are rounded; None where there are none.
        product: how products are rounded; None where they are exact.
        exact_sums: whether to recover the errors of additions.
    """

    real: str
    inner: Rule
    outer: Rule | None
    product: Rule | None
    exact_sums: bool

    @property
    def sums_in_range(self) -> bool:
        """Whether no sum has to be checked for its range."""
        return ("IN_RANGE", True) in self.inner.flags

    @property
    def loop(self) -> tuple:
        """The first arguments of :func:`lplab.arithmetic.sum_loops.matmul_loop`."""
        words = (rule and _word_of(rule) for rule in (self.inner, self.outer, self.product))
        return self.real, *words, self.exact_sums


@lru_cache(maxsize=1024)
def plan_loop(products: BitRange, accumulator: Accumulator, length: int) -> LoopPlan | None:
    """The fastest loop whose result equals the exact sum rounded once; None if there is none.

    >>> plan = plan_loop(BitRange(8, -26, 10), Accumulator("dlfloat16"), 512)
    >>> plan.real, plan.sums_in_range, plan.exact_sums
    ('float32', True, False)
    >>> plan = plan_loop(BitRange(48, -40, 4), Accumulator("dlfloat16"), 512)
    >>> plan.real, plan.sums_in_range, plan.exact_sums
    ('float64', False, True)
    """
    return _in_word("float32", products, accumulator, length) or _in_word("float64", products, accumulator, length)


def _in_word(real: str, products: BitRange, accumulator: Accumulator, length: int) -> LoopPlan | None:
    plain = accumulator.rounding.mode in FLOAT32_MODES  # other modes: one loop, float64 with exact sums
    if not products_are_exact(products, real) or (real == "float32" and not plain):
        return None
    rounding, chunk = accumulator.rounding, accumulator.chunk
    stages = [("inner", accumulator.format, chunk or length)]  # what is rounded to what, after how many additions
    if chunk:
        stages.append(("outer", accumulator.outer_format, -(-length // chunk)))
    if not accumulator.fma:
        stages.insert(0, ("product", accumulator.product_format, 1))
    rules: dict[str, Rule | None] = dict.fromkeys(("inner", "outer", "product"))
    harmless, summands = plain, products
    for stage, fmt, additions in stages:
        rules[stage] = _rule(fmt, summands, rounding, additions, real, often=stage == "inner")
        if rules[stage] is None:
            return None
        totals = range_of_sums(summands, fmt.rounding_spec, rounding, additions)
        if stage != "product":
            harmless = harmless and rounding_once_is_exact(summands, totals, fmt.rounding_spec, rounding, real)
        summands = totals
    assert rules["inner"] is not None
    return LoopPlan(real, rules["inner"], rules["outer"], rules["product"], not harmless)


def _rule(
    fmt: Format, summands: BitRange, rounding: Rounding, additions: int, real: str, often: bool = True
) -> Rule | None:
    """How a loop rounds to a format; None if it cannot.

    Sums in range are told apart where roundings happen ``often``. Elsewhere it would gain little, and every combination
    of words is one more loop to compile.
    """
    grid, word, nearest = fmt.rounding_spec, FLOAT_LAYOUTS[real], rounding.mode in FLOAT32_MODES
    if not isinstance(grid, Grid) or grid.step != 1 or grid.lowest == 0:
        return None  # loops round magnitudes: a negative sum in a format without a sign would become −0
    totals = range_of_sums(summands, grid, rounding, additions)
    largest = max(totals.high, summands.high) + 1
    pushes = (
        0 < grid.mantissa_bits < word.fraction_bits - 1 and largest + WORD_BITS[real] - grid.mantissa_bits <= word.bias
    )
    scaled = rounding_strategy(grid, word) == "scaled"
    serves = scaled and max(grid.highest, -grid.lowest) < 2.0 ** (word.bias - 1)
    if nearest and pushes and (often or not serves) and no_overflow_or_underflow(totals, grid):
        return sum_rule(grid, rounding, real, in_range=True)
    if not serves:
        return None
    rule = grid_rule(grid, rounding, real)
    if nearest and pushes and rule is not None and rule.word != "evenly_spaced":
        return sum_rule(grid, rounding, real, in_range=False) or rule
    return rule


def _word_of(rule: Rule) -> tuple[str, tuple]:
    """The function that a loop inlines, with the flags without which it would be wrong: fewer loops to compile."""
    return rule.word, tuple(
        (flag, value) for flag, value in rule.flags if flag in ("CODE", "AWAY", "IN_RANGE", "NO_MANTISSA")
    )


def matmul(a: Any, b: Any, accumulator: Accumulator, seed: int, threads: int | None) -> np.ndarray | None:
    """[batch, rows, length] times [batch, length, columns], as float32 or float64; None where no loop serves.

    The operands are float32 or float64 arrays with any strides. ``threads`` is None for as many as torch has.
    """
    batch, rows, length = a.shape
    columns = b.shape[2]
    work = batch * rows * columns * length
    if not available() or work == 0:
        return None
    ranges = measure_bit_range(a), measure_bit_range(b)
    plan = plan_loop(ranges[0].times(ranges[1]), accumulator, length)
    if plan is None or not _worth_it(plan.loop, length * (1 + batch * rows * columns // 2**10)):
        return None
    a, b = (widened(x, known) for x, known in zip((a, b), ranges, strict=True))
    swap = columns < MIN_WIDE_COLUMNS and rows > columns
    steps = [rows * columns, columns, 1]
    if swap:
        a, b, steps = b.transpose(0, 2, 1), a.transpose(0, 2, 1), [steps[0], 1, columns]
    if work < MIN_PARALLEL_WORK:
        threads = 1
    result = _run(plan, a, b, accumulator, seed, np.array(steps).astype(np.int32), threads)
    return result.transpose(0, 2, 1) if swap else result


def widened(x: np.ndarray, known: BitRange) -> np.ndarray:
    """X; float32 with subnormal numbers as float64, where they are normal and survive flush-to-zero mode."""
    return array_kernels.widen(np, np.ascontiguousarray(x)) if x.dtype == np.float32 and known.low < -126 else x


def kahan_sum(x: np.ndarray, fmt: Format, rounding: Rounding, seed: int) -> np.ndarray | None:
    """Kahan's sum of float64 [length, sums] over the first axis; None where no loop serves."""
    length = x.shape[0]
    rule = _rule(fmt, bit_range_of(x), rounding, length, "float64", often=False)
    if not available() or x.size == 0 or rule is None or not _worth_it(("kahan", _word_of(rule)), 4 * length):
        return None
    from lplab.arithmetic import sum_loops

    keys = np.zeros((rng_streams.STREAMS, 0, 2), np.int32)
    if rounding.is_stochastic:
        keys = np.stack([rng_streams.keys(seed, stream, length) for stream in range(rng_streams.STREAMS)])
    total = np.zeros(x.shape[1])
    constants = _constants(rule, "float64")
    sum_loops.kahan_loop(_word_of(rule))(np.ascontiguousarray(x), total, constants, keys, *_shift_and_mask(rounding))
    return total


def _worth_it(loop: Any, operations: int) -> bool:
    if loop not in _loaded:
        if operations < MIN_OPERATIONS_BEFORE_LOADING:
            return False
        _loaded.add(loop)
    return True


def _run(
    plan: LoopPlan,
    a: np.ndarray,
    b: np.ndarray,
    accumulator: Accumulator,
    seed: int,
    steps: np.ndarray,
    threads: int | None,
) -> np.ndarray:
    from lplab.arithmetic import sum_loops
    from lplab.formats.paths import numba_kernels

    batch, rows, length = a.shape
    columns = b.shape[2]
    group = sum_loops.ROWS if rows > 1 else 1
    width = _width(columns, _SIMPLE_ROUNDING_COST if plan.sums_in_range else _FULL_ROUNDING_COST)
    left, right = _rows_of(a, group, plan.real), _blocks_of(b, width or columns, plan.real)
    out = np.empty((batch, left.shape[1], right.shape[1] * right.shape[3]), plan.real)
    loop = sum_loops.matmul_loop(*plan.loop, group, width)
    chunk = accumulator.chunk or length
    constants = [_constants(rule or plan.inner, plan.real) for rule in (plan.inner, plan.outer, plan.product)]
    keys = _keys(accumulator, seed, length)
    draws = _shift_and_mask(accumulator.rounding)

    def work(first: int, last: int) -> None:
        loop(left, right, out, first, last, chunk, *constants, *keys, steps, *draws)

    min_piece = -(-MIN_PARALLEL_WORK // (group * columns * length))
    if threads is None:
        threads = numba_kernels.default_threads()
    numba_kernels.parallel_for(work, batch * (left.shape[1] // group), threads, min_piece)
    return out[:, :rows, :columns]


@lru_cache(maxsize=256)
def _constants(rule: Rule, real: str) -> tuple[Any, ...]:
    return tuple(map(getattr(np, FLOAT_LAYOUTS[real].integer), rule.constants))


def _shift_and_mask(rounding: Rounding) -> tuple[np.int32, np.int32]:
    """What :func:`lplab.formats.words.random_bits` needs to know of the number of random bits."""
    return np.int32(32 - rounding.random_bits), np.int32((1 << rounding.random_bits) - 1)


def _keys(accumulator: Accumulator, seed: int, length: int) -> list[np.ndarray]:
    if not accumulator.rounding.is_stochastic:
        return [rng_streams.NO_KEYS] * 3
    chunks = -(-length // accumulator.chunk) if accumulator.chunk else 0
    products = 0 if accumulator.fma else length
    counts = ((rng_streams.ADDITION, length), (rng_streams.TOTAL, chunks), (rng_streams.PRODUCT, products))
    return [rng_streams.keys(seed, stream, count) for stream, count in counts]


def _width(columns: int, cost: dict[int, float]) -> int:
    """The block width with the least cost, padding columns included; 0 where there are few columns."""
    return 0 if columns < min(cost) - 8 else min(cost, key=lambda width: -(-columns // width) * width * cost[width])


def _rows_of(a: np.ndarray, group: int, real: str) -> np.ndarray:
    """The left operand, contiguous, padded with rows of zeros to a multiple of ``group``."""
    batch, rows, length = a.shape
    if rows % group == 0:
        return np.ascontiguousarray(a, real)
    padded = np.zeros((batch, rows + -rows % group, length), real)
    padded[:, :rows] = a
    return padded


def _blocks_of(b: np.ndarray, width: int, real: str) -> np.ndarray:
    """The right operand as [batch, blocks, length, width], the last block padded with columns of zeros."""
    from lplab.arithmetic.sum_loops import aligned_zeros

    batch, length, columns = b.shape
    blocks = -(-columns // width)
    packed = aligned_zeros.py_func(batch * blocks * length, width, real).reshape(batch, blocks, length, width)
    for block in range(blocks):
        part = b[:, :, block * width : (block + 1) * width]
        packed[:, block, :, : part.shape[2]] = part
    return packed


def measure_bit_range(x: np.ndarray) -> BitRange:
    """The bit range of an array, measured in one pass."""
    if x.dtype == np.float64:
        return bit_range_of(np.ascontiguousarray(x))
    from lplab.arithmetic import sum_loops

    distinct = x[tuple(slice(0, 1) if step == 0 else slice(None) for step in x.strides)]  # without broadcast copies
    in_memory = distinct.transpose(sorted(range(x.ndim), key=lambda axis: -abs(distinct.strides[axis])))
    flat = np.ascontiguousarray(in_memory).reshape(-1).view(np.int32)
    bits, low, high, finite = sum_loops.bit_range_loop()(flat)
    return BitRange(int(bits), int(low), int(high), bool(finite))
