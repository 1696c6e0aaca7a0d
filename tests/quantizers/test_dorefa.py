"""DoReFa: its formulas in exact steps, gradients against autograd, special weights."""

import numpy as np
import pytest

from lplab.quantizers import dorefa_activations, dorefa_weights, dorefa_weights_backward

torch = pytest.importorskip("torch")

W = np.random.default_rng(0).normal(0, 0.7, 400).astype(np.float32)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_the_unit_quantizer(bits):
    """Round((2^k − 1)·r) / (2^k − 1) on every level, next to every threshold, and outside."""
    n = 2**bits - 1
    levels = np.arange(n + 1) / n
    np.testing.assert_allclose(dorefa_activations(levels, bits), levels, rtol=1e-15)
    middles = (levels[1:] + levels[:-1]) / 2
    np.testing.assert_allclose(dorefa_activations(middles + 1e-9, bits), levels[1:], rtol=1e-15)
    np.testing.assert_allclose(dorefa_activations(middles - 1e-9, bits), levels[:-1], rtol=1e-15, atol=1e-15)
    assert dorefa_activations([-3.0, 3.0], bits).tolist() == [0, pytest.approx(1)]


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_weights_by_the_formula(bits):
    squashed = np.tanh(W.astype(np.float64))
    unit = squashed / (2 * np.abs(squashed).max()) + 0.5
    want = 2 * np.round(unit * (2**bits - 1)) / (2**bits - 1) - 1
    np.testing.assert_allclose(dorefa_weights(W, bits), want, atol=3e-7)
    assert np.abs(dorefa_weights(W, bits)).max() == 1


def test_one_bit_is_the_sign_times_the_mean():
    values = dorefa_weights(W, 1)
    assert set(np.abs(values)) == {np.float32(np.abs(W.astype(np.float64)).mean())}
    np.testing.assert_array_equal(np.sign(values), np.where(W >= 0, 1, -1))
    assert dorefa_weights([0.0, -1.0], 1).tolist() == [0.5, -0.5]


@pytest.mark.parametrize("bits", [2, 4])
def test_the_gradient_of_weights_is_autograds(bits):
    """Of 2·(tanh(w)/(2·max) + ½) − 1 with the maximum held constant."""
    w = torch.from_numpy(W).double().requires_grad_()
    g = np.random.default_rng(1).normal(size=W.shape)
    squashed = torch.tanh(w)
    (squashed / squashed.detach().abs().max()).backward(torch.from_numpy(g))
    np.testing.assert_allclose(dorefa_weights_backward(W.astype(np.float64), g, bits), w.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_torch_is_numpy_bit_for_bit(bits):
    g = np.random.default_rng(2).normal(size=W.shape).astype(np.float32)
    w = torch.from_numpy(W).requires_grad_()
    values = dorefa_weights(w, bits)
    values.backward(torch.from_numpy(g))
    np.testing.assert_array_equal(values.detach().numpy(), dorefa_weights(W, bits))
    np.testing.assert_array_equal(w.grad.numpy(), dorefa_weights_backward(W, g, bits))
    assert torch.equal(dorefa_weights(w.detach(), bits), values.detach())


def test_activations():
    x = torch.tensor([-0.5, 0.0, 0.4, 1.0, 1.5], requires_grad=True)
    y = dorefa_activations(x, 2)
    y.sum().backward()
    np.testing.assert_array_equal(y.detach().numpy(), dorefa_activations(x.detach().numpy(), 2))
    np.testing.assert_allclose(y.detach().numpy(), [0, 0, 1 / 3, 1, 1], rtol=1e-6)
    assert x.grad.tolist() == [0, 1, 1, 1, 0]


def test_special_weights():
    for bits in (1, 2, 4):
        got = dorefa_weights(np.array([np.nan, np.inf, -np.inf, 1.0]), bits)
        assert np.isnan(got[0]) and (got[1:] == [1, -1, got[3]]).all()
        assert dorefa_weights(np.zeros((0, 3)), bits).shape == (0, 3)
    np.testing.assert_allclose(dorefa_weights(np.zeros(2), 2), 1 / 3)  # zero is no level
    assert dorefa_weights(np.zeros(2), 1).tolist() == [0, 0]
    assert dorefa_weights(torch.tensor(0.3), 2).shape == () and dorefa_weights(0.3, 2) == 1.0
    np.testing.assert_array_equal(dorefa_weights_backward(np.zeros(2), np.ones(2), 2), 1)
    assert dorefa_weights(np.float16([0.3]), 2).dtype == np.float16


@pytest.mark.parametrize("call", [dorefa_weights, dorefa_activations])
@pytest.mark.parametrize("bits", [0, 17, 2.0])
def test_errors_say_what_is_allowed(call, bits):
    with pytest.raises(ValueError, match="bits must be an integer from 1 to 16"):
        call(np.ones(2), bits)
