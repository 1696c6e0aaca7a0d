"""SAWB: the printed vectors (paper notes 5.2), the levels by brute force, every special tensor, gradients."""

import math

import numpy as np
import pytest

from lplab.quantizers import SAWB, SAWB_ROWS, sawb_clip

torch = pytest.importorskip("torch")

W = [-1, -0.5, 0, 0.5, 1, 0.25, -0.25, 2]
PRINTED = {  # E|w| = 0.6875, rms = 0.9100137
    "1bit": 0.6875, "2bit": 1.420243, "2bit_2018": 1.425589, "3bit": 2.095043, "4bit": 2.738974, "403": 2.681390,
    "403_16": 2.681390, "luq": 2.623666, "5bit": 3.328644, "8bit": 4.812036, "803": 4.812036, "103": 1.190411,
}  # fmt: skip
COEFFICIENTS = {
    "ternary": (3, 2.587, 1.693), "103": (3, 2.6, 1.71), "2bit_2018": (4, 3.212, 2.178), "2bit": (4, 3.12, 2.064),
    "3bit": (8, 7.509, 6.892), "4bit": (16, 12.68, 12.80), "403": (15, 12.035, 12.03), "luq": (17, 12.1, 12.2),
    "403_16": (15, 12.035, 12.03),
    "5bit": (32, 17.74, 18.64), "703": (127, 28.24, 30.81), "8bit": (256, 31.76, 35.04), "803": (255, 31.76, 35.04),
}  # fmt: skip


def weights(*shape, seed=0):
    return np.random.default_rng(seed).laplace(0, 0.1, shape).astype(np.float32)


@pytest.mark.parametrize(("row", "alpha"), PRINTED.items())
def test_printed_scales(row, alpha):
    assert sawb_clip(W, row=row) == pytest.approx(alpha, abs=6e-7)


@pytest.mark.parametrize(("row", "want"), COEFFICIENTS.items())
def test_every_row_of_coefficients_is_there(row, want):
    found = SAWB_ROWS[row]
    assert (found.levels, found.c1, found.c2) == want
    assert SAWB_ROWS.keys() - COEFFICIENTS.keys() == {"1bit"}


def test_the_defaults_are_those_of_the_notes():
    """Section 8, rows 24 and 25: fifteen levels at four bits, 3.12/2.064 at two."""
    assert [SAWB(b).coefficients.levels for b in (1, 2, 3, 4, 5, 7, 8)] == [2, 4, 8, 15, 32, 127, 255]
    assert sawb_clip(W) == sawb_clip(W, row="403") and sawb_clip(W, 2) == sawb_clip(W, row="2bit")


def test_two_bits_of_the_printed_list():
    values, alpha = SAWB(2).quantize_with_scale(W)
    third = alpha / 3
    np.testing.assert_allclose(values, [-alpha, -third, third, third, alpha, third, -third, alpha], rtol=1e-15)
    np.testing.assert_array_equal(values.round(4), [-1.4202, -0.4734, 0.4734, 0.4734, 1.4202, 0.4734, -0.4734, 1.4202])


def test_fifteen_levels_of_the_printed_list():
    values, alpha = SAWB(4).quantize_with_scale(W)
    step = alpha / 7
    assert step == pytest.approx(0.383056, abs=6e-7)
    np.testing.assert_array_equal((values / step).round(12), [-3, -1, 0, 1, 3, 1, -1, 5])


def test_sixteen_bins_with_zero_use_the_code_that_fifteen_leave_free():
    """Paper notes 5.2: the integers −8 … 7 in steps of α/7, α as for fifteen levels."""
    even = np.append(np.linspace(-1, 1, 1001), [-1.2, 1.2])
    values, alpha = SAWB(row="403_16").quantize_with_scale(even)
    assert sawb_clip(even) == alpha < 1.2 / (1 + 0.5 / 7), "the list's ends lie more than half a step beyond ±α"
    np.testing.assert_array_equal(np.unique((values / (alpha / 7)).round(9)), np.arange(-8, 8))
    np.testing.assert_array_equal(SAWB(row="403_16").quantize(W), SAWB(4).quantize(W))
    w = torch.tensor([*even, -1.05, 1.05], requires_grad=True)
    SAWB(row="403_16", gradient="inside").quantize(w).sum().backward()
    assert w.grad[-4:].tolist() == [0, 0, 1, 0], "only −1.05 lies between −8α/7 and α"


def test_alpha_may_exceed_the_largest_weight():
    assert sawb_clip(W, 3) > 2  # paper notes 5.3


@pytest.mark.parametrize("row", SAWB_ROWS)
@pytest.mark.parametrize("axis", [None, 1])
def test_every_weight_goes_to_the_nearest_level(row, axis):
    w = weights(30, 20)
    sawb = SAWB(row=row, axis=axis)
    values, alpha = sawb.quantize_with_scale(w)
    levels = sawb.coefficients.levels
    grid = np.linspace(-1, 1, levels)
    grid = np.concatenate([[2 * grid[0] - grid[1]], grid]) if row == "403_16" else grid
    np.testing.assert_allclose(sawb.coefficients.grid, grid, rtol=1e-15, atol=1e-15)
    grid = grid[:, None, None] * np.asarray(alpha, np.float64)
    nearest = np.abs(w - grid).min(0)
    np.testing.assert_allclose(np.abs(values - w.astype(np.float64)), nearest, atol=2e-6 * np.max(alpha))
    distance = np.abs(values - grid).min(0)
    assert (distance <= 2e-7 * np.max(alpha)).all() and len(np.unique(values / alpha)) > levels / 4


@pytest.mark.parametrize("row", ["2bit", "3bit", "4bit", "5bit"])
def test_even_levels_leave_zero_out(row):
    """What the published code does: 1.5 rounds to the even 2, 7.5 to 8; 3.5 to 4; 15.5 to 16."""
    values, alpha = SAWB(row=row).quantize_with_scale(W)
    levels = SAWB_ROWS[row].levels
    assert (values != 0).all()
    assert values[2] == pytest.approx(alpha / (levels - 1), rel=1e-15)
    assert SAWB(1).quantize([1.0, 0.0, -0.5]).tolist() == [0.5, -0.5, -0.5]  # 0.5 rounds to the even 0


@pytest.mark.parametrize("row", ["403", "403_16", "703", "803", "ternary", "luq"])
def test_odd_levels_are_integers_times_a_step(row):
    w = weights(1000, seed=1)
    values, alpha = SAWB(row=row).quantize_with_scale(w)
    half = (SAWB_ROWS[row].levels - 1) // 2
    step = np.float32(alpha) / np.float32(half)
    np.testing.assert_array_equal(values, np.clip(np.rint(w / step), -half - (row == "403_16"), half) * step)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("row", ["2bit", "403", "luq"])
def test_every_channel_is_quantized_as_if_alone(row, axis):
    w = weights(6, 8) * np.geomspace(0.01, 10, 8, dtype=np.float32)
    values, alphas = SAWB(row=row, axis=axis).quantize_with_scale(w)
    for channel in range(w.shape[axis]):
        alone = np.take(w, channel, axis)
        want, alpha = SAWB(row=row).quantize_with_scale(alone)
        assert alphas[channel] == np.float32(alpha)
        np.testing.assert_array_equal(np.take(values, channel, axis), want)


def test_means_are_exact():
    """Against math.fsum, whose sums have no rounding but the last."""
    w = weights(10_001, seed=3)
    rms = math.sqrt(math.fsum(float(v) ** 2 for v in w) / w.size)
    mean = math.fsum(abs(float(v)) for v in w) / w.size
    assert sawb_clip(w, 4) == pytest.approx(12.035 * rms - 12.03 * mean, rel=1e-7)
    assert sawb_clip(w.astype(np.float64), 4) == pytest.approx(12.035 * rms - 12.03 * mean, rel=1e-13)


# ---- special tensors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", SAWB_ROWS)
@pytest.mark.parametrize("axis", [None, 0])
def test_nothing_gives_a_scale_of_zero(row, axis):
    for w in (np.zeros((2, 3)), np.zeros((2, 0)), np.full((2, 3), np.nan)):
        values, alpha = SAWB(row=row, axis=axis).quantize_with_scale(w)
        assert np.all(np.asarray(alpha) == 0)
        np.testing.assert_array_equal(values, w)


def test_a_constant_magnitude_falls_back_to_the_largest():
    """16 levels: (12.68 − 12.80)·|w| < 0. At 15 levels the formula gives 0.005·|w|, positive, and is obeyed."""
    assert sawb_clip([0.3, -0.3], row="4bit") == 0.3
    assert sawb_clip([0.3, -0.3], 4) == pytest.approx(0.0015)
    assert SAWB(row="4bit").quantize([0.3, -0.3]).tolist() == [0.3, -0.3]


@pytest.mark.parametrize("row", SAWB_ROWS)
def test_nan_and_infinity_count_for_nothing(row):
    w = np.concatenate([weights(40), np.float32([np.nan, np.inf, -np.inf])])
    values, alpha = SAWB(row=row).quantize_with_scale(w)
    assert alpha == sawb_clip(w[:40], row=row)
    grid = SAWB_ROWS[row].grid
    assert np.isnan(values[40]) and values[41:] == pytest.approx(alpha * grid[[-1, 0]], rel=1e-6)
    np.testing.assert_array_equal(values[:40], SAWB(row=row).quantize(w[:40]))


def test_magnitudes_whose_squares_overflow_fall_back_to_the_largest():
    assert sawb_clip(np.array([1e300, 1.0]), 2) == 1e300


# ---- torch -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", SAWB_ROWS)
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_numpy_and_torch_agree_bit_for_bit(row, axis):
    w = weights(33, 65)
    values, alpha = SAWB(row=row, axis=axis).quantize_with_scale(w)
    tensor, tensor_alpha = SAWB(row=row, axis=axis).quantize_with_scale(torch.from_numpy(w))
    np.testing.assert_array_equal(values, tensor.numpy())
    np.testing.assert_array_equal(alpha, tensor_alpha)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes(dtype):
    w = torch.from_numpy(weights(50)).to(getattr(torch, dtype))
    got = SAWB(4).quantize(w)
    work = w if dtype == "float64" else w.float()
    assert got.dtype == w.dtype and torch.equal(got, SAWB(4).quantize(work).to(w.dtype))


def test_gradients():
    """α = 1.42 clips the 2 and the −1.5 alone; it has no gradient of its own."""
    w = torch.tensor([*W, -1.5], requires_grad=True)
    assert 1 < sawb_clip(w, 2) < 1.5
    for gradient, want in (("everywhere", [1] * 9), ("inside", [1] * 7 + [0, 0])):
        w.grad = None
        SAWB(2, gradient=gradient).quantize(w).sum().backward()
        assert w.grad.tolist() == want


@pytest.mark.parametrize(("call", "message"), [
    (lambda: SAWB(6), "SAWB has coefficients for 1, 2, 3, 4, 5, 7, 8 bits, got 6"),
    (lambda: sawb_clip(W, row="404"), "unknown SAWB row '404'; allowed: 1bit, ternary"),
    (lambda: SAWB(gradient="none"), "gradient must be 'everywhere' or 'inside', got 'none'"),
    (lambda: sawb_clip(W, axis=1), "axis must be from -1 to 0"),
])  # fmt: skip
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
