"""Lab 11: the cycles of the array are those of an array that passes numbers on, simulated here number by number."""

import numpy as np
import pytest

from lplab.widgets.mechanisms import skewed_array


def simulated(rows, columns):
    """Which cells multiply in each cycle until the last product: weights are loaded, then numbers enter skewed."""
    shape, inputs = (skewed_array.ROWS, skewed_array.COLUMNS), skewed_array.INPUTS
    weights, numbers = np.zeros(shape, bool), np.zeros(shape, bool)
    sums, working, finished = np.zeros(shape, int), [], []
    while len(working) < 3 * skewed_array.ROWS + skewed_array.COLUMNS + inputs:
        cycle = len(working)
        if cycle < skewed_array.ROWS:  # the lowest row of weights comes first, and all move down
            weights = np.roll(weights, 1, axis=0)
            weights[0] = (np.arange(skewed_array.COLUMNS) < columns) & (skewed_array.ROWS - 1 - cycle < rows)
        finished.append(sums[-1].copy())
        numbers, sums = np.roll(numbers, 1, axis=1), np.roll(sums, 1, axis=0)
        begun = cycle - skewed_array.ROWS
        numbers[:, 0] = [row < rows and 0 <= begun - row < inputs for row in range(skewed_array.ROWS)]
        sums[0] = 0
        working.append(numbers & weights)
        sums += working[-1]
    # each sum that leaves a column below holds a product with each of its weights
    left = np.array(finished)
    assert all(left[:, c].tolist().count(rows) == inputs * (c < columns) for c in range(skewed_array.COLUMNS))
    last = max(cycle for cycle, each in enumerate(working) if each.any())
    return np.array(working[: last + 1])


def test_cells_start_when_their_first_numbers_meet():
    working = simulated(skewed_array.ROWS, skewed_array.COLUMNS)
    assert np.array_equal(working.argmax(axis=0), skewed_array.starts())
    assert len(working) == skewed_array.size(4, 4)["cycles"]


@pytest.mark.parametrize(("k", "n"), [(1, 1), (4, 4), (5, 4), (3, 8), (7, 6), (8, 8)])
def test_weights_take_all_their_folds_and_the_share_counts_each_product(k, n):
    found = skewed_array.size(k, n)
    covered = np.zeros((k, n), int)
    for top, left, rows, columns in found["folds"]:
        covered[top : top + rows, left : left + columns] += 1
    assert np.all(covered == 1)
    products = sum(simulated(rows, columns).sum() for *_, rows, columns in found["folds"])
    assert products == k * n * skewed_array.INPUTS
    assert found["cycles"] == len(found["folds"]) * len(simulated(4, 4))
    assert found["busy"] == pytest.approx(products / (16 * found["cycles"]))


def test_one_row_more_doubles_the_cycles():
    assert skewed_array.size(5, 4)["cycles"] == 2 * skewed_array.size(4, 4)["cycles"]
