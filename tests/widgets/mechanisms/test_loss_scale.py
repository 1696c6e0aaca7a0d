"""Lab 03: a loss scale moves the window, so counts behind a scale are those of octaves inside and outside of it."""

import numpy as np
import pytest

from lplab.widgets.mechanisms import loss_scale


@pytest.fixture(scope="module")
def data():
    return loss_scale.data()


def test_each_gradient_is_counted_in_its_octave(data):
    octaves = np.floor(np.log2(loss_scale.gradients())).astype(int)
    assert sum(data["counts"]) == data["total"] == len(octaves), "none is beyond the axis"
    for k in (-30, -25, -12):
        assert data["counts"][k - data["first"]] == np.sum(octaves == k)


@pytest.mark.parametrize("name", loss_scale.FORMATS)
@pytest.mark.parametrize("scale", range(-4, 29, 8))
def test_a_scale_is_a_shift_of_the_edges(data, name, scale):
    """Counted without any rounding: what is below half of the smallest number is lost, what is too large infinite."""
    found = data["formats"][name]
    outcome, x, fmt = found["outcomes"][scale - data["scales"][0]], loss_scale.gradients(), loss_scale.FORMATS[name]
    assert sum(outcome.values()) == data["total"]
    assert outcome["zero"] == np.sum(x <= fmt.smallest_subnormal / 2 / 2.0**scale)
    half_a_step = fmt.max * (1 + 2.0 ** -(fmt.mantissa_bits + 1) / (2 - 2.0**-fmt.mantissa_bits))
    assert outcome["infinite"] == np.sum(x * 2.0**scale >= half_a_step)


def test_float16_loses_half_of_these_gradients_and_a_scale_brings_them_back(data):
    outcomes = data["formats"]["float16"]["outcomes"]
    zeros = [each["zero"] for each in outcomes]
    assert zeros[0 - data["scales"][0]] == data["total"] // 2 and zeros[12 - data["scales"][0]] == 0
    assert zeros == sorted(zeros, reverse=True) and outcomes[-1]["infinite"] > 0
