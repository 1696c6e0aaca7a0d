"""Grids of weights in groups: against the published formulas, written anew; and what is refused."""

import numpy as np
import pytest
import torch

from lplab.quantizers import SAWB_ROWS, WeightGrid, array_inputs, sawb
from lplab.quantizers.weight_grid import KINDS

RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal((6, 32)).astype(np.float32)


def levels(kind, bits, group):
    """All values that a group may take, one by one from the description of its kind."""
    low, high, top = group.min(), group.max(), group[np.abs(group).argmax()]
    n = 2**bits
    if kind == "asymmetric":
        low, high = min(low, 0), max(high, 0)
    if kind.startswith("asymmetric"):
        step = (high - low) / (n - 1)
        zero = min(max(round(-low / step), 0), n - 1)
        return np.array([(code - zero) * step for code in range(n)])
    if kind == "symmetric":
        return np.array([code * abs(top) / (n / 2 - 1) for code in range(1 - n // 2, n // 2)])
    if kind == "full_range":
        return np.sort([code * top / (-n / 2) for code in range(-n // 2, n // 2)])
    if kind == "no_zero":
        return np.array([(2 * code + 1 - n) / n * abs(top) for code in range(n)])
    return np.array([-2 / 3, 0, 2 / 3]) * abs(top)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("side", [0.0, 9.0], ids=["around zero", "above zero"])
def test_each_weight_becomes_the_nearest_level_of_its_group(kind, bits, side):
    if kind == "ternary" and bits != 2:
        pytest.skip("three levels have no other bits")
    found = WeightGrid(bits, 16, kind).quantize(WEIGHTS + np.float32(side)).astype(np.float64)
    for group, values in zip((WEIGHTS + np.float32(side)).reshape(-1, 16), found.reshape(-1, 16), strict=True):
        grid = levels(kind, bits, group.astype(np.float64))
        want = grid[np.abs(group[:, None] - grid).argmin(1)]
        np.testing.assert_allclose(values, want, rtol=1e-6, atol=1e-6)


def test_a_group_on_one_side_of_zero_is_cut_off_by_awqs_zero_and_not_by_gptqs():
    w = np.array([[9.0, 9.5, 10.0, 12.0]])
    assert np.abs(WeightGrid(4, 4).quantize(w) - w).max() < 0.5
    assert WeightGrid(4, 4, "asymmetric_awq").quantize(w).max() <= 3.0


def test_two_bits_without_zero_are_the_grid_of_sawb_and_three_levels_too():
    """ParetoQ's levels of 2025 are a quarter and three quarters of α: SAWB's four levels of 2019 over ±3/4 α."""
    for kind, row, share in (("no_zero", "2bit", 3 / 4), ("ternary", "ternary", 2 / 3)):
        w = np.concatenate([RNG.uniform(-1, 1, 300), [1.0, 0.0, -0.5, 0.5]])[None]  # α is 1
        np.testing.assert_allclose(np.unique(WeightGrid(2, None, kind).quantize(w)), SAWB_ROWS[row].grid * share)
        want = sawb.on_levels(np, w, np.array(share), SAWB_ROWS[row].levels)
        np.testing.assert_allclose(WeightGrid(2, None, kind).quantize(w), want, atol=1e-15)


def test_the_sign_of_a_full_range_scale_gives_two_bits_a_fourth_level():
    w = WEIGHTS[:1]
    assert len(np.unique(WeightGrid(2, None, "symmetric").quantize(w))) == 3
    full = WeightGrid(2, None, "full_range").quantize(w)
    assert len(np.unique(full)) == 4
    assert np.abs(full).max() == np.abs(w).max()


def test_a_search_takes_the_range_with_the_least_error_of_all_that_it_tries():
    # Numbers of its own: the tests run in any order.
    w = np.concatenate([np.random.default_rng(0).standard_normal(63), [12.0]])[None]
    tried = [WeightGrid(2, None)._of_range(np, w.min(keepdims=True) * s, w.max(keepdims=True) * s) for s in shares(50)]
    errors = [(np.abs(WeightGrid(2, None).nearest(np, w, *each) - w) ** 2.4).sum() for each in tried]
    found = WeightGrid(2, None, search=50).quantize(w)
    assert (np.abs(found - w) ** 2.4).sum() == pytest.approx(min(errors), rel=1e-12)
    assert min(errors) < 0.9 * errors[0]


def shares(count):
    return [1 - 0.8 * step / count for step in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_tensors_of_any_device_give_the_same_bits(kind, monkeypatch):
    grid = WeightGrid(2, 8, kind, search=5)
    want = grid.quantize(WEIGHTS)
    assert torch.equal(grid.quantize(torch.from_numpy(WEIGHTS)), torch.from_numpy(want))
    monkeypatch.setattr(array_inputs, "shares_memory", lambda tensor: False)
    np.testing.assert_allclose(grid.quantize(torch.from_numpy(WEIGHTS)).numpy(), want, rtol=1e-6)


def test_zeros_stay_zeros_and_gradients_pass_straight_through():
    for kind in set(KINDS) - {"no_zero"}:
        np.testing.assert_array_equal(WeightGrid(2, 4, kind).quantize(np.zeros((2, 8))), 0)
    w = torch.from_numpy(WEIGHTS).requires_grad_()
    WeightGrid(4, 8).quantize(w).sum().backward()
    assert torch.equal(w.grad, torch.ones_like(w))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: WeightGrid(1), "bits must be an integer from 2 to 8, got 1"),
        (lambda: WeightGrid(4, kind="nf4"), "unknown kind 'nf4'; allowed: asymmetric, "),
        (lambda: WeightGrid(3, kind="ternary"), "three levels need bits=2"),
        (lambda: WeightGrid(4, 7).quantize(WEIGHTS), "group=7 does not divide the 32 inputs of a row"),
        (lambda: WeightGrid(4, 2).quantize([[1.0, np.nan]]), "weights must be finite numbers"),
    ],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
