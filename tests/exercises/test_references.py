"""The solutions of the exercises against the library and other oracles."""

import math

import numpy as np
import pytest

from lplab import exercises
from lplab import formats as F
from lplab.exercises.checks.variants import function_of


def solution(name):
    return function_of(exercises.get(name))


@pytest.mark.parametrize(
    ("fmt", "split"),
    [("e4m3", (4, 3, 7)), ("e5m2", (5, 2, 15)), (F.FloatFormat(3, 4, bias=3), (3, 4, 3)), ("fp16", (5, 10, 15))],
    ids=str,
)
def test_decode_is_the_codebook(fmt, split):
    fmt = F.get(fmt) if isinstance(fmt, str) else fmt
    values = [solution("01.1")(code, *split) for code in range(2**fmt.bits)]
    np.testing.assert_array_equal(values, fmt.codebook())
    assert np.array_equal(np.signbit(values), np.signbit(fmt.codebook()) & ~np.isnan(values))


def test_rounding_is_the_librarys():
    boundary = [x for (x,) in exercises.get("01.2").boundary()]
    for x in boundary:
        ours, theirs = solution("01.2")(x), float(F.get("e4m3fn").quantize(x))
        assert (ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs)) or ours != ours, x


def test_fixed_point_is_the_librarys():
    for x, integer_bits, fraction_bits in exercises.get("02.1").boundary():
        fmt = F.FixedFormat(integer_bits=integer_bits, fraction_bits=fraction_bits)
        expected = np.array([fmt.quantize(float(value), "nearest_down") for value in x])
        np.testing.assert_array_equal(solution("02.1")(x, integer_bits, fraction_bits), expected)


def test_losses_are_what_the_librarys_format_does():
    for x, integer_bits, fraction_bits in exercises.get("02.3").boundary():
        fmt = F.FixedFormat(integer_bits=integer_bits, fraction_bits=fraction_bits)
        value = float(x[0])
        numbers = fmt.codebook()
        lost = value != 0 and float(fmt.quantize(value, "nearest_down")) == 0
        outside = not numbers.min() <= value <= numbers.max()
        assert solution("02.3")(x, integer_bits, fraction_bits) == (outside, lost), value


@pytest.mark.parametrize("bits", [0, 1, 2, 5])
def test_the_drift_is_that_of_all_fractions(bits):
    values = np.arange(2**bits) / 2**bits
    assert solution("02.4")(bits, 1) == (np.floor(values + 0.5) - values).mean()


def test_the_coin_is_unbiased_in_the_long_run():
    rng, x = np.random.default_rng(1), np.linspace(-1, 1, 41)
    mean = np.mean([solution("02.2")(x, 2, rng) for _ in range(4000)], axis=0)
    assert np.abs(mean - x).max() < 6 * 0.125 / math.sqrt(4000)
