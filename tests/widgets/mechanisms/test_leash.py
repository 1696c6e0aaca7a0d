"""Lab 16: recorded paths are those of local steps and of Nesterov's formula, both written out here."""

from functools import cache

import numpy as np
import pytest

from lplab.datasets import data_folder
from lplab.widgets.mechanisms import leash
from tests.datasets.scripts import script

DATA = leash.data()
RECORD = script("record_leash")


@cache
def batch(step: int, learner: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets in float64."""
    inputs, targets = RECORD.batches(step, learner)
    return inputs.numpy().astype(float), targets.numpy()[:, 0].astype(float)


@cache
def by_hand(every: int, momentum: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights of each learner after each step [4, 32, 2], and the shared ones at the start and after each meeting."""
    shared, buffer = [np.array(leash.START)], np.zeros(2)
    paths = np.zeros((4, leash.STEPS, 2))
    for step in range(leash.STEPS):
        for learner in range(4):
            inputs, targets = batch(step, learner)
            w = shared[-1] if step % every == 0 else paths[learner, step - 1]
            slope = 2 / len(targets) * inputs.T @ (inputs @ w - targets)
            paths[learner, step] = w - RECORD.RATE * slope
        if (step + 1) % every == 0:
            delta = shared[-1] - paths[:, step].mean(axis=0)
            buffer = momentum * buffer + delta
            shared.append(shared[-1] - leash.OUTER_RATE * (delta + momentum * buffer))
    return paths, np.array(shared)


@pytest.mark.parametrize("every", leash.EVERY)
def test_recorded_paths_are_those_by_hand(every):
    for momentum, run in zip(leash.MOMENTA, DATA["runs"][leash.EVERY.index(every)], strict=True):
        for name, weights in zip(("learners", "shared"), by_hand(every, momentum), strict=True):
            np.testing.assert_allclose(np.array(run[name]) / leash.UNIT, leash.on_map(weights), atol=1e-3)


def test_a_run_is_recorded_again():
    with np.load(data_folder() / "leash" / "paths.npz") as stored:
        paths, shared, size = RECORD.run(8, 0.9)
        np.testing.assert_allclose(stored["learners"][3, 6], paths, atol=1e-5)
        np.testing.assert_allclose(stored["shared"][3, 6], shared, atol=1e-5)
        assert stored["message_bytes"] == size == 8  # two weights in float32


def test_losses_are_mean_squared_errors_of_all_digits():
    inputs, targets, _ = leash.pixels()
    run = DATA["runs"][2][3]
    _, shared = by_hand(leash.EVERY[2], leash.MOMENTA[3])
    for weights, loss in zip(shared, run["losses"], strict=True):
        assert loss == pytest.approx(np.mean((inputs @ weights - targets[:, 0]) ** 2), abs=2e-3)
    assert DATA["lowest"] < min(min(each["losses"]) for row in DATA["runs"] for each in row) + 0.01


@pytest.mark.parametrize("every", leash.EVERY)
def test_the_first_outer_step_is_longer_than_the_way_to_the_mean(every):
    run = DATA["runs"][leash.EVERY.index(every)][-1]  # 0.7 · (1 + 0.9)
    begin, end = np.array(run["shared"][:2])
    way = np.mean([path[every - 1] for path in run["learners"]], axis=0) - begin
    np.testing.assert_allclose(end - begin, 1.33 * way, atol=2)


def test_in_rounds_of_eight_the_largest_momentum_ends_lowest():
    ends = [run["losses"][-1] for run in DATA["runs"][3]]
    assert ends == sorted(ends, reverse=True) and ends[0] > ends[-1] + 0.2
