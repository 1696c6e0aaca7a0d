"""Rounders of training that take fewer passes than the quantizer give its bits."""

import math

import pytest
import torch

from lplab.formats.paths.array_kernels import MIN_ELEMENTS_TO_SHARE
from lplab.quantizers import LUQ, SAWB
from lplab.training.emulation import rounders
from lplab.training.emulation.quantized_op import QuantizedOp
from lplab.training.emulation.rounders import QuantizerRounder, rounder_of
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import LayerRules

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
    LUQ(), LUQ(samples=3), LUQ(exponent_bits=1, random_bits=1), LUQ(exponent_bits=4, random_bits=24), LUQ(nearest=True),
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
    quantizer = SAWB(row=row)
    rounder = rounder_of(QuantSpec(quantizer=quantizer))
    rounder(torch.randn(200, 200), 0, 1.0)  # loads the loop
    torch.manual_seed(0)
    x = INPUTS[kind]()
    found, (expected, alpha) = rounder(x, 0, 1.0), quantizer.quantize_with_scale(x)
    assert found.values.dtype == expected.dtype and found.values.shape == x.shape
    assert torch.equal(found.values.nan_to_num(1e9), expected.nan_to_num(1e9))
    assert torch.equal(found.values.signbit(), expected.signbit())
    assert found.scale == alpha


@pytest.mark.parametrize("rule", [
    QuantSpec("hfp8_forward"), QuantSpec("e5m2", "stochastic"), QuantSpec("int4"), QuantSpec("radix4_fp4_even"),
    QuantSpec(quantizer=SAWB(4)), QuantSpec(quantizer=SAWB(row="403_16")), QuantSpec(quantizer=LUQ()),
    QuantSpec(quantizer=LUQ(samples=3)), QuantSpec(),
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("kind", INPUTS)
def test_rounding_into_memory_has_the_same_bits_and_draws(kind, rule):
    torch.manual_seed(0)
    plain, into = (QuantizedOp("a", rules=LayerRules(activation=rule), seed=3) for _ in range(2))
    for op in (plain, into):
        op.round("activation", torch.randn(600, 600))  # loads the loop
    for _ in range(2):
        x = INPUTS[kind]()
        before, memory = x.clone(), torch.full(x.shape, 77.0)
        expected, found = plain.round("activation", x), into.round_into("activation", x, memory)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert torch.equal(found.nan_to_num(1e9), expected.nan_to_num(1e9))
        assert torch.equal(found.signbit(), expected.signbit()) and torch.equal(found.isnan(), expected.isnan())
        assert found is memory or bool((memory == 77).all())
        assert torch.equal(x.nan_to_num(1e9), before.nan_to_num(1e9))
    assert plain.state_dict() == into.state_dict() and plain.last_seed == into.last_seed


@pytest.mark.parametrize("rule", [QuantSpec("e5m2"), QuantSpec(quantizer=SAWB(4)), QuantSpec(quantizer=LUQ())])
def test_what_is_written_at_an_address(rule):
    rounder, x = rounder_of(rule), torch.randn(300, 300)
    out = torch.empty_like(x)
    rounder(torch.randn(600, 600))
    assert rounder.round_at(x.data_ptr(), out.data_ptr(), x.numel(), 5)
    assert torch.equal(out, rounder(x, 5).values) and torch.equal(out, rounder.values(x, 5))
    large = torch.randn(MIN_ELEMENTS_TO_SHARE)  # several threads may share it; quantizers leave that to their caller
    out = torch.empty_like(large)
    assert rounder.round_at(large.data_ptr(), out.data_ptr(), large.numel(), 5) == (rule.quantizer is None)
    assert rule.quantizer is not None or torch.equal(out, rounder.values(large, 5))


def test_zeros_that_have_no_clip():
    quantizer = SAWB(4)
    rounder = rounder_of(QuantSpec(quantizer=quantizer))
    rounder(torch.randn(200, 200), 0, 1.0)  # loads the loop
    shapes = [(size, 3) for size in range(1, rounders.MAX_SHAPES_OF_ZEROS + 3)]
    for shape in (*shapes, *shapes[:2]):
        for x in (torch.zeros(shape), -torch.zeros(shape)):
            found, (expected, alpha) = rounder(x, 0, 1.0), quantizer.quantize_with_scale(x)
            assert torch.equal(found.values, expected) and torch.equal(found.values.signbit(), expected.signbit())
            assert found.scale == alpha == 0
            found.values.fill_(9.0)  # the next zeros do not see it


def test_zeros_are_rounded_once_for_a_shape(monkeypatch):
    calls: list = []
    general = QuantizerRounder.__call__

    def counted(rounder, x, *arguments):
        calls.append(x.shape)
        return general(rounder, x, *arguments)

    monkeypatch.setattr(QuantizerRounder, "__call__", counted)
    rounder = rounder_of.__wrapped__(QuantSpec(quantizer=SAWB(4)))
    for _ in range(5):
        rounder(torch.zeros(16, 128))
    assert calls == [(16, 128)]
