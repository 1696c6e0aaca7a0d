"""MX blocks that are made smaller before rounding: by definition, without clipping and without bias."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from lplab import formats as F
from lplab.quantizers import PreScaled

MAGNITUDES = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def blocks(seed=0):
    """Blocks of all sizes, some with a power of two as largest magnitude, some with zeros or a special number."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((96, 200)) * 2.0 ** rng.integers(-30, 30, (96, 1))).astype(np.float32)
    x[::3, ::32] = 2.0 ** rng.integers(36, 40, x[::3, ::32].shape)
    x[1::3, 32:64] = 0
    return x


def by_definition(x, factor=Fraction(3, 4)):
    """X = 2^(⌊log2 amax⌋ − 2), element = nearest of ±{0 … 6} to factor · x / X, in rational numbers; ties to even."""
    out = np.zeros(x.shape)
    for row in range(x.shape[0]):
        for first in range(0, x.shape[1], 32):
            part = x[row, first : first + 32]
            amax = float(np.abs(part).max())
            if amax == 0:
                continue
            scale = Fraction(2) ** (int(np.frexp(amax)[1]) - 1 - 2)
            for k, value in enumerate(part):
                wanted = abs(Fraction(float(np.float32(0.75) * value)) / scale)
                order = sorted(range(8), key=lambda i: (abs(MAGNITUDES[i] - wanted), i % 2))
                element = MAGNITUDES[order[0]] * (1 if value >= 0 else -1)
                out[row, first + k] = np.float32(float(element * scale)) / np.float32(0.75)
    return out


def test_it_is_the_definition():
    x = blocks()[:24]
    np.testing.assert_array_equal(PreScaled("mxfp4").quantize(x), by_definition(x))
    np.testing.assert_array_equal(PreScaled("mxfp4").quantize(torch.tensor(x)).numpy(), by_definition(x))


@pytest.mark.parametrize("rounding", ["nearest_even", "stochastic", "up"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_fast_way_is_the_slow_one(rounding, dtype):
    quantizer, x = PreScaled("mxfp4", rounding=rounding), blocks().astype(dtype)
    slow = quantizer._by_definition(np, x, 5)
    np.testing.assert_array_equal(quantizer.quantize(x, seed=5), slow)
    in_torch = quantizer._by_definition(torch, torch.tensor(x), 5)
    np.testing.assert_array_equal(in_torch.numpy(), slow)
    assert quantizer._rounds_up and not PreScaled("mxfp4", 0.5)._rounds_up


def test_nothing_is_clipped_so_stochastic_rounding_has_no_bias():
    """The plain format clips 7.9 to 6, whatever the random bits; 3/4 of it is rounded to 4 or 6."""
    x = np.tile(np.float32([7.9, -7.9, 5.3, 0.3]), 5000)
    x = np.concatenate([x.reshape(-1, 4), np.zeros((5000, 28), np.float32)], 1)
    plain = F.get("mxfp4").quantize(x, "stochastic", seed=1).mean(0)[:4]
    scaled = PreScaled("mxfp4", rounding="stochastic").quantize(x, seed=1).mean(0)[:4]
    assert plain[0] == 6 and plain[1] == -6
    spread = (2 / 0.75) / 2 / np.sqrt(5000)  # half a gap: the largest standard deviation of one rounding
    np.testing.assert_allclose(scaled, x[0, :4], atol=5 * spread)


def test_other_factors_and_rules_and_specials():
    x = blocks()[:6]
    for quantizer in (PreScaled("mxfp4", 0.5), PreScaled("mxfp8_e4m3", 0.875), PreScaled("mxfp6_e2m3", 1.0)):
        plain = quantizer.format.quantize(x)
        errors = [np.abs(y - x).sum() for y in (quantizer.quantize(x), plain)]
        assert errors[0] < 2.5 * errors[1] and quantizer.quantize(x).dtype == np.float32
    np.testing.assert_array_equal(PreScaled("mxfp6_e2m3", 1.0).quantize(x), F.get("mxfp6_e2m3").quantize(x))
    bad = np.float32([[np.nan] + [1.0] * 31 + [2.0] * 32])
    found = PreScaled("mxfp4").quantize(bad)
    assert np.isnan(found[0, :32]).all() and np.isfinite(found[0, 32:]).all()
    half = PreScaled("mxfp4").quantize(torch.ones(3, 32, dtype=torch.bfloat16))
    assert half.dtype == torch.bfloat16 and PreScaled("mxfp4").quantize(np.empty((0, 32))).shape == (0, 32)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: PreScaled("e2m1"), TypeError, "format must be a block format, got 'e2m1'"),
    (lambda: PreScaled("nvfp4"), ValueError, "nvfp4 has no power-of-two scale"),
    (lambda: PreScaled("mxfp4", 1.5), ValueError, "factor must be at most 1, got 1.5"),
    (lambda: PreScaled("mxfp4").quantize(1.0), ValueError, "blocks need at least one axis"),
])  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
