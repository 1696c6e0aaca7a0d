"""The arguments of compiled loops that round to tables: a few comparisons for small tables, else a lookup."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from lplab.formats.paths import array_kernels
from lplab.formats.rounding import Rounding
from lplab.formats.rounding_spec import Table

MAX_COMPARISONS = 8  # up to so many magnitudes comparisons are faster than a lookup


@lru_cache(maxsize=512)
def table_loop(table: Table, rounding: Rounding) -> Callable[..., None] | None:
    """A function of the addresses of float32 x and out and their number of elements; None if no loop serves.

    Not for stochastic rounding. x and out are contiguous and either the same memory or disjoint. More arguments are
    ignored: those that loops of other formats need.
    """
    from lplab.formats.paths import numba_kernels, numba_nearest

    comparisons, powers = _comparison_arguments(table, rounding), power_loop_arguments(table, rounding)
    if powers is not None:
        to_power = numba_nearest.power_loop(powers[-1])
        return lambda x, out, count, *more: to_power(x, out, count, *powers[:-1])
    if comparisons is not None:
        compare = numba_kernels.comparison_loop(len(comparisons[0]))
        return lambda x, out, count, *more: compare(x, out, count, *comparisons)
    lookup = _lookup_arguments(table, rounding)
    if lookup is None:
        return None
    look_up = numba_kernels.lookup_loop()
    return lambda x, out, count, *more: look_up(x, out, count, *lookup)


@lru_cache(maxsize=512)
def power_loop_arguments(table: Table, rounding: Rounding) -> tuple | None:
    """The arguments of the loop of :func:`numba_nearest.power_loop`, then its own; None where magnitudes are no powers.

    >>> from lplab.formats import get
    >>> power_loop_arguments(get("e4m3fn").rounding_spec, Rounding()) is None
    True
    """
    if not isinstance(table, Table) or rounding.is_stochastic:
        return None
    comparisons = _comparison_arguments(table, rounding)
    return None if comparisons is None else _power_arguments(*comparisons)


@lru_cache(maxsize=512)
def _comparison_arguments(table: Table, rounding: Rounding) -> tuple[tuple, tuple, bool] | None:
    """The cuts and rises of :func:`numba_kernels.comparison_loop`, and whether −0 exists; None for other tables.

    It serves tables of few magnitudes that treat both signs alike, such as those of four bits.
    """
    values = np.unique(table.values[(table.values > 0) & np.isfinite(table.values)])
    if not 1 <= values.size <= MAX_COMPARISONS or not np.array_equal(values, values.astype(np.float32)):
        return None

    def result(patterns: np.ndarray) -> np.ndarray:
        return array_kernels.quantize(np, patterns.astype(np.int32).view(np.float32), table, rounding)

    low, high = np.full(values.size, -1), np.full(values.size, 0x7F800000)
    while (high - low > 1).any():  # bisect for the first magnitude that becomes this value or a larger one
        middle = (low + high) // 2
        above = result(middle) >= values
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    edges = np.concatenate([[0, 0x7F800000], high, np.maximum(high - 1, 0)])
    rises = np.diff(values.astype(np.float32).view(np.int32), prepend=np.int32(0))
    expected = ((edges[:, None] >= high) * rises).sum(1).astype(np.int32)
    mirrored = np.where((expected != 0) | table.negative_zero, expected | np.int32(-(2**31)), 0)
    positive, negative = result(edges), result(edges | -(2**31))
    if not np.array_equal(positive.view(np.int32), expected) or not np.array_equal(negative.view(np.int32), mirrored):
        return None
    return tuple(map(np.int32, high)), tuple(map(np.int32, rises)), table.negative_zero


def _power_arguments(cuts: tuple, rises: tuple, negative_zero: bool) -> tuple | None:
    """Magnitudes that grow by one power of two have patterns at even distances, and so have the cuts between them."""
    patterns = np.cumsum(rises, dtype=np.int64)
    distance, lead = int(patterns[-1] - patterns[0]) // max(len(rises) - 1, 1), int(patterns[0] - cuts[0])
    even = distance > 0 and distance % 2**23 == 0 and distance & (distance - 1) == 0
    if not even or (np.diff(patterns) != distance).any() or (patterns - np.array(cuts, np.int64) != lead).any():
        return None
    return np.int32(patterns[0]), np.int32(patterns[-1]), np.int32(lead), np.int32(-distance), negative_zero


@lru_cache(maxsize=64)
def _lookup_arguments(table: Table, rounding: Rounding) -> tuple[np.uint32, np.ndarray, np.ndarray] | None:
    """What :func:`numba_kernels.lookup_loop` looks up: how many lower bits there are, the cuts and the results.

    ``cuts`` (uint32 [n]) has for each value of the upper bits from which lower bits on the second result holds;
    ``results`` (int32 [2n]) has the patterns of both. As few upper bits as possible are used, so that all stays in the
    fastest cache; None if even 16 are too few: more than one change among the patterns that share them.
    """
    for upper_bits in range(9, 17):
        cuts_and_results = _split(table, rounding, upper_bits)
        if cuts_and_results is not None:
            return np.uint32(32 - upper_bits), *cuts_and_results
    return None


def _split(table: Table, rounding: Rounding, upper_bits: int) -> tuple[np.ndarray, np.ndarray] | None:
    low_bits = 32 - upper_bits
    upper = np.arange(2**upper_bits, dtype=np.int64) << low_bits

    def result(lower: np.ndarray) -> np.ndarray:
        patterns = (upper + lower).astype(np.uint32).view(np.float32)
        values = array_kernels.quantize(
            np, patterns, table, rounding
        )  # not the reference: subnormals may be flushed just now
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
