"""Which function or table of results rounds to a finite set of float32 numbers, in modes that are not stochastic.

Sets of few magnitudes are rounded to by comparisons, or by the exponent field where magnitudes are powers; others by a
lookup.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lplab.formats.paths import array_kernels
from lplab.formats.paths.grid_rules import Rule
from lplab.formats.rounding import Rounding
from lplab.formats.rounding_spec import RoundingSpec, Table

MAX_COMPARISONS = 8  # up to so many magnitudes comparisons are faster than a lookup


@lru_cache(maxsize=512)
def table_rule(table: RoundingSpec, rounding: Rounding) -> Rule | None:
    """How float32 is rounded to a table of few magnitudes that treats both signs alike; None for all else.

    >>> from lplab.formats import LogFormat
    >>> [table_rule(LogFormat(4, 0).rounding_spec, Rounding(mode)).word for mode in ("toward_zero", "nearest_even")]
    ['power', 'compared']
    """
    if not isinstance(table, Table) or rounding.is_stochastic:
        return None
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
    cuts, patterns = high.astype(np.int64), np.cumsum(rises, dtype=np.int64)
    steps = tuple(np.stack([cuts, rises], axis=1).ravel().tolist())
    few = Rule("compared", (("COMPARISONS", values.size),), (int(table.negative_zero), steps))
    return _power_rule(cuts, patterns, table.negative_zero) or few


def _power_rule(cuts: np.ndarray, patterns: np.ndarray, negative_zero: bool) -> Rule | None:
    """Magnitudes that grow by one power of two have patterns at even distances, and so have the cuts between them."""
    distance, lead = int(patterns[-1] - patterns[0]) // max(len(patterns) - 1, 1), int(patterns[0] - cuts[0])
    even = distance > 0 and distance % 2**23 == 0 and distance & (distance - 1) == 0
    if not even or (np.diff(patterns) != distance).any() or (patterns - cuts != lead).any():
        return None
    least, top = int(patterns[0]), int(patterns[-1])
    return Rule("power", (), (least, top - least, lead - least, -distance, int(negative_zero)))


@lru_cache(maxsize=64)
def lookup_arguments(table: Table, rounding: Rounding) -> tuple[np.uint32, np.ndarray, np.ndarray] | None:
    """How many lower bits there are, the cuts and the results that ``numba_kernels.table_loop`` looks up.

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
        # Not the reference: subnormals may be flushed just now.
        values = array_kernels.quantize(np, patterns, table, rounding)
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
