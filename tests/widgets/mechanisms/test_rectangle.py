"""Lab 06: windows and lost shares are those of the formats, counted from their codes."""

import numpy as np
import pytest

from lplab import formats as F
from lplab.widgets.mechanisms import rectangle


def test_it_opens_at_the_forward_format_of_the_paper():
    fmt, paper = rectangle.number_format(*rectangle.START), F.get("hfp8_forward")
    np.testing.assert_array_equal(fmt.codebook(), paper.codebook())


@pytest.mark.parametrize(("exponent_bits", "top"), [(2, 0), (3, -14), (4, 4), (4, -6), (5, 15), (6, 16)])
def test_a_window_is_that_of_the_codes(exponent_bits, top):
    found = rectangle.window(exponent_bits, top)
    numbers = np.abs(rectangle.number_format(exponent_bits, top).codebook())
    numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
    assert found["low"] == np.log2(numbers.min() / 2) and found["high"] == np.log2(numbers.max())
    assert np.floor(found["high"]) == top
    for x, zero, saturated in zip(rectangle.tensors().values(), found["zero"], found["saturated"], strict=True):
        assert zero == pytest.approx(
            np.mean(np.abs(x) <= numbers.min() / 2), abs=1e-6
        )  # the tie goes to 0, which is even
        assert saturated == pytest.approx(np.mean(np.abs(x) > numbers.max()), abs=1e-6)


def test_the_error_is_half_a_step_of_one():
    for bits in rectangle.EXPONENT_BITS:
        fmt = rectangle.number_format(bits, 0)
        step = float(fmt.quantize(1 + 1e-9, "up")) - 1
        assert rectangle.window(bits, 0)["error"] == step / 2


def test_every_number_of_the_tensors_is_drawn():
    low, high = rectangle.OCTAVES
    for x in rectangle.tensors().values():
        assert 2.0**low <= np.abs(x).min() and np.abs(x).max() < 2.0**high
