"""Lab 11: a small systolic array, one cycle at a time, for results of several sizes."""

from __future__ import annotations

from typing import Any

from lplab.hardware import systolic

from .mechanism import Mechanism

ROWS = COLUMNS = 4  # cells of the array
INNER = 4  # numbers that each sum adds up
LARGEST = 8  # rows and columns of a result


def data() -> dict[str, Any]:
    """For each size of the result, the cycles of its folds and of all, and the share of cell cycles that multiply.

    >>> sizes = data()["sizes"]
    >>> sizes["4 4"]["cycles"], sizes["5 4"]["cycles"], len(sizes["5 4"]["folds"])
    (10, 20, 2)
    """
    sides = range(1, LARGEST + 1)
    sizes = {f"{m} {n}": size(m, n) for m in sides for n in sides}
    return {"rows": ROWS, "columns": COLUMNS, "inner": INNER, "largest": LARGEST, "sizes": sizes, "starts": starts()}


def starts() -> list[list[int]]:
    """The cycle of a fold, from 0, in which each cell multiplies for the first time.

    The first product of a cell needs a number that has crossed the cells before it, so this cell starts when a fold of
    one product would end on the array that reaches just to it.
    """
    cells = range(1, ROWS + 1), range(1, COLUMNS + 1)
    return [[int(systolic.cycles(1, 1, 1, row, column)) - 1 for column in cells[1]] for row in cells[0]]


def size(m: int, n: int) -> dict[str, Any]:
    """A result of m × n sums: its folds (first row, first column, rows, columns), and what systolic.py counts."""
    folds = [
        [top, left, min(ROWS, m - top), min(COLUMNS, n - left)]
        for top in range(0, m, ROWS)
        for left in range(0, n, COLUMNS)
    ]
    return {
        "folds": folds,
        "cycles": int(systolic.cycles(m, n, INNER, ROWS, COLUMNS)),
        "busy": float(systolic.utilization(m, n, INNER, ROWS, COLUMNS)),
    }


MECHANISM = Mechanism(
    name="cells",
    title="An array of 4 × 4 cells, one cycle at a time",
    todo="Press *Play*. Then drag the *orange: lower edge* of the result down by one row.",
    alt="On the left a result of a matrix product, a rectangle of sums that can be made larger. On the right an array "
    "of 4 × 4 cells, which light up while they multiply. Numbers enter it from the left and from above, each row and "
    "each column one cycle later than the one before.",
    data=data,
)
