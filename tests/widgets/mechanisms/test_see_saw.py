"""Lab 15: both sides of each see-saw multiply to the same, and errors are those of integers rounded by hand."""

from functools import cache

import numpy as np
import pytest

from lplab.widgets.mechanisms import see_saw


@pytest.fixture(scope="module")
def data():
    return see_saw.data()


def int8(x: np.ndarray) -> np.ndarray:
    """Rounded to integers from -127 to 127 with one scale."""
    scale = np.abs(x).max() / 127
    return np.round(x / scale) * scale


@cache
def by_hand(place: int | None) -> float:
    """The error of the output at a place of alpha, or without smoothing."""
    inputs, weights = see_saw.layer()
    factors = np.ones(inputs.shape[1])
    if place is not None:
        alpha = place / see_saw.PARTS
        factors = np.abs(inputs).max(axis=0) ** alpha / np.abs(weights).max(axis=0) ** (1 - alpha)
    exact = inputs @ weights.T
    return float(np.linalg.norm(int8(inputs / factors) @ int8(weights * factors).T - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("place", [0, 7, 20, 33, see_saw.PARTS])
def test_an_error_is_that_of_rounding_by_hand(data, place):
    assert data["errors"][place] == pytest.approx(by_hand(place), rel=1e-6)


def test_without_smoothing_it_is_that_of_rounding_by_hand(data):
    assert data["unsmoothed"] == pytest.approx(by_hand(None), rel=1e-6)


def test_the_product_stays_and_each_end_is_even_on_one_side(data):
    inputs, weights = (np.array([place[side] for place in data["places"]]) for side in ("inputs", "weights"))
    assert np.prod(data["before"]) == pytest.approx(data["product"])
    np.testing.assert_allclose(inputs[:, 0] * weights[:, 0], data["product"], rtol=1e-3)
    np.testing.assert_allclose(inputs * weights, np.broadcast_to(inputs[0] * weights[0], inputs.shape), rtol=1e-3)
    np.testing.assert_allclose(weights[0], 1)
    np.testing.assert_allclose(inputs[-1], 1)


def test_the_smallest_error_lies_in_between_and_below_that_without_smoothing(data):
    errors = data["errors"]
    assert min(errors) < data["unsmoothed"] / 2 < errors[0] / 2 and errors[-1] > data["unsmoothed"]
    best = int(np.argmin(errors))
    assert 0 < best < see_saw.PARTS and (np.diff(errors[: best + 1]) < 0).all()
