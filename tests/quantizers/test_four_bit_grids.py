"""Four-bit grids: their values, and their effects on tensors."""

import numpy as np
import pytest

from lplab.quantizers import GRADIENT_GRIDS, LUQ, GridEffect, Radix4, grid_effect, two_phase
from lplab.quantizers.gradscale import GradScale, scales_of


@pytest.mark.parametrize("name", GRADIENT_GRIDS)
def test_rounding_leaves_the_values_unchanged(name):
    grid = GRADIENT_GRIDS[name]
    assert list(grid.values) == sorted(grid.values) and min(grid.values) > 0
    if name == "radix4_mean":  # the mean of two roundings need not be a fixed point
        x = np.exp2(np.linspace(-12, 9, 4001))
        assert set(grid.quantize(x).tolist()) == {0.0, *grid.values}
    else:
        np.testing.assert_allclose(grid.quantize(grid.values), grid.values, rtol=1e-15)
        np.testing.assert_allclose(grid.quantize(-np.array(grid.values)), -np.array(grid.values), rtol=1e-15)


@pytest.mark.parametrize("name", ["int4", "radix2", "radix4_even", "radix4_odd", "radix4_mean"])
def test_the_threshold_to_zero(name):
    grid = GRADIENT_GRIDS[name]
    assert grid.quantize([0.9999 * grid.zero_below, 0.0]).tolist() == [0, 0]
    assert grid.quantize([1.0001 * grid.zero_below])[0] == grid.values[0]


def test_luq_may_round_up_below_the_threshold_and_keeps_the_mean():
    x = np.full(4000, 0.25)
    q = GRADIENT_GRIDS["luq"].quantize(x, seed=7)
    assert set(q.tolist()) == {0.0, 1.0} and abs(q.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 4000)
    np.testing.assert_array_equal(q, LUQ().quantize(x, 7, amax=64.0))


def test_the_phases_are_those_of_the_library():
    x = np.random.default_rng(0).normal(size=1000) * 8
    even, odd = two_phase(x, 4.0)
    np.testing.assert_array_equal(GRADIENT_GRIDS["radix4_even"].quantize(x, 4.0), Radix4().quantize(x, 4.0))
    np.testing.assert_array_equal(GRADIENT_GRIDS["radix4_odd"].quantize(x, 4.0), odd)
    np.testing.assert_array_equal(GRADIENT_GRIDS["radix4_mean"].quantize(x, 4.0), (even + odd) / 2)


def test_an_effect_counted_by_hand():
    found = grid_effect([0.0, 100.0, 0.5, -3.0], "radix2")  # becomes 0, 64, 0, −4
    assert found.zeroed == pytest.approx(1 / 3) and found.saturated == 0.25
    assert found.bias == pytest.approx((-36 - 0.5 + 1) / 103.5)
    assert found.error == pytest.approx(np.sqrt(36**2 + 0.25 + 1) / np.sqrt(100**2 + 0.25 + 9))
    assert found.cosine == pytest.approx((6400 + 12) / np.sqrt(10009.25) / np.sqrt(4096 + 16))


def test_a_power_of_two_moves_between_tensor_and_scale():
    x = np.random.default_rng(1).normal(size=500)
    assert grid_effect(x / 1024, "radix4_even", 1024.0) == grid_effect(x, "radix4_even")
    assert grid_effect(x / 1024, "luq", 1024.0, seed=3) == grid_effect(x, "luq", seed=3)


def test_tensors_of_zeros_and_tensors_that_become_zero():
    assert grid_effect(np.zeros(3), "int4") == GridEffect(0.0, 0.0, 0.0, 0.0, 0.0)
    assert grid_effect([0.1], "radix2") == GridEffect(1.0, 0.0, -1.0, 1.0, 0.0)


@pytest.mark.parametrize(("x", "grid", "scale", "message"), [
    ([1.0], "fp4", 1.0, "unknown grid 'fp4'; allowed: int4, radix2"),
    ([1.0, np.inf], "int4", 1.0, "finite numbers, at least one"),
    ([], "int4", 1.0, "finite numbers, at least one"),
    ([1.0], "int4", -2.0, "scale must be a positive finite number, got -2.0"),
])  # fmt: skip
def test_invalid_arguments(x, grid, scale, message):
    with pytest.raises(ValueError, match=message):
        grid_effect(x, grid, scale)


def test_scales_of_a_recorded_run_are_those_of_single_steps():
    largest = np.exp2(np.random.default_rng(2).normal(-14, 2, 60))
    layer, expected = GradScale(1.0), []
    for value in largest:
        layer.vote(np.array([value, -value / 2]))
        expected.append(layer.scale)
        layer.update()
    assert scales_of(largest).tolist() == expected
    assert scales_of([3e-5] * 24)[[20, 21, 23]].tolist() == [2.0**20, 2.0**21, 2.0**21]
    assert scales_of([3e-5], None).tolist() == [2.0**21]
