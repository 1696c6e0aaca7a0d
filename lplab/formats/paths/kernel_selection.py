"""Which compiled loop serves which format, and the tables that it needs.

numba is imported on the first large array. A loop that this process has not used yet is loaded from disk (or compiled,
the first time on a machine, in half a second). Small arrays do not wait for that:
:mod:`lplab.formats.paths.array_kernels` rounds them in microseconds, with the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from lplab.formats import counter_rng
from lplab.formats.paths import array_kernels, block_rounding, nearest_kernels, table_kernels
from lplab.formats.paths.array_kernels import FLOAT_LAYOUTS, GridConstants
from lplab.formats.rounding import MIN_FRACTION, Rounding
from lplab.formats.rounding_spec import BlockSpec, Grid, Table

MIN_COMPILED_SIZE = 2**15  # elements from which on a loop is loaded
SCRATCH_SIZE = 2**13  # elements of a scratch copy
MIN_PREFETCH_SIZE = 2**21  # elements from which on an array is larger than the caches
PREFETCH_SIZE = 2**12  # elements that are fetched together
_loaded_loops: set[tuple | None] = set()  # loops that this process has used; only speed depends on it


def available() -> bool:
    """Whether numba is installed and ``LPLAB_NO_NUMBA`` is not set.

    >>> isinstance(available(), bool)
    True
    """
    return _installed() and os.environ.get("LPLAB_NO_NUMBA", "") in ("", "0")


@cache
def _installed() -> bool:
    return find_spec("numba") is not None


def quantize(
    x: np.ndarray, out: np.ndarray, rounding_spec: Grid | Table, rounding: Rounding, key: tuple[int, int]
) -> bool:
    """Round flat x into flat out and return True; or return False where no compiled loop serves.

    x and out are contiguous, of the same type and either the same memory or disjoint.
    """
    if not available():
        return False
    if isinstance(rounding_spec, Table):
        return _by_table(x, out, rounding_spec, rounding)
    real = x.dtype.name
    if rounding_spec.step != 1 and not _step_fits(rounding_spec, FLOAT_LAYOUTS[real]):
        return False
    whole = replace(rounding_spec, step=1.0) if rounding_spec.step != 1 else rounding_spec
    if real == "float32" and nearest_kernels.nearest_kernel_key(whole, rounding, rounding_spec.step != 1):
        return _by_nearest(x, out, whole, rounding, rounding_spec.step)
    loop_key = kernel_key(whole, rounding, real, rounding_spec.step != 1)
    if loop_key is None or not _loading_pays_off(loop_key, x.size):
        return False
    constants = array_kernels.constants(whole, rounding, real)
    if rounding_spec.step != 1:  # the loop uses this number as the smallest nonzero quotient
        constants = replace(constants, smallest=FLOAT_LAYOUTS[real].pattern(MIN_FRACTION))
    scaling = (0, 0, 0, x.dtype.type(rounding_spec.step))
    _without_aliasing(
        x,
        out,
        lambda x, out, first: _call_grid_loop(x, out, loop_key, constants, rounding, key, first, scaling),
    )
    return True


def kernel_key(rounding_spec: Grid, rounding: Rounding, real: str, step: bool) -> tuple | None:
    """The arguments of :func:`numba_kernels.grid_loop` for a grid of step 1; None where no loop serves.

    float32 has faster special loops; float64 uses the general ones, so that fewer are compiled.
    """
    kind = array_kernels.rounding_strategy(rounding_spec, FLOAT_LAYOUTS[real])
    if kind == "wide":
        return None
    plain = False
    if real == "float32":
        plain = _is_plain(array_kernels.constants(rounding_spec, rounding, real))
        kind = "even" if kind == "scaled" and _has_one_spacing(rounding_spec) else kind
    return real, rounding.code, kind, rounding_spec.mantissa_bits == 0, plain, "step" if step else "", 0


def _is_plain(c: GridConstants) -> bool:
    return c.smallest == 0 and (c.above, c.below) == (c.infinity, c.minus_infinity)


def _has_one_spacing(rounding_spec: Grid) -> bool:
    return max(rounding_spec.highest, -rounding_spec.lowest) < 2.0 ** (rounding_spec.min_exponent - 1)


def _step_fits(rounding_spec: Grid, word: array_kernels.FloatLayout) -> bool:
    return rounding_spec.smallest == 0 and word.pattern(rounding_spec.step) > word.min_normal


def _loading_pays_off(loop_key: tuple | None, size: int) -> bool:
    if loop_key not in _loaded_loops:
        if size < MIN_COMPILED_SIZE:
            return False
        _loaded_loops.add(loop_key)
    return True


def _by_nearest(x: Any, out: Any, rounding_spec: Grid, rounding: Rounding, step: float) -> bool:
    if not _loading_pays_off(nearest_kernels.nearest_kernel_key(rounding_spec, rounding, step != 1), x.size):
        return False
    call = nearest_kernels.nearest_kernel(rounding_spec, rounding, step != 1)
    _without_aliasing(x, out, lambda x, out, first: call(x.ctypes.data, out.ctypes.data, x.size, float(step)))
    return True


def _without_aliasing(x: Any, out: Any, call: Callable[[Any, Any, int], Any]) -> None:
    """Call a loop with x, out and the number of their first element; through a copy where both are the same memory."""
    if x.ctypes.data != out.ctypes.data:
        call(x, out, 0)
        return
    scratch = np.empty(SCRATCH_SIZE, x.dtype)  # in place the loop would not use vector instructions
    for first in range(0, x.size, SCRATCH_SIZE):
        part = x[first : first + SCRATCH_SIZE]
        scratch[: part.size] = part
        call(scratch[: part.size], part, first)


def _call_grid_loop(
    x: Any, out: Any, loop_key: tuple, c: GridConstants, rounding: Rounding, key: Any, first: int, scaling: tuple
) -> None:
    from lplab.formats.paths import numba_kernels

    loop, at, to = numba_kernels.grid_loop(*loop_key), x.ctypes.data, out.ctypes.data  # both contiguous
    table = numba_kernels.grid_constants(c, rounding.random_bits if rounding.is_stochastic else 0, loop_key[0])
    chunks = [(0, x.size // loop_key[-1], loop_key[-1])] if loop_key[-1] else prefetch_chunks(x.size)
    for done, number, length in chunks:
        step = done * x.itemsize
        loop(at + step, to + step, number, length, table.ctypes.data, first + done, *key, *scaling)


def prefetch_chunks(count: int) -> tuple[tuple[int, int, int], ...]:
    """How a loop splits ``count`` elements: chunks of (first element, blocks, length of a block).

    Arrays larger than the caches are split into blocks, each of which the loop fetches before it rounds it.

    >>> prefetch_chunks(1000), prefetch_chunks(2**21 + 3)
    (((0, 1, 1000),), ((0, 512, 4096), (2097152, 1, 3)))
    """
    if count < MIN_PREFETCH_SIZE:
        return ((0, 1, count),)
    blocks, rest = divmod(count, PREFETCH_SIZE)
    return ((0, blocks, PREFETCH_SIZE), *([(count - rest, 1, rest)] if rest else []))


def _by_table(x: np.ndarray, out: np.ndarray, table: Table, rounding: Rounding) -> bool:
    if (
        x.dtype != np.float32
        or rounding.is_stochastic
        or not _loading_pays_off(("table", id(table), rounding.mode), x.size)
    ):
        return False
    loop = table_kernels.table_loop(table, rounding)
    if loop is not None:
        loop(x.ctypes.data, out.ctypes.data, x.size)
    return loop is not None


# -- blocks ---------------------------------------------------------------------------------------------------


def quantize_blocks(rows: np.ndarray, out: np.ndarray, rounding_spec: BlockSpec, rounding: Rounding, seed: int) -> bool:
    """Round contiguous float32 [rows, length] block by block into ``out``; False where no compiled loop serves."""
    kind = "shift" if rounding_spec.scale is None else "factor"
    # Elements saturate and are never flushed, hence plain=True.
    loop_key = ("float32", rounding.code, "scaled", False, True, kind, rounding_spec.size)
    served = (
        available()
        and rows.dtype == np.float32
        and rounding_spec.element.mantissa_bits > 0
        and rounding_spec.element_exponent >= 0
    )
    if not served or not _loading_pays_off(loop_key, rows.size):
        return False
    round_blocks = _by_powers_of_two if rounding_spec.scale is None else _by_rounded_scales
    length = rows.shape[1]
    if length % rounding_spec.size == 0 and not np.may_share_memory(rows, out):
        round_blocks(rows.reshape(-1), out.reshape(-1), rounding_spec, rounding, seed, loop_key)
        return True
    filled = np.pad(rows, ((0, 0), (0, -length % rounding_spec.size)))
    target = np.empty_like(filled)
    round_blocks(filled.reshape(-1), target.reshape(-1), rounding_spec, rounding, seed, loop_key)
    out[...] = target[:, :length]
    return True


def _by_powers_of_two(
    x: Any, out: Any, rounding_spec: BlockSpec, rounding: Rounding, seed: int, loop_key: tuple
) -> None:
    from lplab.formats.paths import numba_kernels

    exponents = np.empty(x.size // rounding_spec.size, np.int32)
    add = 1 << (22 - rounding_spec.mantissa_bits) if rounding_spec.rule == "even" else 0
    limit = {"ceil": 0, "rceil": int((rounding_spec.element_fraction - 1) * 2.0**23)}.get(rounding_spec.rule, 2**23)
    patterns = x.view(np.int32).reshape(-1, rounding_spec.size)
    numba_kernels.exponent_loop()(
        patterns, exponents, rounding_spec.size, np.int32(add), np.int32(limit), rounding_spec.element_exponent
    )

    c = array_kernels.constants(rounding_spec.element, rounding, "float32")
    c = replace(c, from_integer=2.0**-107)  # a subnormal x is far below the spacing in all blocks that the loop does
    scaling = (exponents.ctypes.data, 0, 0, np.float32(1))
    _call_grid_loop(x, out, loop_key, c, rounding, counter_rng.keys(seed), 0, scaling)
    # Scales near the ends of float32, and blocks with NaN or infinity, are computed by the array path.
    least = -100 - rounding_spec.element.min_exponent + rounding_spec.element.mantissa_bits
    hard = np.flatnonzero((exponents < least) | (exponents > 123 - rounding_spec.element_exponent))
    if hard.size:
        _redo_with_arrays(x, out, hard, rounding_spec, rounding, seed)


def _redo_with_arrays(
    x: np.ndarray, out: np.ndarray, hard: np.ndarray, rounding_spec: BlockSpec, rounding: Rounding, seed: int
) -> None:
    draws = None
    if rounding.is_stochastic:
        draws = (
            counter_rng.random_bits(np, counter_rng.keys(seed), 0, x.size, rounding.random_bits)
            .reshape(-1, rounding_spec.size)[hard]
            .reshape(-1)
        )
    out.reshape(-1, rounding_spec.size)[hard] = block_rounding.round_blocks(
        np, x.reshape(-1, rounding_spec.size)[hard], rounding_spec, rounding, draws
    )


def _round_scales(xp: Any, x: np.ndarray, rounding_spec: Grid, rounding: Rounding) -> np.ndarray:
    out = np.empty_like(x)
    return (
        out
        if quantize(x, out, rounding_spec, rounding, (0, 0))
        else array_kernels.quantize(xp, x, rounding_spec, rounding)
    )


def _by_rounded_scales(
    x: Any, out: Any, rounding_spec: BlockSpec, rounding: Rounding, seed: int, loop_key: tuple
) -> None:
    from lplab.formats.paths import numba_kernels

    largest = np.empty(x.size // rounding_spec.size, np.int32)
    numba_kernels.largest_loop()(x.view(np.int32).reshape(-1, rounding_spec.size), largest, rounding_spec.size)
    sizes = largest.view(np.float32)
    tensor_scale = block_rounding.tensor_scales(np, sizes, rounding_spec)
    factors, scales = np.empty_like(sizes), np.empty_like(sizes)
    for first in range(0, sizes.size, MIN_COMPILED_SIZE):  # parts that stay in the cache
        part = slice(first, first + MIN_COMPILED_SIZE)
        factors[part], scales[part] = block_rounding.rounded_scales(
            np, sizes[part], rounding_spec, tensor_scale, _round_scales
        )
    c = array_kernels.constants(rounding_spec.element, rounding, "float32")
    scaling = (0, factors.ctypes.data, scales.ctypes.data, tensor_scale[1])
    _call_grid_loop(x, out, loop_key, c, rounding, counter_rng.keys(seed), 0, scaling)
