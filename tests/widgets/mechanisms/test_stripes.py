"""Lab 13: blocks are those of lplab's block formats, and products sum over the axis that both factors have."""

import numpy as np
import pytest

from lplab import formats as F
from lplab.exercises.lab13.three_products import product
from lplab.widgets.mechanisms import stripes


def block_of(cell, way):
    """A block of four numbers, by the place of its first one."""
    row, column = cell
    return (row, column // 4 * 4) if way == "along" else (row // 4 * 4, column)


@pytest.mark.parametrize("way", ["along", "down"])
@pytest.mark.parametrize("name", stripes.MATRICES)
def test_a_large_number_changes_the_others_of_its_block_alone(name, way):
    blocks = stripes.blocks(name, way)
    fmt = F.BlockFormat(F.get("e2m1"), block_size=stripes.BLOCK)
    for cell in ((0, 0), (1, 3), (3, 7)):
        x = np.ones(blocks.shape)
        x[cell] = 1000.0
        lost = fmt.quantize(x, axis=1 if way == "along" else 0) == 0
        lost[cell] = True
        np.testing.assert_array_equal(lost, blocks == blocks[cell])
        assert np.all([block_of(other, way) == block_of(cell, way) for other in np.argwhere(lost).tolist()])


@pytest.mark.parametrize("name", stripes.PRODUCTS)
def test_axes_are_those_of_the_exercise(name):
    """The reference of exercise 13.3 takes these factors, and its result has these axes."""
    shapes = {each: tuple(stripes.SIZES[axis] for axis in axes) for each, axes in stripes.MATRICES.items()}
    matrices = tuple(np.ones(shapes[each]) for each in "xwg")
    found = stripes.product(name)
    result = product(name, matrices, matrices)
    assert result.shape == tuple(stripes.SIZES[axis] for axis in found["axes"])
    assert np.all(result == stripes.SIZES[found["summed"]])
