"""Lab 11: the cycles of the array are those of an array that passes numbers on, simulated here number by number."""

import numpy as np
import pytest

from lplab.widgets.mechanisms import cells


def simulated(rows, columns):
    """Which cells multiply in each cycle until the last product: numbers enter skewed and go on to the next cell."""
    right = np.zeros((cells.ROWS, cells.COLUMNS), bool)  # whether a number of the first matrix is in the cell
    down, working = right.copy(), []
    for cycle in range(cells.INNER + cells.ROWS + cells.COLUMNS):
        right, down = np.roll(right, 1, axis=1), np.roll(down, 1, axis=0)
        right[:, 0] = [row < rows and 0 <= cycle - row < cells.INNER for row in range(cells.ROWS)]
        down[0] = [column < columns and 0 <= cycle - column < cells.INNER for column in range(cells.COLUMNS)]
        working.append(right & down)
    last = max(cycle for cycle, each in enumerate(working) if each.any())
    return np.array(working[: last + 1])


def test_cells_start_when_their_first_numbers_meet():
    working = simulated(cells.ROWS, cells.COLUMNS)
    assert np.array_equal(working.argmax(axis=0), cells.starts())
    assert len(working) == cells.size(4, 4)["cycles"]


@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 4), (5, 4), (3, 8), (7, 6), (8, 8)])
def test_a_result_takes_all_its_folds_and_the_share_counts_each_product(m, n):
    found = cells.size(m, n)
    covered = np.zeros((m, n), int)
    for top, left, rows, columns in found["folds"]:
        covered[top : top + rows, left : left + columns] += 1
    assert np.all(covered == 1)
    products = sum(simulated(rows, columns).sum() for *_, rows, columns in found["folds"])
    assert products == m * n * cells.INNER
    assert found["cycles"] == len(found["folds"]) * len(simulated(4, 4))
    assert found["busy"] == pytest.approx(products / (16 * found["cycles"]))


def test_one_row_more_doubles_the_cycles():
    assert cells.size(5, 4)["cycles"] == 2 * cells.size(4, 4)["cycles"]
