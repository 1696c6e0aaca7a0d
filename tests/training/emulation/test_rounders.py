"""Rounders of training that take fewer passes than the quantizer give its bits."""

import math

import pytest
import torch

from lplab.quantizers import Luq, Sawb
from lplab.training.emulation.rounders import rounder_of
from lplab.training.recipe.quant_spec import QuantSpec

INPUTS = {
    "large": lambda: torch.randn(300, 700),
    "transposed": lambda: torch.randn(300, 70).t(),
    "number": lambda: torch.randn(()),
    "empty": lambda: torch.randn(0),
    "zeros": lambda: torch.zeros(4),
    "special": lambda: torch.tensor([1.0, -0.0, math.nan, math.inf, -3.0]),
    "tiny": lambda: torch.randn(50) * 1e-38,
    "huge": lambda: torch.randn(50) * 1e38,
    "double": lambda: torch.randn(3, 4, dtype=torch.float64),
}


@pytest.mark.parametrize("quantizer", [
    Luq(), Luq(samples=3), Luq(exponent_bits=1, random_bits=1), Luq(exponent_bits=4, random_bits=24), Luq(nearest=True),
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("kind", INPUTS)
def test_luq_in_a_layer_is_luq(kind, quantizer):
    torch.manual_seed(0)
    rounder = rounder_of(QuantSpec(quantizer=quantizer))
    rounder(torch.randn(600, 600), 1, 1.0)  # loads the loop
    x = INPUTS[kind]()
    values, expected = rounder(x, 7, 1.0).values, quantizer.quantize(x, seed=7)
    assert values.dtype == expected.dtype and values.shape == x.shape
    assert torch.equal(values.nan_to_num(1e9), expected.nan_to_num(1e9))
    assert torch.equal(values.signbit(), expected.signbit()) and torch.equal(values.isnan(), expected.isnan())


@pytest.mark.parametrize("row", ["ternary", "403", "703", "803"])
@pytest.mark.parametrize("kind", INPUTS)
def test_sawb_in_one_call_is_sawb(kind, row):
    quantizer = Sawb(row=row)
    rounder = rounder_of(QuantSpec(quantizer=quantizer))
    rounder(torch.randn(200, 200), 0, 1.0)  # loads the loop
    torch.manual_seed(0)
    x = INPUTS[kind]()
    found, (expected, alpha) = rounder(x, 0, 1.0), quantizer.quantize_with_scale(x)
    assert found.values.dtype == expected.dtype and found.values.shape == x.shape
    assert torch.equal(found.values.nan_to_num(1e9), expected.nan_to_num(1e9))
    assert torch.equal(found.values.signbit(), expected.signbit())
    assert found.scale == alpha
