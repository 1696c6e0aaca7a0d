"""Choose a compiled loop for a product or sum: the word (float32 or float64), the rounding code, the block width."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lplab.arithmetic import rng_streams, threads
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
from lplab.formats.paths.array_kernels import FLOAT_LAYOUTS
from lplab.formats.paths.kernel_selection import available
from lplab.formats.rounding_spec import Grid

MIN_OPERATIONS_BEFORE_LOADING = 2**8  # fewer array operations than this cost less than loading a loop
MIN_PARALLEL_WORK = 2**17  # multiplications from which on a second thread pays
MIN_WIDE_COLUMNS = 64  # with fewer columns, the product is transposed if it has more rows than columns
# Measured cost of a column by block width: for rounding codes "…_alone", and for those that check range and zero.
_SIMPLE_ROUNDING_COST = {256: 1.0, 128: 1.1, 96: 1.15, 64: 1.3, 32: 1.9}
_FULL_ROUNDING_COST = {128: 1.0, 96: 1.0, 64: 1.03, 32: 1.1}
FLOAT32_MODES = ("nearest_even", "nearest_away")  # the common modes; only these have float32 loops
_loaded: set[Any] = set()  # loops that this process has loaded; only speed depends on it


@dataclass(frozen=True)
class KernelPlan:
    """A loop: the word, the rounding codes (``numba_rounding.CODES``), whether to recover errors of additions."""

    real: str
    inner: str
    outer: str  # "" for none
    product: str  # "" for none
    exact_sums: bool


@lru_cache(maxsize=1024)
def plan_kernel(products: BitRange, accumulator: Accumulator, length: int) -> KernelPlan | None:
    """The fastest loop whose result equals the exact sum rounded once; None if there is none.

    >>> plan_kernel(BitRange(8, -26, 10), Accumulator("dlfloat16"), 512)
    KernelPlan(real='float32', inner='nearest_even_alone', outer='', product='', exact_sums=False)
    >>> plan_kernel(BitRange(48, -40, 4), Accumulator("dlfloat16"), 512)
    KernelPlan(real='float64', inner='nearest_even', outer='', product='', exact_sums=True)
    """
    return _in_word("float32", products, accumulator, length) or _in_word("float64", products, accumulator, length)


def _in_word(real: str, products: BitRange, accumulator: Accumulator, length: int) -> KernelPlan | None:
    plain = accumulator.rounding.mode in FLOAT32_MODES  # other modes: one loop, float64 with exact sums
    if not products_are_exact(products, real) or (real == "float32" and not plain):
        return None
    rounding, chunk = accumulator.rounding, accumulator.chunk
    stages = [("inner", accumulator.format, chunk or length)]  # what is rounded to what, after how many additions
    if chunk:
        stages.append(("outer", accumulator.outer_format, -(-length // chunk)))
    if not accumulator.fma:
        stages.insert(0, ("product", accumulator.product_format, 1))
    codes, harmless, summands = dict.fromkeys(("inner", "outer", "product"), ""), plain, products
    for stage, fmt, additions in stages:
        codes[stage] = _code(fmt, summands, rounding, additions, real, often=stage == "inner")
        if not codes[stage]:
            return None
        totals = range_of_sums(summands, fmt.rounding_spec, rounding, additions)
        if stage != "product":
            harmless = harmless and rounding_once_is_exact(summands, totals, fmt.rounding_spec, rounding, real)
        summands = totals
    return KernelPlan(real, codes["inner"], codes["outer"], codes["product"], not harmless)


def _code(fmt: Format, summands: BitRange, rounding: Rounding, additions: int, real: str, often: bool = True) -> str:
    """The code of ``numba_rounding.CODES`` by which a loop rounds to a format; "" if it cannot.

    The codes "…_alone" (no range checks) are for roundings that happen ``often``. Elsewhere they would gain little, and
    every combination of codes is one more loop to compile.
    """
    grid, word = fmt.rounding_spec, FLOAT_LAYOUTS[real]
    if not isinstance(grid, Grid) or grid.step != 1 or grid.lowest == 0:
        return ""  # loops round magnitudes: a negative sum in a format without a sign would become −0
    totals = range_of_sums(summands, grid, rounding, additions)
    largest = max(totals.high, summands.high) + 1
    pushes = (
        0 < grid.mantissa_bits < word.fraction_bits - 1 and largest + WORD_BITS[real] - grid.mantissa_bits <= word.bias
    )
    scaled = array_kernels.rounding_strategy(grid, word) == "scaled"
    serves = scaled and max(grid.highest, -grid.lowest) < 2.0 ** (word.bias - 1)
    if rounding.mode in FLOAT32_MODES and pushes and (often or not serves) and no_overflow_or_underflow(totals, grid):
        return f"{rounding.mode}_alone"
    if not serves or (grid.overflow == "propagate" and rounding.mode in FLOAT32_MODES):
        return ""  # the loops of these modes treat infinity as any number that is too large
    if grid.mantissa_bits == 0 and rounding.mode in (*FLOAT32_MODES, "to_odd"):
        return f"{rounding.mode}_without_mantissa"
    return rounding.code if pushes or rounding.mode not in FLOAT32_MODES else ""


def matmul(a: Any, b: Any, accumulator: Accumulator, seed: int, thread_count: int) -> np.ndarray | None:
    """[batch, rows, length] times [batch, length, columns], as float32 or float64; None where no loop serves.

    The operands are float32 or float64 arrays with any strides.
    """
    batch, rows, length = a.shape
    columns = b.shape[2]
    work = batch * rows * columns * length
    if not available() or work == 0:
        return None
    ranges = measure_bit_range(a), measure_bit_range(b)
    plan = plan_kernel(ranges[0].times(ranges[1]), accumulator, length)
    if plan is None or not _worth_it(plan, length * (1 + batch * rows * columns // 2**10)):
        return None
    a, b = (widened(x, known) for x, known in zip((a, b), ranges, strict=True))
    swap = columns < MIN_WIDE_COLUMNS and rows > columns
    steps = [rows * columns, columns, 1]
    if swap:
        a, b, steps = b.transpose(0, 2, 1), a.transpose(0, 2, 1), [steps[0], 1, columns]
    used_threads = thread_count if work >= MIN_PARALLEL_WORK else 1
    result = _run(plan, a, b, accumulator, seed, np.array(steps, np.uint32), used_threads)
    return result.transpose(0, 2, 1) if swap else result


def widened(x: np.ndarray, known: BitRange) -> np.ndarray:
    """X; float32 with subnormal numbers as float64, where they are normal and survive flush-to-zero mode."""
    return array_kernels.widen(np, np.ascontiguousarray(x)) if x.dtype == np.float32 and known.low < -126 else x


def kahan_sum(x: np.ndarray, fmt: Format, rounding: Rounding, seed: int) -> np.ndarray | None:
    """Kahan's sum of float64 [length, sums] over the first axis; None where no loop serves."""
    length = x.shape[0]
    code = _code(fmt, bit_range_of(x), rounding, length, "float64", often=False)
    if not available() or x.size == 0 or not code or not _worth_it(("kahan", code), 4 * length):
        return None
    from lplab.arithmetic import numba_kernels, numba_rounding

    keys = [rng_streams.NO_KEYS] * rng_streams.STREAMS
    if rounding.is_stochastic:
        keys = [rng_streams.keys(seed, stream, length) for stream in range(rng_streams.STREAMS)]
    loop = numba_kernels.kahan_loop(numba_rounding.MODES[code])
    total = np.zeros(x.shape[1])
    loop(np.ascontiguousarray(x), total, _constants(code, fmt, rounding, "float64"), *keys)
    return total


def _worth_it(plan: Any, operations: int) -> bool:
    if plan not in _loaded:
        if operations < MIN_OPERATIONS_BEFORE_LOADING:
            return False
        _loaded.add(plan)
    return True


def _run(
    plan: KernelPlan, a: np.ndarray, b: np.ndarray, accumulator: Accumulator, seed: int, steps: np.ndarray, count: int
) -> np.ndarray:
    from lplab.arithmetic import numba_kernels, numba_rounding

    batch, rows, length = a.shape
    columns = b.shape[2]
    group = numba_kernels.ROWS if rows > 1 else 1
    width = _width(columns, _SIMPLE_ROUNDING_COST if plan.inner.endswith("_alone") else _FULL_ROUNDING_COST)
    left, right = _rows_of(a, group, plan.real), _blocks_of(b, width or columns, plan.real)
    out = np.empty((batch, left.shape[1], right.shape[1] * right.shape[3]), plan.real)
    codes = (plan.inner, plan.outer, plan.product)
    modes = [numba_rounding.MODES[code] if code else -1 for code in codes]
    loop = numba_kernels.matmul_loop(plan.real, *modes, plan.exact_sums, group, width)
    chunk = accumulator.chunk or length
    formats = (accumulator.format, accumulator.outer_format, accumulator.product_format)
    constants = [
        _constants(code, fmt, accumulator.rounding, plan.real) for code, fmt in zip(codes, formats, strict=True)
    ]
    keys = _keys(accumulator, seed, length)

    def work(first: int, last: int) -> None:
        loop(left, right, out, first, last, chunk, *constants, *keys, steps)

    min_piece = -(-MIN_PARALLEL_WORK // (group * columns * length))
    threads.parallel_for(work, batch * (left.shape[1] // group), count, min_piece)
    return out[:, :rows, :columns]


@lru_cache(maxsize=256)
def _constants(code: str, fmt: Format, rounding: Rounding, real: str) -> tuple[Any, ...]:
    from lplab.arithmetic import numba_rounding

    grid = fmt.rounding_spec
    if not code or code.endswith("_alone"):  # mantissa_bits suffices; other fields may not fit
        grid = Grid(grid.mantissa_bits if isinstance(grid, Grid) and code else 1, 0, 1.0, -1.0)
    assert isinstance(grid, Grid)  # ensured by _code()
    return numba_rounding.constants(array_kernels.constants(grid, rounding, real), rounding.random_bits, real)


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
    from lplab.arithmetic.numba_kernels import aligned_zeros

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
    from lplab.arithmetic import numba_kernels

    distinct = x[tuple(slice(0, 1) if step == 0 else slice(None) for step in x.strides)]  # without broadcast copies
    in_memory = distinct.transpose(sorted(range(x.ndim), key=lambda axis: -abs(distinct.strides[axis])))
    flat = np.ascontiguousarray(in_memory).reshape(-1).view(np.int32)
    bits, low, high, finite = numba_kernels.bit_range_loop()(flat)
    return BitRange(int(bits), int(low), int(high), bool(finite))
