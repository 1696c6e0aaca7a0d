"""Stochastic rounding: the right probabilities, and the same bits from the same seed however the work is split."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from lplab import formats as F
from lplab.formats import counter_rng
from lplab.formats.paths import array_kernels, kernel_selection
from lplab.formats.rounding import rounds_away
from lplab.formats.rounding_spec import Grid

from .probes import BLOCKED, assert_same

SOME = ["e4m3fn", "bf16", "fp16", "q4.12", "int8", "posit8_1", "lns8", "radix4_fp4_even", "tf32"]


def numbers(count: int, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(9).standard_normal(count) * 3).astype(dtype)


# -- probabilities ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("fraction", [0.125, 0.5, 0.9])
def test_mean_is_the_number(name, fraction):
    """Variant C, one number many times: the mean lies within five standard errors of the number itself."""
    fmt, count = F.get(name), 2**18
    values = fmt.values[fmt.values >= 0] if fmt.bits <= 16 else np.array([1, 1 + fmt.eps])
    low, high = (values[i] for i in (np.searchsorted(values, 0.9), np.searchsorted(values, 0.9) + 1))
    p = round(fraction * 2**16) / 2**16  # what 16 random bits can express
    got = fmt.quantize(np.full(count, low + (high - low) * p), "stochastic", seed=1)
    share = (got == high).mean()
    assert set(np.unique(got)) <= {low, high}
    assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / count)


@pytest.mark.parametrize("bits", [1, 2, 3, 8])
@pytest.mark.parametrize("variant", F.VARIANTS)
def test_exact_probability_over_all_draws(variant, bits):
    """Counting over every draw: A ⌊f·2^N⌋, B the nearest (ties up), C the nearest (ties to even), each over 2^N."""
    fraction = np.arange(0, 2**12)[:, None] / 2**12
    no, draws = np.zeros_like(fraction, bool), np.arange(2**bits)[None]
    up = rounds_away(np, F.Rounding("stochastic", bits, variant), no, fraction, no, draws).sum(1)
    exact = fraction[:, 0] * 2**bits
    want = {"A": np.floor(exact), "B": np.floor(exact + 0.5), "C": np.rint(exact)}[variant]
    np.testing.assert_array_equal(up, want)


@pytest.mark.parametrize("bits", [1, 3, 8, 16, 24])
def test_draws_are_uniform(bits):
    """Every bit is set half the time, pairs of bits and of neighbours are independent: five standard deviations."""
    count = 2**20
    draws = counter_rng.random_bits(np, counter_rng.keys(11), 0, count, bits)
    assert draws.dtype == np.int32 and draws.min() >= 0 and draws.max() < 2**bits
    limit = 5 * 0.5 / np.sqrt(count)
    ones = [(draws >> b & 1) for b in range(bits)]
    for one, following in zip(ones, [*ones[1:], ones[0]], strict=True):
        assert abs(one.mean() - 0.5) < limit
        assert abs((one[1:] ^ one[:-1]).mean() - 0.5) < limit
        if bits > 1:
            assert abs((one ^ following).mean() - 0.5) < limit
    if bits <= 8:
        expected = count / 2**bits
        chi = ((np.bincount(draws, minlength=2**bits) - expected) ** 2 / expected).sum()
        degrees = 2**bits - 1
        assert abs(chi - degrees) < 6 * np.sqrt(2 * degrees)


def test_seeds_are_independent():
    a, b = (counter_rng.random_bits(np, counter_rng.keys(seed), 0, 2**20, 16) for seed in (0, 1))
    agreement = (a == b).mean()
    assert agreement < 5e-5  # 2^−16 is expected
    bits_equal = np.mean([((a >> k & 1) == (b >> k & 1)).mean() for k in range(16)])
    assert abs(bits_equal - 0.5) < 1e-3


# -- the same bits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SOME, *BLOCKED])
def test_same_seed_same_bits(name):
    """Different paths and shapes, one result; another seed, another result."""
    fmt, x = F.get(name), numbers(2**16).reshape(16, 2**12)
    want = fmt.quantize(x, "stochastic", seed=42)
    assert_same(fmt.quantize(x.copy(), "stochastic", seed=42), want, x)
    assert_same(fmt.quantize(torch.from_numpy(x), "stochastic", seed=42).numpy(), want, x)
    in_columns = np.asfortranarray(x)
    assert_same(fmt.quantize(in_columns, "stochastic", seed=42), want, x)
    strided = np.zeros((16, 2**13), np.float32)
    strided[:, ::2] = x
    assert_same(fmt.quantize(strided[:, ::2], "stochastic", seed=42), want, x)
    assert (fmt.quantize(x, "stochastic", seed=43) != want).any()


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("no_numba", ["0", "1"])
def test_prefix_and_chunks(name, no_numba, monkeypatch):
    """Element i has its own bits: a prefix of the tensor is a prefix of the result, in blocks of any size."""
    monkeypatch.setattr(kernel_selection, "loops_are_on", kernel_selection.available() and no_numba != "1")
    fmt, x = F.get(name), numbers(2**17 + 5)
    want = fmt.quantize(x, "stochastic", seed=7)
    for count in (1, 100, 2**15, 2**15 + 1, 2**16 + 3):
        assert_same(fmt.quantize(x[:count], "stochastic", seed=7), want[:count], x[:count])
    for block in (1000, 2**13):
        monkeypatch.setattr(array_kernels, "ELEMENTS_PER_STEP", block)
        assert_same(fmt.quantize(x, "stochastic", seed=7), want, x)
    if no_numba == "0":
        monkeypatch.setattr(kernel_selection, "loops_are_on", False)
        assert_same(fmt.quantize(x, "stochastic", seed=7), want, x)


def test_beyond_2_to_the_32(monkeypatch):
    """The counter has 32 bits; every 2^32 elements have their own keys."""
    fmt, x = F.get("e4m3fn"), numbers(2**16)
    monkeypatch.setattr(array_kernels, "ELEMENTS_PER_KEY", 2**14)
    got = fmt.quantize(x, "stochastic", seed=3)
    for stretch in range(4):
        draws = counter_rng.random_bits(np, counter_rng.keys(3, stretch), 0, 2**14, 16)
        part = x[stretch * 2**14 : (stretch + 1) * 2**14]
        want = array_kernels.quantize(np, part, fmt.rounding_spec, F.Rounding("stochastic"), draws)
        assert_same(got[stretch * 2**14 : (stretch + 1) * 2**14], want, part)


def test_threads():
    """Eight threads at once, large and small arrays, compiled and not: threads do not affect each other."""
    jobs = [(F.get(name), numbers(count), seed) for name in SOME for count in (100, 2**16) for seed in range(3)]
    want = [fmt.quantize(x, "stochastic", seed=seed) for fmt, x, seed in jobs]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda job: job[0].quantize(job[1], "stochastic", seed=job[2]), jobs))
    for a, b, (_, x, _) in zip(got, want, jobs, strict=True):
        assert_same(a, b, x)


def test_wide_and_narrow_input_draw_the_same():
    """float32 numbers given as float64 round the same way: the bits belong to the element, not to the type."""
    x = numbers(2**16)
    for name in SOME:
        wide = F.get(name).quantize(x.astype(np.float64), "stochastic", seed=5)
        assert_same(F.get(name).quantize(x, "stochastic", seed=5).astype(np.float64), wide, x)


def test_kinds_of_seeds():
    fmt, x = F.get("e4m3fn"), numbers(1000)
    same = [np.random.default_rng(1), np.random.default_rng(1)]
    assert_same(*(fmt.quantize(x, "stochastic", seed=g) for g in same), x)
    assert (fmt.quantize(x, "stochastic", seed=same[0]) != fmt.quantize(x, "stochastic", seed=same[0])).any()
    assert (fmt.quantize(x, "stochastic") != fmt.quantize(x, "stochastic")).any()  # fresh entropy
    assert_same(fmt.quantize(x, "stochastic", seed=np.int64(3)), fmt.quantize(x, "stochastic", seed=3), x)
    for seed in (-1, 2**63, 2**64 + 1, 2**200):
        assert_same(fmt.quantize(x, "stochastic", seed=seed), fmt.quantize(x, "stochastic", seed=seed), x)
    for seed in (1.5, "1", [1]):
        with pytest.raises(TypeError, match="seed must be an integer, a numpy Generator or None"):
            fmt.quantize(x, "stochastic", seed=seed)


def test_values_of_the_format_never_move():
    for name in SOME:
        fmt = F.get(name)
        values = fmt.values if fmt.bits <= 16 else fmt.quantize(numbers(1000, "float64"))
        for variant in F.VARIANTS:
            assert_same(fmt.quantize(values, "stochastic", seed=2, random_bits=1, variant=variant), values, values)


def test_few_random_bits_spend_few_values():
    """With N bits the share rounded up is a multiple of 2^−N."""
    spec = F.get("e4m3fn").rounding_spec
    assert isinstance(spec, Grid)
    x = np.full(8, 1 + 0.125 * 0.3, np.float32)
    draws = np.arange(8, dtype=np.int32)
    share = {
        v: (array_kernels.quantize(np, x, spec, F.Rounding("stochastic", 3, v), draws) > 1.1).mean() for v in F.VARIANTS
    }
    assert share == {"A": 0.25, "B": 0.25, "C": 0.25}  # 0.3 · 8 = 2.4
