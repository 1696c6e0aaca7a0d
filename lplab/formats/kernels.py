"""Which compiled loop serves which format, and the tables that it needs.

numba is imported when a large array first comes along. A loop that this process has not used yet is loaded from disk
(or compiled, the first time on a machine: half a second), so small arrays do not ask for it: they are computed by
:mod:`lplab.formats.arrays` in microseconds, with the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from lplab.formats import arrays, blocks, counter, lookups, nearest
from lplab.formats.arrays import WORDS, Constants
from lplab.formats.plan import Grid, Table
from lplab.formats.rounding import LEAST_FRACTION, Rounding

LARGE = 2**15  # elements that are worth loading a loop for
CACHED = 2**13  # elements of a scratch copy
FAR = 2**21  # elements that no cache holds
BLOCK = 2**12  # elements that are fetched together
_loaded: set[tuple | None] = set()  # loops that this process has used; only speed depends on it


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
    whole = replace(plan, step=1.0) if plan.step != 1 else plan
    if real == "float32" and nearest.sort_of(whole, rounding, plan.step != 1):
        return _by_nearest(x, out, whole, rounding, plan.step)
    spec = spec_of(whole, rounding, real, plan.step != 1)
    if spec is None or not _worth_it(spec, x.size):
        return False
    constants = arrays.constants(whole, rounding, real)
    if plan.step != 1:  # the loop uses this number as the least quotient that is not zero
        constants = replace(constants, smallest=WORDS[real].pattern(LEAST_FRACTION))
    step = x.dtype.type(plan.step)
    _in_parts(x, out, lambda x, out, first: _call(x, out, spec, constants, rounding, key, first, (0, 0, 0, step)))
    return True


def spec_of(plan: Grid, rounding: Rounding, real: str, step: bool) -> tuple | None:
    """The arguments of :func:`compiled.grid_loop` for a grid of step 1; None where no loop serves.

    Special loops are for speed: float64 makes do with the general ones, fewer to compile.
    """
    kind = arrays.kind_of(plan, WORDS[real])
    if kind == "wide":
        return None
    plain = False
    if real == "float32":
        plain = _is_plain(arrays.constants(plan, rounding, real))
        kind = "even" if kind == "scaled" and _has_one_spacing(plan) else kind
    return real, rounding.code, kind, plan.mantissa_bits == 0, plain, "step" if step else "", 0


def _is_plain(c: Constants) -> bool:
    return c.smallest == 0 and (c.above, c.below) == (c.infinity, c.minus_infinity)


def _has_one_spacing(plan: Grid) -> bool:
    return max(plan.highest, -plan.lowest) < 2.0 ** (plan.min_exponent - 1)


def _step_fits(plan: Grid, word: arrays.Word) -> bool:
    return plan.smallest == 0 and word.pattern(plan.step) > word.least_normal


def _worth_it(spec: tuple | None, size: int) -> bool:
    if spec not in _loaded:
        if size < LARGE:
            return False
        _loaded.add(spec)
    return True


def _by_nearest(x: Any, out: Any, plan: Grid, rounding: Rounding, step: float) -> bool:
    if not _worth_it(nearest.sort_of(plan, rounding, step != 1), x.size):
        return False
    call = nearest.call_of(plan, rounding, step != 1)
    _in_parts(x, out, lambda x, out, first: call(x.ctypes.data, out.ctypes.data, x.size, float(step)))
    return True


def _in_parts(x: Any, out: Any, call: Callable[[Any, Any, int], Any]) -> None:
    """Call a loop with x and out and the number of their first element; in parts where both are the same memory."""
    if x.ctypes.data != out.ctypes.data:
        call(x, out, 0)
        return
    scratch = np.empty(CACHED, x.dtype)  # the same memory would keep the loop from using vector instructions
    for first in range(0, x.size, CACHED):
        part = x[first : first + CACHED]
        scratch[: part.size] = part
        call(scratch[: part.size], part, first)


def _call(
    x: Any, out: Any, spec: tuple, c: Constants, rounding: Rounding, key: Any, first: int, scaling: tuple
) -> None:
    from lplab.formats import compiled

    loop, at, to = compiled.grid_loop(*spec), x.ctypes.data, out.ctypes.data  # both contiguous
    table = compiled.grid_constants(c, rounding.random_bits if rounding.is_stochastic else 0, spec[0])
    pieces = [(0, x.size // spec[-1], spec[-1])] if spec[-1] else in_pieces(x.size)
    for done, number, length in pieces:
        step = done * x.itemsize
        loop(at + step, to + step, number, length, table.ctypes.data, first + done, *key, *scaling)


def in_pieces(count: int) -> tuple[tuple[int, int, int], ...]:
    """How a loop goes through so many numbers: pieces of (numbers done before, blocks, length of a block).

    Numbers that no cache holds go in blocks, which the loop fetches as a whole before it rounds them.

    >>> in_pieces(1000), in_pieces(2**21 + 3)
    (((0, 1, 1000),), ((0, 512, 4096), (2097152, 1, 3)))
    """
    if count < FAR:
        return ((0, 1, count),)
    blocks, rest = divmod(count, BLOCK)
    return ((0, blocks, BLOCK), *([(count - rest, 1, rest)] if rest else []))


def _by_table(x: np.ndarray, out: np.ndarray, table: Table, rounding: Rounding) -> bool:
    if x.dtype != np.float32 or rounding.is_stochastic or not _worth_it(("table", id(table), rounding.mode), x.size):
        return False
    loop = lookups.table_loop(table, rounding)
    if loop is not None:
        loop(x.ctypes.data, out.ctypes.data, x.size)
    return loop is not None


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
    _call(x, out, spec, c, rounding, counter.keys(seed), 0, (exponents.ctypes.data, 0, 0, np.float32(1)))
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
    _call(x, out, spec, c, rounding, counter.keys(seed), 0, (0, factors.ctypes.data, scales.ctypes.data, of_tensor[1]))
