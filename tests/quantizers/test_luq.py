"""LUQ: its formulas, no bias (z-tests with derived bounds), averages of several samples, special input."""

import numpy as np
import pytest

from lplab.quantizers import LUQ
from lplab.quantizers.luq import sample_seeds

torch = pytest.importorskip("torch")

N = 20_000
POINTS = [0.01, 0.3, 0.5, 0.99, 1.0, 1.25, 1.5, 3.0, 5.9, 8.0, 21.0, 63.0, 64.0]


def copies(x, sign=1):
    """N times x, after a 64 that makes α = 1."""
    return np.concatenate([[64.0], np.full(N, sign * x)]).astype(np.float32)


def neighbours(x):
    """The two magnitudes around x: a power of two and the next, or zero and one."""
    low = 0.0 if x < 1 else 2.0 ** np.floor(np.log2(x))
    return low, 1.0 if x < 1 else 2 * low


@pytest.mark.parametrize("x", POINTS)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_probability_of_going_up(x, sign):
    """Up with probability |x| below α, else (x − low) / low; four standard errors, and half a step of the draw."""
    low, high = neighbours(x)
    probability = (x - low) / (high - low)
    values = LUQ().quantize(copies(x, sign), seed=11)[1:]
    assert set(np.abs(values)) <= ({low, high} if probability > 0 else {low})
    assert (np.sign(values[values != 0]) == sign).all()
    share = (np.abs(values) == high).mean() if probability else 0.0
    assert abs(share - probability) <= 4 * np.sqrt(probability * (1 - probability) / N) + 2.0**-17


@pytest.mark.parametrize("samples", [1, 2, 4])
def test_there_is_no_bias(samples):
    """The mean over all elements of a real distribution: z-test with the variance that the rule implies."""
    x = np.random.default_rng(3).standard_t(4, 50_000)
    alpha = np.abs(x).max() / 64
    magnitude = np.abs(x) / alpha
    low = np.where(magnitude < 1, 0, 2.0 ** np.floor(np.log2(np.maximum(magnitude, 1))))
    gap = np.where(magnitude < 1, 1, low)
    variance = (magnitude - low) * (low + gap - magnitude) / samples
    error = (LUQ(samples).quantize(x, seed=1) - x) / alpha
    sigma = np.sqrt(variance.sum())
    assert abs(error.sum()) < 4 * sigma + 2.0**-17 * gap.sum()
    spread = (error**2).sum() / variance.sum()  # SMP: the variance falls in proportion to the samples
    assert abs(spread - 1) < 0.1


def test_two_samples_halve_the_variance():
    x = np.random.default_rng(4).normal(size=100_000)
    one, two = ((LUQ(k).quantize(x, seed=2) - x).var() for k in (1, 2))
    assert two / one == pytest.approx(0.5, abs=0.03)


def test_samples_are_independent_of_each_other_and_of_the_next_seed():
    x = copies(1.5)
    first, second = (LUQ().quantize(x, seed=s)[1:] - 1.5 for s in sample_seeds(5, 2))
    following = LUQ().quantize(x, seed=6)[1:] - 1.5
    for other in (second, following):
        assert abs((first * other).mean() / 0.25) < 4 / np.sqrt(N)
    np.testing.assert_array_equal(LUQ(1).quantize(x, seed=5)[1:] - 1.5, first)
    assert len({seed for s in range(100) for seed in sample_seeds(s, 4)}) == 400  # no step repeats another's draws


def test_nearest_is_the_formula_of_the_paper():
    """RDNP(x) = 2^⌊log2(4/3·x)⌋, by exact exponents; below α the formula gives less than α, which is zero."""
    x = np.concatenate([np.linspace(0.01, 64, 4001), 3 * 2.0 ** np.arange(-2, 5), [64.0]])
    floor = np.ldexp(1.0, np.frexp(x * 4 / 3)[1] - 1)
    want = np.where(floor < 1, 0, np.minimum(floor, 64))
    np.testing.assert_array_equal(LUQ(nearest=True).quantize(x), want)
    np.testing.assert_array_equal(LUQ(nearest=True).quantize(-x), -want)


@pytest.mark.parametrize(("exponent_bits", "largest"), [(1, 1), (2, 4), (3, 64), (4, 2**14)])
def test_alpha_makes_the_top_code_the_maximum(exponent_bits, largest):
    luq = LUQ(exponent_bits=exponent_bits)
    assert luq.alpha([3.0, -5.0]) == 5.0 / largest
    assert luq.quantize([3.0, -5.0], seed=0)[1] == -5.0
    assert luq.format.max == largest and luq.format.smallest_subnormal == 1


def test_an_estimate_of_the_maximum():
    assert LUQ().alpha([1.0], amax=128.0) == 2.0
    assert LUQ().quantize([1000.0], seed=0, amax=64.0).tolist() == [64.0]
    assert LUQ().alpha([32.0], amax=0.0) == LUQ().alpha([32.0]) == 0.5


def test_special_input():
    luq = LUQ(2)
    got = luq.quantize(np.float32([np.nan, np.inf, -np.inf, 3.0, -0.0]), seed=0)
    assert np.isnan(got[0]) and got[1:3].tolist() == [3, -3] and got[3] == 3 and np.signbit(got[4])
    for x in (np.zeros(4), np.zeros((0, 2)), np.array(0.0)):
        np.testing.assert_array_equal(luq.quantize(x, seed=0), x)
        assert luq.alpha(x) == 1
    assert luq.quantize(np.array([np.nan, np.inf]), seed=0)[1] == 64
    assert LUQ().alpha(np.float32([1e-45])) == 2.0**-100


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_torch_is_numpy(samples, dtype):
    x = np.random.default_rng(5).standard_t(2, (40, 50)).astype(dtype)
    got = LUQ(samples).quantize(torch.from_numpy(x), seed=8)
    np.testing.assert_array_equal(got.numpy(), LUQ(samples).quantize(x, seed=8))
    assert got.dtype == getattr(torch, dtype)


def test_seeds_and_gradients():
    x = torch.randn(100, requires_grad=True)
    LUQ().quantize(x, seed=1).sum().backward()
    assert torch.equal(x.grad, torch.ones(100))
    y = np.random.default_rng(6).normal(size=1000)
    generators = [np.random.default_rng(0) for _ in range(2)]
    assert (LUQ(2).quantize(y, seed=generators[0]) == LUQ(2).quantize(y, seed=generators[1])).all()
    assert (LUQ().quantize(y) != LUQ().quantize(y)).any()


@pytest.mark.parametrize(("call", "message"), [
    (lambda: LUQ(0), "samples must be an integer from 1 to 1024, got 0"),
    (lambda: LUQ(exponent_bits=5), "exponent_bits must be an integer from 1 to 4, got 5"),
    (lambda: LUQ(random_bits=25), "random_bits must be an integer from 1 to 24, got 25"),
    (lambda: LUQ().quantize([1.0], amax=-1.0), "amax must be a positive finite number, got -1.0"),
])  # fmt: skip
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
