"""One pass over the numbers, compiled or not: the same bits, and the sums that are meant."""

import math

import numpy as np
import pytest

from lplab.formats.paths import kernel_selection
from lplab.quantizers.lanes import LANES, pairwise_sum
from lplab.quantizers.reductions import MIN_COMPILED_SIZE, clip_backward, clip_mask, largest, moments, row_maxima

pytest.importorskip("numba")
torch = pytest.importorskip("torch")


def numbers(count, seed=0, special=True):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(count) * 2.0 ** (4 * rng.standard_normal(count))).astype(np.float32)
    if special:
        x[[1, 5, 9]] = np.inf, -np.inf, np.nan
    return x


def both(monkeypatch, work):
    """What a function gives with the compiled loops and without them."""
    compiled = work()
    monkeypatch.setattr(kernel_selection, "loops_are_on", False)
    return compiled, work()


@pytest.mark.parametrize("count", [MIN_COMPILED_SIZE, MIN_COMPILED_SIZE + 1, 3 * MIN_COMPILED_SIZE - 7])
def test_moments_have_the_same_bits_without_numba(monkeypatch, count):
    x = numbers(count)
    fast, slow = both(monkeypatch, lambda: tuple(float(mean[0]) for mean in moments(np, x[None])))
    assert fast == slow
    kept = x[np.isfinite(x)].astype(np.float64)
    assert fast[0] == pytest.approx(math.fsum(kept**2) / kept.size, rel=1e-13)
    assert fast[1] == pytest.approx(math.fsum(abs(kept)) / kept.size, rel=1e-13)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("count", [MIN_COMPILED_SIZE, 2 * MIN_COMPILED_SIZE + 3])
def test_clip_backward_has_the_same_bits_without_numba(monkeypatch, count, signed):
    x, gradient = numbers(count), numbers(count, 1, special=False)
    x[:40:2] = 1.5  # the bound itself belongs to the bound
    x[1:40:2] = -1.5
    x[40:60], x[60:80] = 0.0, -0.0
    x[100] = np.nan
    (passed, total), (passed_slowly, total_slowly) = both(
        monkeypatch, lambda: clip_backward(clip_mask(x, 1.5, signed), gradient)
    )
    np.testing.assert_array_equal(passed, passed_slowly)
    assert total == total_slowly
    inside = np.abs(x) < 1.5 if signed else (x >= 0) & (x < 1.5)
    np.testing.assert_array_equal(passed, np.where(inside, gradient, 0))
    terms = np.where(x >= 1.5, gradient, 0).astype(np.float64) - (np.where(x <= -1.5, gradient, 0) if signed else 0)
    assert total == pytest.approx(math.fsum(terms), rel=1e-9)
    assert inside[40:80].all() and not inside[:40].any() and passed[100] == 0


def test_clipping_agrees_with_pact_as_published():
    from lplab.quantizers.pact import pact_backward

    x, gradient = numbers(5000, 2), numbers(5000, 3, special=False)
    passed, total = clip_backward(clip_mask(x, 2.0, signed=False), gradient)
    published, for_alpha = pact_backward(x, 2.0, gradient)
    np.testing.assert_array_equal(passed, published)
    assert total == pytest.approx(for_alpha, rel=1e-6)


def test_the_largest_magnitude_of_any_layout(monkeypatch):
    x = numbers(4 * MIN_COMPILED_SIZE, 4, special=False).reshape(4, -1)
    fast, slow = both(monkeypatch, lambda: (largest(x), largest(x.T), largest(-x[:, ::3])))
    assert fast == slow == (np.abs(x).max(), np.abs(x).max(), np.abs(x[:, ::3]).max())
    assert largest(np.zeros((0, 3), np.float32)) == 0


@pytest.mark.parametrize("count", [1, 3, 16, 100, MIN_COMPILED_SIZE])
def test_a_magnitude_of_zero_has_no_sign(monkeypatch, count):
    for x in (np.zeros(count, np.float32), -np.zeros(count, np.float32), np.resize(np.float32([0, -0.0]), count)):
        every = [*both(monkeypatch, lambda x=x: row_maxima(np, x[None])), row_maxima(torch, torch.from_numpy(x)[None])]
        assert not np.signbit(np.array(every)).any()
        monkeypatch.undo()


def test_a_nan_is_the_largest_magnitude(monkeypatch):
    x = numbers(MIN_COMPILED_SIZE, 5, special=False)
    x[77] = np.nan
    assert np.isnan(both(monkeypatch, lambda: largest(x))).all()


def test_lanes_are_added_half_to_half():
    sums = np.random.default_rng(0).standard_normal(LANES)
    expected = sums
    while len(expected) > 1:
        expected = [a + b for a, b in zip(expected[: len(expected) // 2], expected[len(expected) // 2 :], strict=True)]
    assert pairwise_sum(sums.copy()) == expected[0]
