"""The slow, obvious rounding, which every faster path must reproduce bit for bit. Read this one first.

Everything is computed in float64, where each step is exact: take the exponent, divide by the spacing, split the
quotient into whole units and a fraction, apply the rounding mode to the fraction, multiply by the spacing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.formats.rounding import MIN_FRACTION, NEAREST, Rounding, overflow_stays_finite, rounds_away
from lplab.formats.rounding_spec import Grid, Table


def quantize(x: np.ndarray, spec: Grid | Table, rounding: Rounding, draws: np.ndarray | None = None) -> np.ndarray:
    """Round every element of a float32 or float64 array to a grid or a table; the result is float64.

    >>> from lplab.formats import get
    >>> quantize(np.array([0.3, 500.0]), get("e4m3fn").rounding_spec, Rounding("nearest_even"))
    array([3.125e-01, 4.480e+02])
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # NaN propagates; no warnings
        if isinstance(spec, Grid):
            return round_to_grid(x, spec, rounding, draws)
        return round_to_table(x, spec, rounding, draws)


def round_to_grid(x: np.ndarray, grid: Grid, rounding: Rounding, draws: np.ndarray | None = None) -> np.ndarray:
    """Round to a :class:`~lplab.formats.rounding_spec.Grid`.

    With a ``step`` (integers with a scale) the division and the last product are single operations in the dtype of x,
    as is usual; all other steps are exact.
    """
    if grid.step != 1:
        x = keep_nonzero_visible(x / x.dtype.type(grid.step), x)
    negative = np.signbit(x)
    magnitude = np.abs(x).astype(np.float64)
    finite = np.isfinite(magnitude)
    size = np.where(finite, magnitude, 0.0)

    exponent = np.frexp(size)[1] - 1  # 2^exponent <= size < 2^(exponent + 1)
    unit_exponent = np.maximum(exponent, grid.min_exponent) - grid.mantissa_bits
    units = np.ldexp(size, -unit_exponent)  # exact: a power of two
    units = keep_nonzero_visible(units, size)
    kept = np.floor(units)
    odd = code_is_odd(kept, unit_exponent, grid)
    kept = kept + rounds_away(np, rounding, odd, units - kept, negative, draws)
    result = np.ldexp(kept, unit_exponent)

    result = np.where(result < grid.smallest, 0.0, result)
    result = apply_overflow(result, negative, grid, rounding)
    result = np.where(finite, result, np.where(negative, grid.infinite(True), grid.infinite(False)))
    result = np.where(np.isnan(magnitude), np.nan, result)
    if not grid.negative_zero:
        negative = negative & (result != 0)
    result = np.where(negative, -result, result)
    return result if grid.step == 1 else (result.astype(x.dtype) * x.dtype.type(grid.step)).astype(np.float64)


def keep_nonzero_visible(units: np.ndarray, x: np.ndarray) -> np.ndarray:
    """``units``, but nonzero numbers stay at least ``MIN_FRACTION``: modes such as "up" must see them."""
    return np.where((np.abs(units) < MIN_FRACTION) & (x != 0), np.copysign(units.dtype.type(MIN_FRACTION), x), units)


def code_is_odd(kept: np.ndarray, unit_exponent: np.ndarray, grid: Grid) -> np.ndarray:
    """The last bit of the code of ``kept`` units: of the mantissa if there is one, else of the exponent field."""
    if grid.mantissa_bits:
        return kept % 2 == 1
    return (kept == 1) & ((unit_exponent + grid.parity) % 2 == 1)


def apply_overflow(result: np.ndarray, negative: np.ndarray, grid: Grid, rounding: Rounding) -> np.ndarray:
    """Apply the overflow rule to rounded magnitudes; the bound depends on the sign (two's complement)."""
    for sign in (False, True):
        beyond = (negative == sign) & (result > grid.bound(sign))
        result = np.where(beyond, overflow_result(grid, rounding, sign), result)
    return result


def overflow_result(grid: Grid, rounding: Rounding, negative: bool) -> float:
    """The magnitude that a finite number beyond the bound on this side of zero becomes."""
    nan = grid.overflow == "nan" or (negative and grid.nan_below)
    if grid.overflow in ("saturate", "propagate") and not nan:
        return grid.bound(negative)
    # Without an infinity that could be odd, to_odd stops at the largest value; but no code stands for less than zero.
    odd = grid.overflow == "nan" or grid.bound_is_odd(negative)
    if overflow_stays_finite(rounding, negative, odd):
        return grid.bound(negative)
    return np.nan if nan else np.inf


def round_to_table(x: Any, table: Table, rounding: Rounding, draws: Any = None, xp: Any = np) -> Any:
    """Round to a :class:`~lplab.formats.rounding_spec.Table`: find the two neighbours, then decide between them.

    The array path uses this function, too; with torch (``xp``) the result is float64.
    """
    x = x.astype(np.float64) if xp is np else x
    device = None if xp is np else x.device
    negative = xp.signbit(x)
    result = _on(xp, table.values, device)[table_index(xp, x, table, rounding, negative, draws, device)]
    if table.infinite is not None:
        result = xp.where(xp.isinf(x), xp.where(negative, -table.infinite, table.infinite), result)
    if table.only_positive:
        result = xp.where(x < 0, np.nan, result)
    if table.negative_zero:
        result = xp.where((result == 0) & negative, -0.0, result)
    return xp.where(xp.isnan(x), np.nan, result)


def table_index(
    xp: Any, x: Any, table: Table, rounding: Rounding, negative: Any, draws: Any = None, device: Any = None
) -> Any:
    """The index of the point that each element of a float64 array goes to; numpy or torch (``xp``)."""
    points, cuts, odd = (_on(xp, a, device) for a in (table.points, table.cuts, table.odd))
    last = len(table.points) - 1
    lower = xp.clip(xp.searchsorted(points, x, side="right") - 1, 0, last - 1)
    cut, low, high = cuts[lower], points[lower], points[lower + 1]
    if rounding.mode in NEAREST:
        tie_goes_up = {"nearest_even": odd[lower], "nearest_away": ~negative, "nearest_down": lower < 0}[rounding.mode]
        up = (x > cut) | ((x == cut) & tie_goes_up)
    else:
        # Distances are measured from the neighbour nearer to zero, as rounds_away() expects.
        inner_is_high = xp.where((low < 0) & (high > 0), _high_is_nearer_zero(low, high, negative), negative)
        inner, outer = xp.where(inner_is_high, high, low), xp.where(inner_is_high, low, high)
        fraction = xp.clip((x - inner) / (outer - inner), 0.0, 1.0)
        between = (low < x) & (x < high)  # the quotient may have been rounded to 0 or 1, but is neither
        fraction = xp.where(between, xp.clip(fraction, MIN_FRACTION, 1 - 2.0**-53), fraction)
        inner_is_odd = odd[xp.where(inner_is_high, lower + 1, lower)]
        goes = rounds_away(xp, rounding, inner_is_odd, fraction, inner_is_high, draws)
        up = ((fraction == 1) | ((fraction < 1) & goes)) != inner_is_high
    index = xp.where(up, lower + 1, lower)
    if table.never_zero:
        index = xp.where((points[index] == 0) & (x != 0), xp.where(negative, index - 1, index + 1), index)
    if table.helpers:
        largest_is_odd = bool(table.odd[last - 1]) or bool(np.isnan(table.values[last]))
        stays = [overflow_stays_finite(rounding, sign, largest_is_odd) for sign in (False, True)]
        index = xp.where(negative & stays[1], xp.clip(index, 1, None), index)
        index = xp.where(~negative & stays[0], xp.clip(index, None, last - 1), index)
    return index


def _high_is_nearer_zero(low: Any, high: Any, negative: Any) -> Any:
    """For neighbours on both sides of zero (a codebook without zero); at equal distance the one with the sign of x."""
    return (high < -low) | ((high == -low) & ~negative)


def _on(xp: Any, array: np.ndarray, device: Any) -> Any:
    return array if xp is np else xp.as_tensor(array, device=device)
