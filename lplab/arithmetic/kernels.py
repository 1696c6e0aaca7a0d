"""Which compiled loop serves which sum: the word to compute in, how much rounding there is to do, how to lay out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lplab.arithmetic import streams, threads
from lplab.arithmetic.accumulator import Accumulator
from lplab.arithmetic.exactness import (
    WORD_BITS,
    Span,
    addition_is_harmless,
    nothing_special_happens,
    products_are_exact,
    span_of,
    sums,
)
from lplab.formats import Format, Rounding, arrays
from lplab.formats.arrays import WORDS
from lplab.formats.kernels import available
from lplab.formats.plan import Grid

FEW = 2**8  # array operations that cost less than loading a loop
SHARED = 2**17  # multiplications that are worth a second thread
NARROW = 64  # with fewer columns than this, rows and columns change places if there are more rows
QUICK = {256: 1.0, 128: 1.1, 96: 1.15, 64: 1.3, 32: 1.9}  # cost of a column in blocks of so many, if rounding is quick
CAREFUL = {128: 1.0, 96: 1.0, 64: 1.03, 32: 1.1}  # the same where there is more to do; both measured
PLAIN = ("nearest_even", "nearest_away")  # the modes of machine learning, and their own loops
_loaded: set[Any] = set()  # loops that this process has used; only speed depends on it


@dataclass(frozen=True)
class Choice:
    """A loop: the word, the kinds of rounding (of ``rounders.CODES``), whether to recover what additions lose."""

    real: str
    inner: str
    outer: str  # "" for none
    product: str  # "" for none
    exact_sums: bool


@lru_cache(maxsize=1024)
def choose(products: Span, accumulator: Accumulator, length: int) -> Choice | None:
    """The fastest loop that gives the exact sum's bits; None if there is none.

    >>> choose(Span(8, -26, 10), Accumulator("dlfloat16"), 512)
    Choice(real='float32', inner='nearest_even_alone', outer='', product='', exact_sums=False)
    >>> choose(Span(48, -40, 4), Accumulator("dlfloat16"), 512)
    Choice(real='float64', inner='nearest_even', outer='', product='', exact_sums=True)
    """
    return _in_word("float32", products, accumulator, length) or _in_word("float64", products, accumulator, length)


def _in_word(real: str, products: Span, accumulator: Accumulator, length: int) -> Choice | None:
    plain = accumulator.rounding.mode in PLAIN  # other modes: float64 and all care, one loop for all operands
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
        totals = sums(summands, fmt.plan, rounding, additions)
        if stage != "product":
            harmless = harmless and addition_is_harmless(summands, totals, fmt.plan, rounding, real)
        summands = totals
    return Choice(real, codes["inner"], codes["outer"], codes["product"], not harmless)


def _code(fmt: Format, summands: Span, rounding: Rounding, additions: int, real: str, often: bool = True) -> str:
    """How a loop rounds to a format, of ``rounders.CODES``; "" if it cannot.

    What is done ``often`` gets a way of its own where rounding is all there is to do. The rest would gain little, and
    every combination is one more loop to compile.
    """
    grid, word = fmt.plan, WORDS[real]
    if not isinstance(grid, Grid) or grid.step != 1:
        return ""
    totals = sums(summands, grid, rounding, additions)
    largest = max(totals.most, summands.most) + 1
    pushes = (
        0 < grid.mantissa_bits < word.fraction_bits - 1 and largest + WORD_BITS[real] - grid.mantissa_bits <= word.bias
    )
    serves = arrays.kind_of(grid, word) == "scaled" and max(grid.highest, -grid.lowest) < 2.0 ** (word.bias - 1)
    if rounding.mode in PLAIN and pushes and (often or not serves) and nothing_special_happens(totals, grid):
        return f"{rounding.mode}_alone"
    if not serves:
        return ""
    if grid.mantissa_bits == 0 and rounding.mode in (*PLAIN, "to_odd"):
        return f"{rounding.mode}_without_mantissa"
    return rounding.code if pushes or rounding.mode not in PLAIN else ""


def matmul(a: Any, b: Any, accumulator: Accumulator, seed: int, thread_count: int) -> np.ndarray | None:
    """[batch, rows, length] times [batch, length, columns], as float32 or float64; None where no loop serves.

    The operands are float32 or float64 arrays of any strides.
    """
    batch, rows, length = a.shape
    columns = b.shape[2]
    work = batch * rows * columns * length
    if not available() or work == 0:
        return None
    spans = span(a), span(b)
    choice = choose(spans[0].times(spans[1]), accumulator, length)
    if choice is None or not _worth_it(choice, length * (1 + batch * rows * columns // 2**10)):
        return None
    a, b = (widened(x, known) for x, known in zip((a, b), spans, strict=True))
    swap = columns < NARROW and rows > columns
    steps = [rows * columns, columns, 1]
    if swap:
        a, b, steps = b.transpose(0, 2, 1), a.transpose(0, 2, 1), [steps[0], 1, columns]
    result = _run(choice, a, b, accumulator, seed, np.array(steps, np.uint32), thread_count if work >= SHARED else 1)
    return result.transpose(0, 2, 1) if swap else result


def widened(x: np.ndarray, known: Span) -> np.ndarray:
    """X, with subnormal float32 as normal float64: a processor told to flush them would convert them to zero."""
    return arrays.widen(np, np.ascontiguousarray(x)) if x.dtype == np.float32 and known.least < -126 else x


def compensated(x: np.ndarray, fmt: Format, rounding: Rounding, seed: int) -> np.ndarray | None:
    """Kahan's sum of float64 [length, sums] over the first axis; None where no loop serves."""
    length = x.shape[0]
    code = _code(fmt, span_of(x), rounding, length, "float64", often=False)
    if not available() or x.size == 0 or not code or not _worth_it(("kahan", code), 4 * length):
        return None
    from lplab.arithmetic import compiled, rounders

    keys = [streams.keys(seed, stream, length) if rounding.is_stochastic else streams.NO_KEYS for stream in range(4)]
    loop = compiled.kahan_loop(rounders.MODES[code])
    total = np.zeros(x.shape[1])
    loop(np.ascontiguousarray(x), total, _constants(code, fmt, rounding, "float64"), *keys)
    return total


def _worth_it(choice: Any, operations: int) -> bool:
    if choice not in _loaded:
        if operations < FEW:
            return False
        _loaded.add(choice)
    return True


def _run(
    choice: Choice, a: np.ndarray, b: np.ndarray, accumulator: Accumulator, seed: int, steps: np.ndarray, count: int
) -> np.ndarray:
    from lplab.arithmetic import compiled, rounders

    batch, rows, length = a.shape
    columns = b.shape[2]
    together = compiled.ROWS if rows > 1 else 1
    width = _width(columns, QUICK if choice.inner.endswith("_alone") else CAREFUL)
    left, right = _rows_of(a, together, choice.real), _blocks_of(b, width or columns, choice.real)
    out = np.empty((batch, left.shape[1], right.shape[1] * right.shape[3]), choice.real)
    codes = (choice.inner, choice.outer, choice.product)
    modes = [rounders.MODES[code] if code else -1 for code in codes]
    loop = compiled.matmul_loop(choice.real, *modes, choice.exact_sums, together, width)
    chunk = accumulator.chunk or length
    formats = (accumulator.format, accumulator.outer_format, accumulator.product_format)
    constants = [
        _constants(code, fmt, accumulator.rounding, choice.real) for code, fmt in zip(codes, formats, strict=True)
    ]
    keys = _keys(accumulator, seed, length)

    def work(first: int, last: int) -> None:
        loop(left, right, out, first, last, chunk, *constants, *keys, steps)

    least = -(-SHARED // (together * columns * length))
    threads.share_out(work, batch * (left.shape[1] // together), count, least)
    return out[:, :rows, :columns]


@lru_cache(maxsize=256)
def _constants(code: str, fmt: Format, rounding: Rounding, real: str) -> tuple[Any, ...]:
    from lplab.arithmetic import rounders

    grid = fmt.plan
    if not code or code.endswith("_alone"):  # the loop looks at the mantissa at most; the rest may not fit the word
        grid = Grid(grid.mantissa_bits if isinstance(grid, Grid) and code else 1, 0, 1.0, -1.0)
    assert isinstance(grid, Grid)  # as _code() saw to
    return rounders.constants(arrays.constants(grid, rounding, real), rounding.random_bits, real)


def _keys(accumulator: Accumulator, seed: int, length: int) -> list[np.ndarray]:
    if not accumulator.rounding.is_stochastic:
        return [streams.NO_KEYS] * 3
    chunks = -(-length // accumulator.chunk) if accumulator.chunk else 0
    counts = ((streams.ADDITION, length), (streams.TOTAL, chunks), (streams.PRODUCT, 0 if accumulator.fma else length))
    return [streams.keys(seed, stream, count) for stream, count in counts]


def _width(columns: int, cost: dict[int, float]) -> int:
    """How many columns to work on at a time: the least work, empty columns included; 0 where there are few."""
    return 0 if columns < min(cost) - 8 else min(cost, key=lambda width: -(-columns // width) * width * cost[width])


def _rows_of(a: np.ndarray, together: int, real: str) -> np.ndarray:
    """The left operand, contiguous, with rows of zeros to the next multiple of ``together``."""
    batch, rows, length = a.shape
    if rows % together == 0:
        return np.ascontiguousarray(a, real)
    filled = np.zeros((batch, rows + -rows % together, length), real)
    filled[:, :rows] = a
    return filled


def _blocks_of(b: np.ndarray, width: int, real: str) -> np.ndarray:
    """The right operand as [batch, blocks, length, width], with columns of zeros in the last block."""
    from lplab.arithmetic.compiled import aligned_zeros

    batch, length, columns = b.shape
    blocks = -(-columns // width)
    packed = aligned_zeros.py_func(batch * blocks * length, width, real).reshape(batch, blocks, length, width)
    for block in range(blocks):
        part = b[:, :, block * width : (block + 1) * width]
        packed[:, block, :, : part.shape[2]] = part
    return packed


def span(x: np.ndarray) -> Span:
    """What is known of the numbers of an array: measured, in one pass."""
    if x.dtype == np.float64:
        return span_of(np.ascontiguousarray(x))
    from lplab.arithmetic import compiled

    once = x[tuple(slice(0, 1) if step == 0 else slice(None) for step in x.strides)]  # without copies by broadcasting
    in_memory = once.transpose(sorted(range(x.ndim), key=lambda axis: -abs(once.strides[axis])))
    flat = np.ascontiguousarray(in_memory).reshape(-1).view(np.int32)
    bits, least, most, finite = compiled.span_loop()(flat)
    return Span(int(bits), int(least), int(most), bool(finite))
