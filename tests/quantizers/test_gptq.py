"""GPTQ: against least squares, column by column; against rounding to nearest; and what is refused."""

import numpy as np
import pytest
import torch

from lplab.quantizers import WeightGrid, array_inputs, gptq_round, input_hessian
from lplab.quantizers.gptq import inverse_factor


def correlated(rows, inputs, seed=0):
    """Inputs with strong correlations between neighbours."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, inputs)) @ (np.eye(inputs) + 0.7 * np.eye(inputs, k=1) + 0.4)


def by_least_squares(w, x, grid, order=None, static=False):
    """Round one column after the other; after each, the free weights of a row are its least-squares solution."""
    order = list(range(w.shape[1])) if order is None else list(order)
    w, out = w.copy(), w.copy()
    size = grid.group or w.shape[1]
    fitted = {}
    for place, j in enumerate(order):
        group = j // size
        if group not in fitted:
            source = w if static or grid.group is None else out
            fitted[group] = grid.fit(np, source[:, group * size : (group + 1) * size])
        out[:, j : j + 1] = grid.nearest(np, out[:, j : j + 1], *fitted[group])
        fixed, free = order[: place + 1], order[place + 1 :]
        if free:
            missing = x[:, fixed] @ (w[:, fixed] - out[:, fixed]).T
            out[:, free] = w[:, free] + np.linalg.lstsq(x[:, free], missing, rcond=None)[0].T
    return out


@pytest.mark.parametrize("grid", [WeightGrid(3, None), WeightGrid(2, 4), WeightGrid(2, 8, "no_zero"), WeightGrid(4, 2)])
@pytest.mark.parametrize("option", ["", "static_groups", "by_activation"])
def test_each_column_is_rounded_and_the_rest_is_the_least_squares_solution(grid, option):
    rng = np.random.default_rng(1)
    x, w = correlated(60, 16) * rng.uniform(0.3, 3, 16), rng.standard_normal((5, 16))
    order = np.argsort(-(x**2).sum(0), kind="stable") if option == "by_activation" else None
    want = by_least_squares(w, x, grid, order, static=bool(option))
    options = {option: True} if option else {}
    np.testing.assert_allclose(gptq_round(w, input_hessian(x), grid, damping=0, **options), want, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("group", [None, 32, 48, 96])
def test_blocks_of_columns_are_for_speed_alone(group, monkeypatch):
    rng = np.random.default_rng(2)
    x, w = correlated(400, 288), rng.standard_normal((3, 288))
    grid, h = WeightGrid(3, group), input_hessian(x)
    found = gptq_round(w, h, grid)
    monkeypatch.setattr("lplab.quantizers.gptq.BLOCK", 288)
    np.testing.assert_allclose(found, gptq_round(w, h, grid), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"by_activation": True}, {"static_groups": True}])
def test_inputs_without_correlation_leave_rounding_to_nearest_bit_for_bit(options):
    rng = np.random.default_rng(3)
    h, w = np.diag(rng.uniform(0.1, 9, 64)), rng.standard_normal((9, 64)).astype(np.float32)
    for grid in (WeightGrid(2, 16), WeightGrid(4, None, "symmetric"), WeightGrid(3, 8, "full_range", search=20)):
        np.testing.assert_array_equal(gptq_round(w, h, grid, **options), grid.quantize(w))


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_the_output_changes_by_less_than_with_rounding_to_nearest(bits):
    rng = np.random.default_rng(4)
    x, w = correlated(500, 64), rng.standard_normal((32, 64))
    grid = WeightGrid(bits, 32)
    errors = [np.square(x @ (q - w).T).sum() for q in (gptq_round(w, input_hessian(x), grid), grid.quantize(w))]
    assert errors[0] < errors[1] / 3


def test_two_weights_by_hand():
    """w = (0.8, 0.9) on the integers. Rounding 0.8 up costs 0.2; the second input is half correlated with the first,
    so that its weight goes down by 0.2 · H12 / H22 = 0.2 · 1 / 2 before it is rounded.
    """
    x = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0], [0.0, 1.0]])
    h = input_hessian(x)
    np.testing.assert_allclose(h, [[1.5, 0.5], [0.5, 2.0]])
    factor = inverse_factor(np, h, 0)
    np.testing.assert_allclose(factor.T @ factor, np.linalg.inv(h), atol=1e-15)
    assert -factor[0, 1] / factor[0, 0] == pytest.approx(h[0, 1] / h[1, 1])


def test_an_input_that_was_always_zero_gets_weights_of_zero_and_changes_no_other():
    x = correlated(50, 8)
    x[:, 3] = 0
    w = np.random.default_rng(5).standard_normal((4, 8))
    grid = WeightGrid(4, None)
    found, live = gptq_round(w, input_hessian(x), grid), [0, 1, 2, 4, 5, 6, 7]
    assert (found[:, 3] == 0).all()
    h = input_hessian(x)[np.ix_(live, live)]
    damping = 0.01 * (np.trace(h) + 1) / 8 / (np.trace(h) / 7)  # the mean diagonal counts the dead input as 1
    np.testing.assert_allclose(found[:, live], gptq_round(w[:, live], h, grid, damping=damping), rtol=1e-9)


def test_numpy_and_tensors_of_any_device_agree(monkeypatch):
    rng = np.random.default_rng(6)
    x, w = correlated(80, 24).astype(np.float32), rng.standard_normal((6, 24)).astype(np.float32)
    for options in ({}, {"by_activation": True}):
        want = gptq_round(w, input_hessian(x), WeightGrid(3, 8), **options)
        tensors = torch.from_numpy(w), torch.from_numpy(x)
        assert torch.equal(
            gptq_round(tensors[0], input_hessian(tensors[1]), WeightGrid(3, 8), **options), torch.from_numpy(want)
        )
        with monkeypatch.context() as patch:
            patch.setattr(array_inputs, "shares_memory", lambda tensor: False)
            found = gptq_round(tensors[0], input_hessian(tensors[1]), WeightGrid(3, 8), **options)
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-5, atol=1e-6)
    assert torch.equal(tensors[0], torch.from_numpy(w)), "the weights that were passed do not change"


W, X, ROW = np.ones((2, 4)), np.eye(4), WeightGrid(4, None)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: input_hessian(np.zeros((0, 4))), "at least one row"),
        (lambda: input_hessian(np.array([[np.inf]])), "finite"),
        (lambda: gptq_round(W * np.nan, input_hessian(X), ROW), "weights must be finite numbers"),
        (
            lambda: gptq_round(W, input_hessian(np.zeros((3, 4))), ROW),
            "all inputs of the layer were zero",
        ),
        (lambda: gptq_round(W, input_hessian(X[:, :3]), ROW), r"needs a Hessian \[n, n\]"),
        (
            lambda: gptq_round(W, input_hessian(np.ones((2, 4))), ROW, damping=0),
            "more rows than the layer has",
        ),
        (lambda: gptq_round(W, -input_hessian(X), ROW), "not positive definite"),
        (lambda: gptq_round(W, input_hessian(X), WeightGrid(4, 3)), "group=3 does not divide"),
        (
            lambda: gptq_round(W, input_hessian(X), ROW, damping=-1),
            "damping must be finite and at least 0",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
