"""Lab 15: after each column the weights to come are those that least squares finds for the errors so far."""

from functools import cache

import numpy as np
import pytest

from lplab.widgets.mechanisms import columns

DATA = columns.data()
WAYS = {"recorded": False, "shuffled": True}
EACH = pytest.mark.parametrize(("bits", "way"), [(bits, way) for bits in columns.GRIDS for way in WAYS])


@cache
def by_least_squares(bits: int, way: str, border: int) -> np.ndarray:
    """The matrix when ``border`` columns are rounded, each in turn to nearest, by solving for all columns to come."""
    inputs, weights = columns.layer(WAYS[way])
    if border == 0:
        return weights
    hessian = 2 / len(inputs) * inputs.T @ inputs
    hessian += columns.DAMPING * np.trace(hessian) / len(hessian) * np.eye(len(hessian))
    found, grid = by_least_squares(bits, way, border - 1).copy(), columns.GRIDS[bits]
    steps, zeros = grid.fit(np, weights)
    found[:, border - 1 : border] = grid.nearest(np, found[:, border - 1 : border], steps, zeros)
    errors = (found - weights)[:, :border]
    rest = np.linalg.solve(hessian[border:, border:], hessian[border:, :border])
    found[:, border:] = weights[:, border:] - errors @ rest.T
    return found


@EACH
def test_weights_to_come_are_moved_as_least_squares_moves_them(bits, way):
    _, weights = columns.layer()
    steps, zeros = columns.GRIDS[bits].fit(np, weights)
    course = DATA[str(bits)][way]
    for border in range(columns.COLUMNS + 1):
        found = by_least_squares(bits, way, border)
        np.testing.assert_allclose(course["moved"][border], ((found - weights) / steps)[:, border:], atol=1e-3)
        codes = np.round(found / steps + zeros)[:, :border]
        np.testing.assert_array_equal(np.array(course["codes"])[:, :border], codes)


@EACH
def test_codes_of_nearest_are_those_of_the_grid(bits, way):
    _, weights = columns.layer()
    steps, zeros = columns.GRIDS[bits].fit(np, weights)
    course = DATA[str(bits)][way]
    np.testing.assert_allclose((course["other"] - zeros) * steps, columns.GRIDS[bits].quantize(weights))
    assert set(np.unique(course["codes"])) == set(range(2**bits))


@pytest.mark.parametrize("bits", columns.GRIDS)
def test_gptq_halves_the_error_and_does_little_where_inputs_are_shuffled(bits):
    for way in WAYS:
        nearest, gptq = (np.array(DATA[str(bits)][way]["errors"][how]) for how in ("nearest", "gptq"))
        assert nearest[0] == gptq[0] == 0 and (gptq[1:] < nearest[1:]).all()
        share = gptq[-1] / nearest[-1]
        assert share < 0.5 if way == "recorded" else share > 0.95
