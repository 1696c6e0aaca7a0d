"""Scaling rules: against exact arithmetic, numpy's own order statistics, and by brute force."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lplab import formats as F
from lplab.quantizers import Amax, MinMSE, Percentile, Quantizer
from lplab.quantizers.scaling import next_power_of_two

RULES = [Amax(), Percentile(90), MinMSE(20), Amax(True), Percentile(90, True), MinMSE(20, True)]
FORMATS = ["int2", "int4", "int8", "e4m3fn", "e5m2", "e2m1", "radix4_fp4_even", "posit8_1"]
numbers = st.floats(-100, 100, width=32)


# ---- what a scale is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_amax_maps_the_largest_magnitude_to_the_largest_value(name):
    x = np.float32([0.3, -7.3, 2.0])
    fmt = F.get(name)
    limit = min(fmt.max, -fmt.min)
    assert Quantizer(name, Amax()).scale(x) == np.float32(7.3) / np.float32(limit)
    assert abs(Quantizer(name, Amax()).quantize(x)[1] / np.float32(-7.3) - 1) < 2.0**-22  # a division and a product


@given(st.floats(2.0**-99, 2.0**99, width=32))
def test_the_next_power_of_two_is_exact(scale):
    power = next_power_of_two(np, np.float32([scale]))[0]
    assert Fraction(float(power)) >= Fraction(scale) > Fraction(float(power)) / 2
    assert np.frexp(power)[0] == 0.5


@given(st.lists(numbers, min_size=1, max_size=30), st.sampled_from(["int4", "int8", "e4m3fn", "e2m1"]))
def test_a_power_of_two_clips_nothing_and_divides_exactly(x, name):
    x, quantizer = np.float32(x), Quantizer(name, Amax(power_of_two=True))
    values, scale = quantizer.quantize_with_scale(x)
    top = np.abs(x).max()
    assert scale == 1 or top < 2.0**-90 or scale * F.get(name).max / 2 < top  # one step finer would clip
    assert top <= scale * F.get(name).max
    exact = F.get(name).quantize(x.astype(np.float64) / scale) * scale
    np.testing.assert_array_equal(values, exact)


def test_unsigned_formats_look_at_positive_numbers_alone():
    x = np.float32([-100.0, 3.0, 7.5])
    uint4 = F.IntFormat(4, signed=False)
    for rule in (Amax(), Percentile(100), MinMSE(1)):
        np.testing.assert_array_equal(Quantizer(uint4, rule).quantize(x), np.float32([0, 3, 7.5]))
    assert Quantizer(uint4, Amax()).scale(np.float32([-1.0, -2.0])) == 1


def test_twos_complement_scales_by_the_side_that_has_both_signs():
    assert Quantizer("int8", Amax()).scale([-127.0, 5.0]) == 1  # −128 has no partner


def test_a_zero_point_leaves_room_on_both_sides():
    """−10 … 245 in units of the scale: so that −1 fits too, a unit is a tenth."""
    uint8 = F.IntFormat(8, signed=False, zero_point=10)
    values, scale = Quantizer(uint8, Amax()).quantize_with_scale([-1.0, 1.0])
    assert scale == 0.1 and values.tolist() == [-1.0, 1.0]


# ---- percentile ------------------------------------------------------------------------------------------------------


@given(st.lists(numbers, min_size=1, max_size=50), st.sampled_from([0.1, 25, 50, 90, 99.9, 100]))
def test_percentile_is_an_order_statistic(x, percent):
    magnitudes = np.abs(np.float32(x))
    below = [m for m in magnitudes if Fraction(int((magnitudes <= m).sum()), len(x)) >= Fraction(str(percent)) / 100]
    want = min(below) or magnitudes.max()
    quantizer = Quantizer(F.IntFormat(2, symmetric=True), Percentile(percent))  # whose largest value is 1
    assert quantizer.scale(np.float32(x)) == np.clip(want, 2.0**-100, None) if want else 1


@pytest.mark.parametrize("percent", [1, 50, 99, 99.9])
def test_percentile_against_numpy(percent):
    x = np.random.default_rng(3).normal(size=1001)
    want = np.percentile(np.abs(x), percent, method="inverted_cdf")
    assert Quantizer("int2", Percentile(percent)).scale(x) == want


def test_percentile_reads_the_decimal_that_is_written():
    """99.9 % of 1000 numbers are 999 of them, although 99.9 · 1000 / 100 exceeds 999 in floating point."""
    assert Quantizer("int2", Percentile(99.9)).scale(np.arange(1.0, 1001.0)) == 999


def test_percentile_100_is_amax():
    x = np.random.default_rng(4).normal(size=77)
    assert Quantizer("int8", Percentile(100)).scale(x) == Quantizer("int8", Amax()).scale(x)


def test_a_percentile_of_zero_falls_back_to_the_largest():
    x = np.zeros(1000)
    x[0] = 254.0
    assert Quantizer("int8", Percentile(99)).scale(x) == 2.0


# ---- least error -----------------------------------------------------------------------------------------------------


def exact_error(x, scale, grid):
    """The squared error in rational numbers: each element goes to the nearest of all values of the format."""
    scale = Fraction(float(scale))
    return sum(min((Fraction(float(v)) - scale * g) ** 2 for g in grid) for v in x)


@pytest.mark.parametrize("name", ["int2", "int4", "e2m1", "e3m2", "radix4_fp4_odd"])
@pytest.mark.parametrize("power_of_two", [False, True])
def test_no_candidate_has_a_smaller_error(name, power_of_two):
    """By brute force over the whole grid of candidates, in exact arithmetic."""
    fmt, random = F.get(name), np.random.default_rng(11)
    grid = [Fraction(float(v)) for v in fmt.values]
    limit = min(fmt.max, -fmt.min)
    for size in (1, 2, 7, 12):
        x = random.standard_t(2, size)
        amax = np.abs(x).max()
        top = 2.0 ** np.ceil(np.log2(amax / limit))
        scales = [top / 2**j for j in range(12)] if power_of_two else [amax * j / 12 / limit for j in range(1, 13)]
        found = Quantizer(name, MinMSE(12, power_of_two)).scale(x)
        assert any(abs(found / s - 1) < 1e-12 for s in scales), "the result is one of the candidates"
        least = min(exact_error(x, s, grid) for s in scales)
        # thresholds of radix 4 below the smallest value are no midpoints, so there brute force may find less
        if name != "radix4_fp4_odd":
            assert exact_error(x, found, grid) <= least * (1 + Fraction(1, 10**9)) + Fraction(1, 10**24)
        assert exact_error(x, found, grid) <= exact_error(x, max(scales), grid) * (1 + Fraction(1, 10**9))


def test_a_finer_grid_finds_the_textbook_optimum():
    """The clip of a Gaussian at 4 bits (15 levels): 2.474 σ (paper notes, 5.2)."""
    from statistics import NormalDist

    x = np.array([NormalDist().inv_cdf((i + 0.5) / 4000) for i in range(4000)])
    scale = Quantizer(F.IntFormat(4, symmetric=True), MinMSE(400)).scale(x)
    assert 7 * scale == pytest.approx(2.474, abs=0.02)  # steps of the grid: amax / 400 = 0.009


def test_equal_errors_take_the_larger_clip():
    assert Quantizer(F.IntFormat(2, symmetric=True), MinMSE(4)).scale([4.0]) == 4.0
    assert Quantizer(F.IntFormat(3, symmetric=True), MinMSE(3, True)).scale([3.0, 1.0]) == 1.0


# ---- special input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("name", ["int4", "e4m3fn", "e5m2"])
def test_nothing_to_scale_gives_one(rule, name):
    for x in (np.zeros(5), np.zeros(0), np.full(3, np.nan), np.array([np.inf, -np.inf, np.nan, 0.0])):
        assert Quantizer(name, rule).scale(x) == 1
    assert Quantizer(name, rule).quantize(np.zeros((0, 3))).shape == (0, 3)
    assert Quantizer(name, rule, axis=0).scale(np.zeros((0, 3))).shape == (0,)
    assert Quantizer(name, rule, axis=0).scale(np.zeros((3, 0))).tolist() == [1, 1, 1]


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("name", ["int4", "e4m3fn", "e5m2"])
def test_nan_and_infinity_count_for_no_scale(rule, name):
    x = np.random.default_rng(5).normal(size=50).astype(np.float32)
    special = np.concatenate([x, np.float32([np.nan, np.inf, -np.inf])])
    quantizer = Quantizer(name, rule)
    scale = quantizer.scale(x)
    assert quantizer.scale(special) == scale or isinstance(rule, MinMSE)  # there zeros stand in for them
    values, scale = quantizer.quantize_with_scale(special)
    limit = np.float32(F.get(name).max) * np.float32(scale)
    assert np.isnan(values[50]) and values[51] == limit and values[52] == np.float32(F.get(name).min) * scale
    assert np.isfinite(values[:50]).all()


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_extreme_magnitudes_keep_the_scale_in_bounds(rule):
    assert Quantizer("int4", rule).scale(np.array([1e-300, -1e-300])) == 2.0**-100
    assert Quantizer("int4", rule).scale(np.array([1e300, -1e300])) == 2.0**100


@pytest.mark.parametrize("wrong", [0, -1, 100.1, "99", None, True, float("nan")])
def test_percent_must_make_sense(wrong):
    with pytest.raises(ValueError, match="percent must be a number above 0 and at most 100"):
        Percentile(wrong)


@pytest.mark.parametrize("wrong", [0, 10_001, 2.5, "9"])
def test_candidates_must_make_sense(wrong):
    with pytest.raises(ValueError, match="candidates must be an integer from 1 to 10000"):
        MinMSE(wrong)
