"""Lab 09: each step of the bin is what a learner with AdaComp sends and keeps, and what the lab says of it."""

import numpy as np
import pytest

from lplab.compression import AdaComp, exchange
from lplab.widgets.mechanisms import bin


@pytest.mark.parametrize("first", [-8, -3, 0, 7, 8, 12])
@pytest.mark.parametrize("second", [-8, -1, 4, 8, 12])
def test_both_steps_are_those_of_a_learner(first, second):
    adacomp = AdaComp(8)
    state = adacomp.init((8,))
    steps = bin.data()["steps"] if (first, second) == (8, 4) else None
    one = bin.step(0, [0] * 8, first)
    for number, units, owed in ((0, first, [0] * 8), (1, second, one["after"])):
        gradient = np.array(bin.GRADIENTS[number], np.float32)
        gradient[bin.HELD] = units * bin.UNIT
        found = bin.step(number, owed, units)
        np.testing.assert_array_equal(np.array(found["sent"]) * bin.UNIT, exchange(adacomp, [gradient], [state]))
        state.commit()
        np.testing.assert_array_equal(np.array(owed) * bin.UNIT + gradient, np.array(found["total"]) * bin.UNIT)
        np.testing.assert_array_equal(np.array(found["total"]) - found["sent"], found["after"])
    if steps:
        assert steps[0][first - bin.DRAGS[0]] == one and steps[1][first - bin.DRAGS[0]][second - bin.DRAGS[0]] == found


def test_element_5_passes_at_half_of_the_largest_and_waits_just_below():
    growing, slower = bin.step(0, [0] * 8, 8), bin.step(0, [0] * 8, 7)
    assert growing["total"][bin.HELD] * 2 == max(growing["total"]) and growing["sent"][bin.HELD]
    assert not slower["sent"][bin.HELD] and slower["after"][bin.HELD] == 7


def test_the_second_step_opens_with_a_bin_that_sends_nothing():
    data = bin.data()
    first, second = data["start"]
    opened = data["steps"][1][first - data["drags"][0]][second - data["drags"][0]]
    assert not any(opened["sent"]) and any(opened["total"]) and opened["after"] == opened["total"]
