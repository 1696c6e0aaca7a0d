"""Lab 05: what both registers hold after each step is what the library's sums give."""

from itertools import pairwise

import numpy as np
import pytest

from lplab import arithmetic
from lplab.widgets.mechanisms import register


@pytest.mark.parametrize("chunk", range(1, register.COUNT + 1))
def test_the_last_total_is_the_sum_in_chunks(chunk):
    added, part, total = register.steps(chunk)[-1]
    assert (added, part) == (register.COUNT, 0)
    assert total == arithmetic.sum(np.ones(register.COUNT), register.REGISTER, chunk=chunk)


@pytest.mark.parametrize("chunk", [1, 2, 5, 8, 31, 64])
def test_each_step_adds_a_one_or_a_whole_chunk(chunk):
    steps = register.steps(chunk)
    for (before, part, total), (after, part_after, total_after) in pairwise(steps):
        if after == before:
            assert before % chunk == 0 or before == register.COUNT
            assert (part_after, total_after) == (0, register.REGISTER.quantize(float(part + total)))
        elif chunk == 1:
            assert total_after == arithmetic.sum(np.ones(after), register.REGISTER)
        else:
            held = arithmetic.sum(np.ones((after - 1) % chunk + 1), register.REGISTER)
            assert (part_after, total_after) == (held, total)


def test_numbers_are_those_of_the_register():
    numbers = np.array(register.data()["numbers"])
    assert numbers[:10].tolist() == [0, *np.arange(1, 2, 0.125), 2]
    np.testing.assert_array_equal(numbers[2:], register.REGISTER.quantize(numbers[1:-1] * 1.001, "up"))
