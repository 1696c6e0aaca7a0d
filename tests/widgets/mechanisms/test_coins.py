"""Lab 02: small updates are lost by nearest, and kept by the coin on average."""

import numpy as np
import pytest

from lplab.widgets.mechanisms import coins


@pytest.mark.parametrize("update", coins.UPDATES)
def test_nearest_takes_no_update_or_a_whole_step_each_time(update):
    nearest = coins.walk(update)["nearest"]
    assert nearest == ([0] * (coins.COUNT + 1) if update <= 0.5 else list(range(coins.COUNT + 1)))  # ties go down


@pytest.mark.parametrize("update", coins.UPDATES)
def test_a_coin_gives_no_step_or_one_and_the_mean_is_the_true_sum(update):
    walk = coins.walk(update)
    steps = np.array(walk["coins"])
    assert steps.shape == (coins.WEIGHTS, coins.COUNT + 1) and not steps[:, 0].any()
    assert set(np.diff(steps).ravel()) == {0, 1}
    np.testing.assert_allclose(walk["mean"], steps.mean(axis=0), atol=1e-9)
    deviation = np.sqrt(coins.COUNT * update * (1 - update) / coins.WEIGHTS)
    assert abs(walk["mean"][-1] - coins.COUNT * update) < 4 * deviation, "four standard deviations"
