"""Lab 11: the cycles of the array are those of an array that passes numbers on, simulated here number by number."""

import numpy as np
import pytest

from lplab.widgets.mechanisms import skewed_array


def simulated(rows, columns):
    """Which cells multiply in each cycle until the last product: numbers enter skewed and go on to the next cell."""
    right = np.zeros(
        (skewed_array.ROWS, skewed_array.COLUMNS), bool
    )  # whether a number of the first matrix is in the cell
    down, working = right.copy(), []
    for cycle in range(skewed_array.INNER + skewed_array.ROWS + skewed_array.COLUMNS):
        right, down = np.roll(right, 1, axis=1), np.roll(down, 1, axis=0)
        right[:, 0] = [row < rows and 0 <= cycle - row < skewed_array.INNER for row in range(skewed_array.ROWS)]
        down[0] = [
            column < columns and 0 <= cycle - column < skewed_array.INNER for column in range(skewed_array.COLUMNS)
        ]
        working.append(right & down)
    last = max(cycle for cycle, each in enumerate(working) if each.any())
    return np.array(working[: last + 1])


def test_cells_start_when_their_first_numbers_meet():
    working = simulated(skewed_array.ROWS, skewed_array.COLUMNS)
    assert np.array_equal(working.argmax(axis=0), skewed_array.starts())
    assert len(working) == skewed_array.size(4, 4)["cycles"]


@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 4), (5, 4), (3, 8), (7, 6), (8, 8)])
def test_a_result_takes_all_its_folds_and_the_share_counts_each_product(m, n):
    found = skewed_array.size(m, n)
    covered = np.zeros((m, n), int)
    for top, left, rows, columns in found["folds"]:
        covered[top : top + rows, left : left + columns] += 1
    assert np.all(covered == 1)
    products = sum(simulated(rows, columns).sum() for *_, rows, columns in found["folds"])
    assert products == m * n * skewed_array.INNER
    assert found["cycles"] == len(found["folds"]) * len(simulated(4, 4))
    assert found["busy"] == pytest.approx(products / (16 * found["cycles"]))


def test_one_row_more_doubles_the_cycles():
    assert skewed_array.size(5, 4)["cycles"] == 2 * skewed_array.size(4, 4)["cycles"]
