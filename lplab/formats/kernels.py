"""Which compiled loop serves which format, and the tables that it needs.

numba is imported when a large array first comes along. A loop that this process has not used yet is loaded from disk
(or compiled, the first time on a machine: half a second), so small arrays do not ask for it: they are computed by
:mod:`lplab.formats.arrays` in microseconds, with the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from lplab.formats import arrays, blocks, counter
from lplab.formats.arrays import WORDS, Constants
from lplab.formats.plan import Grid, Table
from lplab.formats.rounding import LEAST_FRACTION, Rounding

LARGE = 2**15  # elements that are worth loading a loop for
CACHED = 2**13  # elements of a scratch copy
RUNGS = 8  # magnitudes that comparing with each of them is faster for than looking up
_loaded: set[tuple] = set()  # loops that this process has used; only speed depends on it
_NOTHING = np.zeros(0, np.float32)
_NO_SHIFTS = np.zeros(0, np.int32)


def available() -> bool:
    """Whether numba is installed and ``LPLAB_NO_NUMBA`` is not set.

    >>> isinstance(available(), bool)
    True
    """
    return _installed() and os.environ.get("LPLAB_NO_NUMBA", "") in ("", "0")


@cache
def _installed() -> bool:
    return find_spec("numba") is not None


def quantize(x: np.ndarray, out: np.ndarray, plan: Grid | Table, rounding: Rounding, key: tuple[int, int]) -> bool:
    """Round flat x into flat out and return True; or return False where no compiled loop serves.

    x and out are contiguous, of the same type and either the same memory or disjoint.
    """
    if not available():
        return False
    if isinstance(plan, Table):
        return _by_table(x, out, plan, rounding)
    real = x.dtype.name
    if plan.step != 1 and not _step_fits(plan, WORDS[real]):
        return False
    kind = arrays.kind_of(plan, WORDS[real])
    if kind == "wide":
        return False
    constants = arrays.constants(replace(plan, step=1.0) if plan.step != 1 else plan, rounding, real)
    scaling = "step" if plan.step != 1 else ""
    plain = False
    if real == "float32":  # the special loops are for speed: float64 makes do with the general ones, fewer to compile
        kind, plain = "even" if kind == "scaled" and _has_one_spacing(plan) else kind, _is_plain(constants)
    spec = (real, rounding.code, kind, plan.mantissa_bits == 0, plain, scaling, 0)
    if not _worth_it(spec, x.size):
        return False
    if plan.step != 1:  # the loop uses this number as the least quotient that is not zero
        constants = replace(constants, smallest=WORDS[real].pattern(LEAST_FRACTION))
    step = np.array([plan.step], x.dtype)
    _by_blocks(x, out, spec, constants, rounding, key, (_NO_SHIFTS, step, step, step[0]))
    return True


def _is_plain(c: Constants) -> bool:
    return c.smallest == 0 and (c.above, c.below) == (c.infinity, c.minus_infinity)


def _has_one_spacing(plan: Grid) -> bool:
    return max(plan.highest, -plan.lowest) < 2.0 ** (plan.min_exponent - 1)


def _step_fits(plan: Grid, word: arrays.Word) -> bool:
    return plan.smallest == 0 and word.pattern(plan.step) > word.least_normal


def _worth_it(spec: tuple, size: int) -> bool:
    if spec not in _loaded:
        if size < LARGE:
            return False
        _loaded.add(spec)
    return True


def _by_blocks(
    x: Any, out: Any, spec: tuple, constants: Constants, rounding: Rounding, key: Any, scaling: tuple
) -> None:
    if x.ctypes.data != out.ctypes.data:
        _call(x, out, spec, constants, rounding, key, 0, scaling)
        return
    scratch = np.empty(CACHED, x.dtype)  # the same memory would keep the loop from using vector instructions
    for first in range(0, x.size, CACHED):
        part = x[first : first + CACHED]
        scratch[: part.size] = part
        _call(scratch[: part.size], part, spec, constants, rounding, key, first, scaling)


def _call(
    x: Any, out: Any, spec: tuple, c: Constants, rounding: Rounding, key: Any, first: int, scaling: tuple
) -> None:
    from lplab.formats import compiled

    size = spec[-1] or x.size
    addresses = x.ctypes.data, out.ctypes.data  # both contiguous
    random = rounding.random_bits if rounding.is_stochastic else 0
    compiled.grid_loop(*spec)(
        *addresses, x.size // size, size, compiled.grid_constants(c, random, spec[0]), first, *key, *scaling
    )


# -- tables ---------------------------------------------------------------------------------------------------


def _by_table(x: np.ndarray, out: np.ndarray, table: Table, rounding: Rounding) -> bool:
    if x.dtype != np.float32 or rounding.is_stochastic or not _worth_it(("table", id(table), rounding.mode), x.size):
        return False
    loop = table_loop(table, rounding)
    if loop is not None:
        loop(x.ctypes.data, out.ctypes.data, x.size)
    return loop is not None


@lru_cache(maxsize=512)
def table_loop(table: Table, rounding: Rounding) -> Callable[[int, int, int], None] | None:
    """A function of the addresses of float32 x and out and their number of elements; None if no loop serves.

    Not for stochastic rounding. x and out are contiguous and either the same memory or disjoint.
    """
    from lplab.formats import compiled

    ladder = _ladder(table, rounding)
    if ladder is not None:
        climb = compiled.ladder_loop(len(ladder[0]))
        return lambda x, out, count: climb(x, out, count, *ladder)
    lookup = _lookup(table, rounding)
    if lookup is None:
        return None
    look_up = compiled.table_loop()
    return lambda x, out, count: look_up(x, out, count, *lookup)


def _ladder(table: Table, rounding: Rounding) -> tuple[tuple, tuple, bool] | None:
    """The cuts and rises of :func:`compiled.ladder_loop`, and whether −0 exists; None for other sorts of tables.

    It serves tables of few magnitudes that treat both signs alike, such as those of four bits.
    """
    values = np.unique(table.values[(table.values > 0) & np.isfinite(table.values)])
    if not 1 <= values.size <= RUNGS or not np.array_equal(values, values.astype(np.float32)):
        return None

    def result(patterns: np.ndarray) -> np.ndarray:
        return arrays.quantize(np, patterns.astype(np.int32).view(np.float32), table, rounding)

    low, high = np.full(values.size, -1), np.full(values.size, 0x7F800000)
    while (high - low > 1).any():  # bisect for the first magnitude that becomes this value or a larger one
        middle = (low + high) // 2
        above = result(middle) >= values
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    edges = np.concatenate([[0, 0x7F800000], high, np.maximum(high - 1, 0)])
    rises = np.diff(values.astype(np.float32).view(np.int32), prepend=np.int32(0))
    climbed = ((edges[:, None] >= high) * rises).sum(1).astype(np.int32)
    mirrored = np.where((climbed != 0) | table.negative_zero, climbed | np.int32(-(2**31)), 0)
    positive, negative = result(edges), result(edges | -(2**31))
    if not np.array_equal(positive.view(np.int32), climbed) or not np.array_equal(negative.view(np.int32), mirrored):
        return None
    return tuple(map(np.int32, high)), tuple(map(np.int32, rises)), table.negative_zero


@lru_cache(maxsize=64)
def _lookup(table: Table, rounding: Rounding) -> tuple[np.uint32, np.ndarray, np.ndarray] | None:
    """What :func:`compiled.table_loop` looks up: how many lower bits there are, the cuts and the results.

    ``cuts`` (uint32 [n]) has for each value of the upper bits from which lower bits on the second result holds;
    ``results`` (int32 [2n]) has the patterns of both. As few upper bits as possible are used, so that all stays in the
    fastest cache; None if even 16 are too few: more than one change among the patterns that share them.
    """
    for upper_bits in range(9, 17):
        found = _split(table, rounding, upper_bits)
        if found is not None:
            return np.uint32(32 - upper_bits), *found
    return None


def _split(table: Table, rounding: Rounding, upper_bits: int) -> tuple[np.ndarray, np.ndarray] | None:
    low_bits = 32 - upper_bits
    upper = np.arange(2**upper_bits, dtype=np.int64) << low_bits

    def result(lower: np.ndarray) -> np.ndarray:
        patterns = (upper + lower).astype(np.uint32).view(np.float32)
        values = arrays.quantize(np, patterns, table, rounding)  # not the reference: subnormals may be flushed just now
        return np.where(np.isnan(values), np.float32(np.nan), values).view(np.int32)

    low, high = np.zeros(2**upper_bits, np.int64), np.full(2**upper_bits, 2**low_bits - 1)
    first, last = result(low), result(high)
    while (high - low > 1).any():  # bisect for the first pattern whose result is no longer the first one
        middle = (low + high) // 2
        same = result(middle) == first
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    if (result(high) != last).any():
        return None
    cuts = np.where(first == last, 2**low_bits, high).astype(np.uint32)
    return cuts, np.stack([first, last], axis=1).reshape(-1)


# -- blocks ---------------------------------------------------------------------------------------------------


def quantize_blocks(rows: np.ndarray, out: np.ndarray, plan: blocks.BlockPlan, rounding: Rounding, seed: int) -> bool:
    """Round contiguous float32 [rows, length] block by block into ``out``; False where no compiled loop serves."""
    kind = "shift" if plan.scale is None else "factor"
    spec = ("float32", rounding.code, "scaled", False, True, kind, plan.size)  # elements saturate and are never flushed
    served = available() and rows.dtype == np.float32 and plan.element.mantissa_bits > 0 and plan.element_exponent >= 0
    if not served or not _worth_it(spec, rows.size):
        return False
    round_blocks = _by_powers_of_two if plan.scale is None else _by_rounded_scales
    length = rows.shape[1]
    if length % plan.size == 0 and not np.may_share_memory(rows, out):
        round_blocks(rows.reshape(-1), out.reshape(-1), plan, rounding, seed, spec)
        return True
    filled = np.pad(rows, ((0, 0), (0, -length % plan.size)))
    target = np.empty_like(filled)
    round_blocks(filled.reshape(-1), target.reshape(-1), plan, rounding, seed, spec)
    out[...] = target[:, :length]
    return True


def _by_powers_of_two(x: Any, out: Any, plan: blocks.BlockPlan, rounding: Rounding, seed: int, spec: tuple) -> None:
    from lplab.formats import compiled

    exponents = np.empty(x.size // plan.size, np.int32)
    add = 1 << (22 - plan.mantissa_bits) if plan.rule == "even" else 0
    limit = {"ceil": 0, "rceil": int((plan.element_fraction - 1) * 2.0**23)}.get(plan.rule, 2**23)
    patterns = x.view(np.int32).reshape(-1, plan.size)
    compiled.exponent_loop()(patterns, exponents, plan.size, np.int32(add), np.int32(limit), plan.element_exponent)

    c = arrays.constants(plan.element, rounding, "float32")
    c = replace(c, from_integer=2.0**-107)  # a subnormal x is far below the spacing in all blocks that the loop does
    _call(x, out, spec, c, rounding, counter.keys(seed), 0, (exponents, _NOTHING, _NOTHING, np.float32(1)))
    # Scales near the ends of float32, and blocks with NaN or infinity, are left to the array path.
    least = -100 - plan.element.min_exponent + plan.element.mantissa_bits
    hard = np.flatnonzero((exponents < least) | (exponents > 123 - plan.element_exponent))
    if hard.size:
        _redo(x, out, hard, plan, rounding, seed)


def _redo(
    x: np.ndarray, out: np.ndarray, hard: np.ndarray, plan: blocks.BlockPlan, rounding: Rounding, seed: int
) -> None:
    draws = None
    if rounding.is_stochastic:
        draws = (
            counter.draws(np, counter.keys(seed), 0, x.size, rounding.random_bits)
            .reshape(-1, plan.size)[hard]
            .reshape(-1)
        )
    out.reshape(-1, plan.size)[hard] = blocks.round_blocks(np, x.reshape(-1, plan.size)[hard], plan, rounding, draws)


def _round_scales(xp: Any, x: np.ndarray, plan: Grid, rounding: Rounding) -> np.ndarray:
    out = np.empty_like(x)
    return out if quantize(x, out, plan, rounding, (0, 0)) else arrays.quantize(xp, x, plan, rounding)


def _by_rounded_scales(x: Any, out: Any, plan: blocks.BlockPlan, rounding: Rounding, seed: int, spec: tuple) -> None:
    from lplab.formats import compiled

    largest = np.empty(x.size // plan.size, np.int32)
    compiled.largest_loop()(x.view(np.int32).reshape(-1, plan.size), largest, plan.size)
    sizes = largest.view(np.float32)
    of_tensor = blocks.tensor_scales(np, sizes, plan)
    factors, scales = np.empty_like(sizes), np.empty_like(sizes)
    for first in range(0, sizes.size, LARGE):  # in parts that stay in the cache
        part = slice(first, first + LARGE)
        factors[part], scales[part] = blocks.rounded_scales(np, sizes[part], plan, of_tensor, _round_scales)
    c = arrays.constants(plan.element, rounding, "float32")
    _call(x, out, spec, c, rounding, counter.keys(seed), 0, (_NO_SHIFTS, factors, scales, of_tensor[1]))
