"""Lab 04: paths are those of a weight that is trained by hand, with the slope 1 of the straight-through estimator."""

import numpy as np
import pytest

from lplab.widgets.mechanisms import ball

DATA = ball.data()


@pytest.mark.parametrize("place", range(0, len(ball.STARTS), 6))
def test_a_path_is_that_of_training_by_hand(place):
    w = ball.STARTS[place]
    for found_w, found_y in zip(DATA["paths"][place]["w"], DATA["paths"][place]["y"], strict=True):
        y = round(3 * w) / 3
        assert (found_w, found_y) == (pytest.approx(w, abs=1e-5), pytest.approx(y))
        w -= ball.RATE * (y - ball.TARGET)


def test_each_start_ends_between_the_levels_beside_the_target():
    for path in DATA["paths"]:
        late = np.array(path["y"][-ball.LATE :])
        assert set(late.round(3)) == {0.667, 1.0}
        assert late.mean() == pytest.approx(ball.TARGET)


def test_stairs_are_those_of_two_bits():
    assert DATA["levels"] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert DATA["edges"] == pytest.approx([1 / 6, 1 / 2, 5 / 6], abs=2e-3)
