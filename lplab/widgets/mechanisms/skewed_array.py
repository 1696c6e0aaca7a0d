"""Lab 11: a small systolic array that keeps weights, one cycle at a time, for matrices of several sizes."""

from __future__ import annotations

from typing import Any

from lplab.hardware import systolic

from .mechanism import Mechanism

ROWS = COLUMNS = 4  # cells of the array
INPUTS = 4  # rows of the first matrix, which pass through the array
LARGEST = 8  # rows and columns of the weights


def data() -> dict[str, Any]:
    """For each size of the weights, the cycles of its folds and of all, and the share of cell cycles that multiply.

    >>> sizes = data()["sizes"]
    >>> sizes["4 4"]["cycles"], sizes["5 4"]["cycles"], len(sizes["5 4"]["folds"])
    (14, 28, 2)
    """
    sides = range(1, LARGEST + 1)
    sizes = {f"{k} {n}": size(k, n) for k in sides for n in sides}
    return {"rows": ROWS, "columns": COLUMNS, "inputs": INPUTS, "largest": LARGEST, "sizes": sizes, "starts": starts()}


def starts() -> list[list[int]]:
    """The cycle of a fold, from 0, in which each cell multiplies for the first time.

    After the weights are loaded, a cell waits until the first number has crossed the cells before it. So it starts
    when an array that reaches just to it, and keeps its sums, would end a fold of one product.
    """
    cells = range(1, ROWS + 1), range(1, COLUMNS + 1)
    return [[ROWS + int(systolic.cycles(1, 1, 1, row, column)) - 1 for column in cells[1]] for row in cells[0]]


def size(k: int, n: int) -> dict[str, Any]:
    """Weights of k × n: their folds (first row, first column, rows, columns), and what systolic.py counts."""
    folds = [
        [top, left, min(ROWS, k - top), min(COLUMNS, n - left)]
        for top in range(0, k, ROWS)
        for left in range(0, n, COLUMNS)
    ]
    return {
        "folds": folds,
        "cycles": int(systolic.cycles(INPUTS, n, k, ROWS, COLUMNS, "ws")),
        "busy": float(systolic.utilization(INPUTS, n, k, ROWS, COLUMNS, "ws")),
    }


MECHANISM = Mechanism(
    name="skewed_array",
    title="An array of 4 × 4 cells, one cycle at a time",
    todo="Press *Play*. Then drag the *orange: lower edge* of the weights down by one row.",
    alt="On the left a matrix of weights, a rectangle that can be made larger. On the right an array of 4 × 4 cells, "
    "which keep weights and light up while they multiply. Numbers enter it from the left, each row one cycle later "
    "than the one before, and sums run down through its columns.",
    data=data,
)
