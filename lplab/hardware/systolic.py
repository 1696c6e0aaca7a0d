"""Cycles of a matrix product on a systolic array, and the share of its multipliers that are in use.

After SCALE-Sim (Samajdar et al., ISPASS 2020), whose code reports one cycle too few: a product of
4 × 4 × 4 on 4 × 4 cells ends after 10 cycles, not 9.

>>> int(cycles(4, 4, 4, rows=4, columns=4))
10
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.checks import check_numbers
from lplab.hardware.accelerators import Accelerator
from lplab.lookup import canonical_name

DATAFLOWS = {
    "os": "output stationary: every cell keeps one sum",
    "ws": "weight stationary: every cell keeps one weight",
    "is": "input stationary: every cell keeps one activation",
}
"""Dataflows: which operand stays in the cells."""


def cycles(m: Any, n: Any, k: Any, rows: Any, columns: Any, dataflow: str = "os") -> np.ndarray:
    """Clock cycles of an [m, k] by [k, n] product on an array of ``rows`` × ``columns`` cells.

    What stays is cut into folds as large as the array; each fold streams the third dimension through it:

    ======== =================== ==================== =============================
    dataflow along the rows      along the columns    cycles of a fold
    ======== =================== ==================== =============================
    os       m (outputs)         n (outputs)          k + rows + columns − 2
    ws       k (weights)         n (weights)          m + 2·rows + columns − 2
    is       k (inputs)          m (inputs)           n + 2·rows + columns − 2
    ======== =================== ==================== =============================

    The second ``rows`` of ws and is loads what stays. Folds follow each other without overlap.

    Args:
        m, n, k: sizes of the product, whole numbers from 1 (arrays are fine).
        rows, columns: sizes of the array.
        dataflow: "os", "ws" or "is".

    Returns:
        float64, of the broadcast shape of the sizes.

    Raises:
        ValueError: a size that is below 1 or not whole, or an unknown dataflow.

    >>> cycles(128, 128, [128, 4096], rows=128, columns=128)
    array([ 382., 4350.])
    """
    sizes = {"m": m, "n": n, "k": k, "rows": rows, "columns": columns}
    m, n, k, rows, columns = (_sizes(name, value) for name, value in sizes.items())
    dataflow = canonical_name(DATAFLOWS, dataflow, "dataflow")
    along, across, streamed = {"os": (m, n, k), "ws": (k, n, m), "is": (k, m, n)}[dataflow]
    loading = 0 if dataflow == "os" else rows
    return np.ceil(along / rows) * np.ceil(across / columns) * (streamed + loading + rows + columns - 2)


def utilization(m: Any, n: Any, k: Any, rows: Any, columns: Any, dataflow: str = "os") -> np.ndarray:
    """The share of the array's multipliers that work, over the whole product: m·n·k / (cells · cycles).

    >>> round(float(utilization(4, 4, 4, rows=4, columns=4)), 2)
    0.4
    """
    taken = cycles(m, n, k, rows, columns, dataflow)
    work = np.asarray(m, float) * np.asarray(n, float) * np.asarray(k, float)
    cells = np.asarray(rows, float) * np.asarray(columns, float)
    return work / (cells * taken)


def of_chip(chip: Accelerator, m: Any, n: Any, k: Any, groups: Any = 1, speed: Any = 1.0) -> np.ndarray:
    """The share of a chip's multipliers that work on products, weights stationary, in all of its arrays.

    The arrays share the work as it suits the product: folds and groups go to different arrays, and where there are
    fewer of these than arrays, arrays share the rows of a fold. A chip that is ``speed`` times as fast in narrow
    numbers has as many multipliers in each cell: they work along k.

    Args:
        chip: one whose table gives ``array_rows``, ``array_columns`` and ``arrays``.
        m, n, k, groups: sizes of the products, arrays of one shape; where m is 0 the share is 1.
        speed: peak in the products' format over the chip's 16-bit peak.

    Raises:
        ValueError: the chip's arrays are not in the table.
    """
    if chip.array_rows is None or chip.array_columns is None:
        raise ValueError(f"{chip.label} has no systolic array in the table; give a utilization between 0 and 1")
    sizes = {"m": m, "n": n, "k": k, "groups": groups, "speed": speed}
    m, n, k, groups, speed = np.broadcast_arrays(*(check_numbers(name, value) for name, value in sizes.items()))
    rows, columns, arrays = chip.array_rows * np.maximum(speed, 1), chip.array_columns, chip.arrays or 1.0
    some = np.where(m > 0, 1.0, np.nan)
    folds = groups * np.ceil(k * some / rows) * np.ceil(n * some / columns)
    sharing = np.maximum(1, np.floor(arrays / folds))  # arrays that share one fold
    rounds = np.ceil(folds / arrays)
    taken = rounds * (np.ceil(m / sharing) + 2 * chip.array_rows + columns - 2)
    share = m * n * k * groups / (rows * columns * arrays * taken)
    return np.where(m > 0, share, 1.0)


def _sizes(name: str, value: Any) -> np.ndarray:
    sizes = np.asarray(value)
    if sizes.dtype.kind not in "iuf" or not np.all(sizes >= 1):
        raise ValueError(f"{name} must be a number from 1, got {value!r}")
    if not np.all((sizes == np.floor(sizes)) & np.isfinite(sizes)):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    return sizes.astype(float)
