"""The gradients for the elements and for the trained scalar."""

import math

import numpy as np
import pytest

from lplab.quantizers.scalar_parameter import BLOCK, scalar_parameter_backward

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 3])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_products_and_the_sum_of_products(size, dtype):
    random = np.random.default_rng(size)
    x, g = random.normal(size=size).astype(dtype), random.normal(size=size).astype(dtype)
    for_x, for_number = scalar_parameter_backward(x, g, lambda xp, part: (part * 2, xp.abs(part)))
    work = np.float64 if dtype == "float64" else np.float32
    np.testing.assert_array_equal(for_x, (g.astype(work) * (x.astype(work) * 2)).astype(dtype))
    exact = math.fsum((g.astype(work) * np.abs(x.astype(work))).tolist())
    assert for_x.dtype == dtype
    assert for_number == (work(exact) if dtype != "float64" else pytest.approx(exact, rel=1e-12))


def test_layout_and_torch():
    x, g = np.random.default_rng(0).normal(size=(2, 30, 40)).astype(np.float32)
    rule = lambda xp, part: (part > 0, part)  # noqa: E731
    want, number = scalar_parameter_backward(np.ascontiguousarray(x.T), np.ascontiguousarray(g.T), rule)
    got, same = scalar_parameter_backward(torch.from_numpy(x).T, torch.from_numpy(g).T, rule)
    np.testing.assert_array_equal(got.numpy(), want)
    assert got.shape == (40, 30) and same == number


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"gradient must have the shape of x, \(3,\), got \(1, 3\)"):
        scalar_parameter_backward(np.ones(3), np.ones((1, 3)), lambda xp, part: (part, part))
