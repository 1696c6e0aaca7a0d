"""Exercise 11.1: cycles of a matrix product on a systolic array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Number
from lplab.exercises.student_figures import read_results, student_figure


def array_cycles(m, n, k, rows, columns):
    """Cycles of an (m, k) by (k, n) product on an array of rows × columns cells that keep their sums."""
    folds = -(-m // rows) * -(-n // columns)
    return folds * (k + rows + columns - 2)


FOLDS, ONE = "-(-m // rows) * -(-n // columns)", "folds * (k + rows + columns - 2)"


def product_cases() -> list[Args]:
    """Products smaller than the array, as large, a little larger; arrays that are flat, tall, and a single cell."""
    arrays = [(1, 1), (4, 4), (8, 2), (2, 8), (3, 5), (128, 128)]
    cases = [
        (m, n, k, rows, columns)
        for rows, columns in arrays
        for m in sorted({1, rows, rows + 1, 2 * rows, 3 * rows - 1})
        for n in sorted({1, columns, columns + 1, 2 * columns})
        for k in (1, 7, 64)
    ]
    return [*cases, (3136, 64, 576, 128, 128), (49, 2048, 512, 128, 128), (12544, 1, 9, 128, 128)]


def why_cycles(args: Args, expected: Any) -> str:
    """The number of folds, and the cycles of one."""
    m, n, k, rows, columns = args
    down, across = -(-m // rows), -(-n // columns)
    one = f"{k} + {rows} + {columns} − 2 = {k + rows + columns - 2}"
    return f"{down} × {across} = {down * across} folds of {one} cycles."


def long_products() -> list[Args]:
    """Products with longer and longer sums on one array."""
    return [(m, n, 2**power, 16, 8) for power in range(4, 15) for m, n in ((16, 8), (40, 20))]


def fills_in_the_end(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether no array does more than one multiplication in a cell and cycle, and long sums fill it."""
    for args, yours in zip(calls, results, strict=True):
        m, n, k, rows, columns = args
        share = m * n * k / (rows * columns * float(yours)) if yours else 2.0
        full = m * n / (-(-m // rows) * rows * -(-n // columns) * columns)
        if share > full or (k == 2**14 and share < 0.99 * full):
            found = f"For m = {m}, n = {n}, k = {k} on {rows} × {columns} cells yours keeps {share:.1%} of them busy"
            return Finding(f"{found}; with so long a sum it must come close to {full:.1%}, and never pass it.", args, yours)
    return None


CYCLES = Exercise(
    id="11.1",
    version=1,
    title="Cycles of a systolic array",
    goal="Goal 1: say how much of a chip a product can use",
    minutes=15,
    difficulty=2,
    statement=r"""
        An array of `rows` × `columns` cells multiplies an (m, k) by a (k, n) matrix. Each cell keeps **one sum** of the result. A row of the first matrix enters each row of cells from the left, one number in each cycle, and a column of the second matrix enters each column of cells from above. Every cell
        multiplies the two numbers that it gets, adds the product to its sum, and passes both numbers on. So that the right numbers meet, row $r$ starts $r$ cycles late and column $c$ starts $c$ cycles late. The farthest cell therefore starts `rows + columns − 2` cycles after the nearest one, and then
        needs `k` cycles. A result that is larger than the array is cut into **folds** of at most `rows` × `columns` sums, one after the other without overlap. A fold that does not fill the array takes as long as one that does. Write `array_cycles(m, n, k, rows, columns)`.
    """,
    reference=array_cycles,
    form=Number(),
    examples=(
        Example((4, 4, 4, 4, 4), "4 cycles of multiplying in every cell, and the last one starts 6 cycles late."),
        Example((1, 1, 1, 1, 1), "One multiplication: no cell waits for another."),
        Example((1, 1, 5, 4, 4), "One sum in the corner, and yet the fold takes as long as a full one: the array does not know that fifteen cells have nothing to do."),
        Example((5, 4, 4, 4, 4), "One row too many: a second fold, as long as the first."),
        Example((5, 5, 4, 4, 4), "One row and one column too many: four folds."),
        Example((128, 128, 4096, 128, 128), "With a long sum the start hardly matters: 94 % of the cells' cycles are multiplications."),
        Example((2, 6, 3, 2, 3), "An array need not be square: 1 × 2 folds."),
        Example((12544, 1, 9, 128, 128), "A channel of a depthwise convolution: 98 folds that use one column of 128, nine numbers deep."),
    ),
    boundary=product_cases,
    properties=(Property("long sums fill the array, and nothing more than fills it", long_products, fills_in_the_end),),
    why=why_cycles,
    mistakes=(
        mistake("one cycle too few, as the best-known simulator reports", "columns - 2", "columns - 3"),
        mistake("one cycle too many: the first cell is taken to start late as well", "columns - 2", "columns - 1"),
        mistake("the delay of one side is forgotten", "k + rows + columns - 2", "k + rows - 1"),
        mistake("the array is always full: no delay at all", "k + rows + columns - 2", "k"),
        mistake("the delay is paid once, folds overlap", ONE, "folds * k + rows + columns - 2"),
        mistake("folds are not rounded up", FOLDS, "m / rows * n / columns"),
        mistake("folds are rounded down", FOLDS, "max(1, m // rows) * max(1, n // columns)"),
        mistake("only the number of sums counts, not their shape", FOLDS, "-(-m * n // (rows * columns))"),
        mistake("rows and columns are exchanged", FOLDS, "-(-m // columns) * -(-n // rows)"),
        mistake("a fold that is not full is shorter", "k + rows + columns - 2", "k + min(m, rows) + min(n, columns) - 2"),
        mistake("the sum is cut into folds, too", FOLDS, "-(-m // rows) * -(-n // columns) * -(-k // rows)"),
        mistake("weights are loaded first, as in another kind of array", "k + rows + columns - 2", "k + 2 * rows + columns - 2"),
        mistake("multiplications over cells: what a peak rate promises", ONE, "m * n * k / (rows * columns)"),
        mistake("folds are added instead of multiplied", FOLDS, "-(-m // rows) + -(-n // columns)"),
        mistake("a multiplication and an addition take a cycle each", "k + rows", "2 * k + rows"),
    ),
    hints=(
        "Draw 2 × 2 cells and k = 1. The first cell multiplies in cycle 1, its two neighbours in cycle 2, the last one in cycle 3: 1 + 2 + 2 − 2.",
        "How many folds: ⌈m / rows⌉ · ⌈n / columns⌉; ⌈a / b⌉ is -(-a // b) in Python. Every fold takes the same time.",
        "A fold ends when its farthest cell is done: how many cycles pass before this cell starts, and how many does it then need? Folds come one after the other, so their cycles add up.",
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
    library = systolic.utilization(m, n, k, ROWS, COLUMNS)
    with np.errstate(divide="ignore"):
        yours = m * n * k / (ROWS * COLUMNS * taken)
    along = "products of ResNet-18, then of MobileNetV2, one image at a time"
    title = f"An array of {ROWS} × {COLUMNS}"
    return figures.shares(names, library, yours, name=title, what="cells at work", along=along, begins=begins)
