"""Exercise 11.1: cycles of a matrix product on a systolic array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Number
from lplab.exercises.student_figures import read_results, student_figure


def array_cycles(m, n, k, rows, columns):
    """Cycles of an (m, k) by (k, n) product on an array of rows × columns cells that keep their weights."""
    folds = -(-k // rows) * -(-n // columns)
    return folds * (m + 2 * rows + columns - 2)


FOLDS, FOLD = "-(-k // rows) * -(-n // columns)", "m + 2 * rows + columns - 2"
ALL = f"folds * ({FOLD})"


def product_cases() -> list[Args]:
    """Products smaller than the array, as large, a little larger; arrays that are flat, tall, and a single cell."""
    arrays = [(1, 1), (4, 4), (8, 2), (2, 8), (3, 5), (128, 128)]
    cases = [
        (m, n, k, rows, columns)
        for rows, columns in arrays
        for k in sorted({1, rows, rows + 1, 2 * rows, 3 * rows - 1})
        for n in sorted({1, columns, columns + 1, 2 * columns})
        for m in (1, 7, 64)
    ]
    return [*cases, (3136, 64, 576, 128, 128), (49, 2048, 512, 128, 128), (12544, 1, 9, 128, 128)]


def why_cycles(args: Args, expected: Any) -> str:
    """The number of folds, and the cycles of one."""
    m, n, k, rows, columns = args
    down, across = -(-k // rows), -(-n // columns)
    one = f"{rows} cycles of loading, {rows + columns - 2} of delay and {m} of multiplying"
    return f"{down} × {across} = {down * across} {'fold' if down * across == 1 else 'folds'} of {one}."


def long_products() -> list[Args]:
    """Products with more and more rows of the first matrix on one array."""
    return [(2**power, n, k, 16, 8) for power in range(4, 15) for k, n in ((16, 8), (40, 20))]


def fills_in_the_end(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether no array does more than one multiplication in a cell and cycle, and many rows fill it."""
    for args, yours in zip(calls, results, strict=True):
        m, n, k, rows, columns = args
        share = m * n * k / (rows * columns * float(yours)) if yours else 2.0
        full = k * n / (-(-k // rows) * rows * -(-n // columns) * columns)
        if share > full or (m == 2**14 and share < 0.99 * full):
            found = f"For m = {m}, n = {n}, k = {k} on {rows} × {columns} cells yours keeps {share:.1%} of them busy"
            return Finding(f"{found}; with so many rows it must come close to {full:.1%}, and never pass it.", args, yours)
    return None


CYCLES = Exercise(
    id="11.1",
    version=1,
    title="Cycles of a systolic array",
    goal="Goal 1: say how much of a chip a product can use",
    minutes=15,
    difficulty=2,
    statement=r"""
        An array of `rows` × `columns` cells multiplies an (m, k) by a (k, n) matrix. Each cell keeps **one weight** of the second matrix. If this matrix is larger than the array, it is cut into **folds** of at most `rows` × `columns` weights, one after the other without overlap. In each fold:

        - Its weights move in from above, one row of cells in each cycle. This takes `rows` cycles.
        - Then the m rows of the first matrix enter from the left, one in each cycle. A cell multiplies the number that it gets by its weight, adds the product to the sum from above, and passes the number to the right and the sum down.
        - So that each number meets its sum, row $r$ of the cells starts $r$ cycles late, and column $c$ starts $c$ cycles late (both counted from 0). The fold ends with the last product of its last cell.

        A fold that does not fill the array takes as long as one that does. Write `array_cycles(m, n, k, rows, columns)`.
    """,
    reference=array_cycles,
    form=Number(),
    examples=(
        Example((4, 4, 4, 4, 4), "4 cycles of loading. Then the last cell starts 6 cycles after the first one, and multiplies for 4 cycles."),
        Example((1, 1, 1, 1, 1), "One cycle loads the only weight, and one multiplies."),
        Example((5, 1, 1, 4, 4), "One weight in the corner, and yet the fold takes as long as a full one: the array does not know that fifteen cells have nothing to do."),
        Example((4, 4, 5, 4, 4), "One row of weights too many: a second fold, as long as the first."),
        Example((4, 5, 5, 4, 4), "One row and one column of weights too many: four folds."),
        Example((4096, 128, 128, 128, 128), "With many rows of the first matrix, loading and delay hardly matter: 91 % of the cells' cycles are multiplications."),
        Example((3, 6, 2, 2, 3), "An array need not be square: 1 × 2 folds."),
        Example((12544, 1, 9, 128, 128), "A channel of a depthwise convolution: one fold, in which nine weights use 9 of 16,384 cells."),
    ),
    boundary=product_cases,
    properties=(Property("many rows fill the array, and nothing more than fills it", long_products, fills_in_the_end),),
    why=why_cycles,
    mistakes=(
        mistake("loading the weights is forgotten", "2 * rows", "rows"),
        mistake("the weights are loaded only once, before the first fold", ALL, "rows + folds * (m + rows + columns - 2)"),
        mistake("weights are loaded one by one", FOLD, "m + rows * columns + rows + columns - 2"),
        mistake("only the rows of the fold are loaded, as if the others took no time", FOLD, "m + min(k, rows) + rows + columns - 2"),
        mistake("one cycle too few: the last cell starts rows + columns − 2 cycles late, and then works for m cycles", "columns - 2", "columns - 3"),
        mistake("one cycle too many: the first cell starts without delay", "columns - 2", "columns - 1"),
        mistake("two cycles too many: rows and columns are counted from 0", "columns - 2", "columns"),
        mistake("the delay of the columns is forgotten", FOLD, "m + 2 * rows - 1"),
        mistake("the delay of the rows is forgotten", FOLD, "m + rows + columns - 1"),
        mistake("cells start without delay", FOLD, "m + rows"),
        mistake("neither loading nor delay is counted", FOLD, "m"),
        mistake("loading and delay are paid once, as if folds overlapped", ALL, "folds * m + 2 * rows + columns - 2"),
        mistake("folds are not rounded up", FOLDS, "k / rows * n / columns"),
        mistake("folds are rounded down", FOLDS, "max(1, k // rows) * max(1, n // columns)"),
        mistake("only the number of weights counts, not their shape", FOLDS, "-(-k * n // (rows * columns))"),
        mistake("rows and columns are exchanged", FOLDS, "-(-k // columns) * -(-n // rows)"),
        mistake("a fold that is not full is shorter", FOLD, "m + 2 * min(k, rows) + min(n, columns) - 2"),
        mistake("the rows of the first matrix are cut into folds, too", FOLDS, "-(-k // rows) * -(-n // columns) * -(-m // rows)"),
        mistake("the result is cut into folds: this is an array whose cells keep sums", FOLDS, "-(-m // rows) * -(-n // columns)", FOLD, "k + rows + columns - 2"),
        mistake("multiplications over cells: what a peak rate promises", ALL, "m * n * k / (rows * columns)"),
    ),
    hints=(
        "Draw 2 × 2 cells and m = 1. Two cycles load the weights. Then the first cell multiplies in the next cycle, its two neighbours one cycle later, the last one two cycles later: 2 + 3 cycles.",
        "How many folds: ⌈k / rows⌉ · ⌈n / columns⌉; ⌈a / b⌉ is -(-a // b) in Python. Every fold takes the same time.",
        "A fold ends when its farthest cell is done: how many cycles pass before this cell starts, loading included, and for how many does it then work? Folds come one after the other, so their cycles add up.",
    ),
)


ROWS = COLUMNS = 128


@student_figure("Here your {name} will be drawn beside the library's")
def draw_cycles(function: Callable[..., float]) -> Any:
    """A live figure of the share of an array that each product of two networks keeps busy, or a line that says what it waits for.

    Args:
        function: takes m, n, k, rows and columns, and returns cycles.
    """
    from lplab import figures
    from lplab.hardware import systolic, workloads

    names: list[str] = []
    sizes, begins = [], {}
    for network in ("resnet18", "mobilenetv2"):
        workload = workloads.get(network)
        begins[len(names)] = workload.label
        layers = [layer for layer in workload.layers if layer.has_product]
        names += [f"{workload.label}, {layer.name}" for layer in layers]
        sizes += [(layer.m, layer.n, layer.k) for layer in layers]
    m, n, k = np.array(sizes, dtype=np.float64).T
    taken = np.array(read_results(function, [(*size, ROWS, COLUMNS) for size in sizes], CYCLES.form, float))
    library = systolic.utilization(m, n, k, ROWS, COLUMNS, "ws")
    with np.errstate(divide="ignore"):
        yours = m * n * k / (ROWS * COLUMNS * taken)
    along = "products of ResNet-18, then of MobileNetV2, one image at a time"
    title = f"An array of {ROWS} × {COLUMNS}"
    return figures.shares(names, library, yours, name=title, what="cells at work", along=along, begins=begins)
