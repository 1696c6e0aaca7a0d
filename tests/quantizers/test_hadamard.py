"""The Hadamard transform: by its matrix, as a pair that cancels, and what it does to an outlier."""

import numpy as np
import pytest
import torch

from lplab.quantizers import NVFP4_SIGNS, Hadamard

TRANSFORMS = [Hadamard(), Hadamard(16, NVFP4_SIGNS), Hadamard(2, (1, -1)), Hadamard(64, 5), Hadamard(32)]


def sylvester(size):
    """[[H, H], [H, −H]], again and again."""
    h = np.ones((1, 1))
    while len(h) < size:
        h = np.block([[h, h], [h, -h]])
    return h


@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
@pytest.mark.parametrize("length", [64, 70, 3])
def test_it_is_the_product_with_the_matrix(transform, length):
    matrix = np.diag(transform.sign_vector.astype(np.float64)) @ sylvester(transform.size) / np.sqrt(transform.size)
    np.testing.assert_allclose(transform.matrix(), matrix, atol=1e-15)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(transform.size), atol=1e-14)
    x = np.random.default_rng(0).standard_normal((3, length)).astype(np.float32)
    filled = np.pad(x, [(0, 0), (0, -length % transform.size)]).astype(np.float64)
    want = (filled.reshape(3, -1, transform.size) @ matrix).reshape(3, -1)
    found = transform.apply(x)
    assert found.dtype == np.float32 and found.shape == want.shape
    np.testing.assert_allclose(found, want, atol=1e-6)
    np.testing.assert_allclose(transform.invert(found, length), x, atol=1e-6)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
def test_integers_are_exact_in_every_library_layout_and_precision(transform):
    """Sums of small integers are exact, and so is a scale that is a power of two."""
    x = np.random.default_rng(0).integers(-8, 9, (40, 128)).astype(np.float64)
    want = transform.apply(x)
    for dtype in (np.float32, np.float64):
        y = x.astype(dtype)
        for found in (transform.apply(y), transform.apply(torch.tensor(y)).numpy(), transform.apply(y.T, axis=0).T):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, transform.apply(y))
    half = transform.apply(torch.tensor(x).bfloat16())
    assert half.dtype == torch.bfloat16
    np.testing.assert_allclose(half.float().numpy(), want, rtol=2**-8, atol=1e-6)


def test_on_both_operands_it_cancels_and_on_one_it_does_not():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((50, 90)), rng.standard_normal((7, 90))
    transform = Hadamard(16, NVFP4_SIGNS)
    np.testing.assert_allclose(transform.apply(x) @ transform.apply(w).T, x @ w.T, atol=1e-12)
    other = Hadamard(16).apply(w)
    assert np.abs(transform.apply(x) @ other.T - x @ w.T).max() > 1


def test_an_outlier_is_spread_over_its_neighbours():
    x = np.zeros(32)
    x[5] = 16.0
    np.testing.assert_array_equal(np.abs(Hadamard(16, 3).apply(x)), [4.0] * 16 + [0.0] * 16)


def test_the_gradient_is_the_transform_back():
    x = torch.randn(5, 20, dtype=torch.float64, requires_grad=True)
    transform = Hadamard(8, 1)
    y = transform.apply(x)
    dy = torch.randn_like(y)
    y.backward(dy)
    np.testing.assert_allclose(x.grad.numpy(), transform.invert(dy.numpy(), 20), atol=1e-12)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: Hadamard(12), "size must be a power of two, got 12"),
    (lambda: Hadamard(4, (1, 1, 1)), "signs must be 4 numbers that are 1 or -1"),
    (lambda: Hadamard(4, (1, 1, 1, 2)), "signs must be 4 numbers that are 1 or -1"),
    (lambda: Hadamard(4).invert(np.ones(6)), "a multiple of 4 numbers along its axis, got 6"),
])  # fmt: skip
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_random_signs_are_those_of_their_seed():
    assert Hadamard(64, 3) == Hadamard(64, 3) != Hadamard(64, 4)
    assert set(Hadamard(64, 3).sign_vector) == {1, -1}
    assert not np.array_equal(Hadamard(64, 3).sign_vector, Hadamard(64, 4).sign_vector)
