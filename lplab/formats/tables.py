"""Building :class:`~lplab.formats.rounding_spec.Table`: a finite set of numbers, ready to be rounded to."""

from __future__ import annotations

import numpy as np

from lplab.formats.rounding_spec import Table, midpoints


def table_of(
    values: np.ndarray,
    *,
    symmetric: bool = False,
    codes: np.ndarray | None = None,
    cuts: np.ndarray | None = None,
    overflow: float | None = None,
    infinite: float | None = None,
    flushed: np.ndarray | None = None,
    negative_zero: bool = False,
    never_zero: bool = False,
    only_positive: bool = False,
) -> Table:
    """A table from the values of codes.

    Args:
        values: float64 [n]: values; each the number of its code, unless ``codes`` says otherwise. Finite.
        symmetric: values are the non-negative half of a set in which every number has its negative, under the same
            code but for the sign.
        codes: int64 [n]: the codes of the values; by default 0 … n − 1.
        cuts: thresholds for the nearest modes, one fewer than values (after sorting, before mirroring); midpoints by
            default.
        overflow: where the next larger number would lie, if exceeding the largest means leaving the set.
        infinite: what infinity becomes, and with it every number beyond ``overflow``; None: the largest value.
        flushed: for formats without subnormals, the numbers that are rounded to and then flushed to zero, rising.
        negative_zero, never_zero, only_positive: as in :class:`~lplab.formats.rounding_spec.Table`.
    """
    codes = np.arange(len(values)) if codes is None else codes
    order = np.argsort(values, kind="stable")
    points, codes = values[order], codes[order]
    points, first = np.unique(points, return_index=True)  # a second code for the same value is never produced
    codes = codes[first]
    values, odd = points.copy(), codes % 2 == 1
    cuts = midpoints(points) if cuts is None else cuts

    if flushed is not None:  # between 0 and the smallest value
        places = np.ones(len(flushed), int)
        points, values = np.insert(points, places, flushed), np.insert(values, places, 0.0)
        odd = np.insert(odd, places, (codes[1] - np.arange(len(flushed), 0, -1)) % 2 == 1)
        codes = np.insert(codes, places, -1)
        cuts = np.concatenate([midpoints(points[: len(flushed) + 2]), cuts[1:]])
    if overflow is not None and infinite is not None:
        points, values = np.append(points, overflow), np.append(values, infinite)
        codes, odd = np.append(codes, -1), np.append(odd, not odd[-1])
        cuts = np.append(cuts, midpoints(points[-2:]))
    if symmetric:
        points, values = _mirror(-points, points), _mirror(-values, values)
        codes, odd = _mirror(codes, codes), _mirror(odd, odd)
        cuts = np.concatenate([-cuts[::-1], cuts])
    return Table(
        points=points,
        values=values,
        codes=codes.astype(np.int64),
        cuts=cuts,
        odd=odd,
        helpers=overflow is not None,
        negative_zero=negative_zero,
        never_zero=never_zero,
        only_positive=only_positive,
        infinite=infinite,
    )


def _mirror(negative: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """The negative half, from the outside in, in front of the positive half, which starts with zero."""
    return np.concatenate([negative[:0:-1], positive])


def table_codes(values: np.ndarray, table: Table) -> np.ndarray:
    """The codes of values that are in a table (special values get any code)."""
    known = table.codes >= 0
    order = np.searchsorted(table.values[known], values)
    return table.codes[known][np.minimum(order, known.sum() - 1)]
