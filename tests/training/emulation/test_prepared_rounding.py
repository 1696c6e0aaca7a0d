"""Prepared loops give the bits of Format.quantize, whatever the layout of the tensor."""

import numpy as np
import pytest
import torch

from lplab import formats
from lplab.formats import IntFormat, Rounding
from lplab.formats.paths import kernel_selection
from lplab.formats.paths.array_kernels import MIN_ELEMENTS_TO_SHARE
from lplab.formats.paths.numba_kernels import PIECE
from lplab.quantizers import SAWB, Quantizer, two_phase
from lplab.training.emulation import prepared_rounding
from lplab.training.emulation.quantized_op import QuantizedOp
from lplab.training.emulation.rounders import dual_rounding, rounder_of
from lplab.training.recipe.quant_spec import PerLayerGradScale, QuantSpec
from lplab.training.recipe.recipe import LayerRules


def numbers():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 50, 40, generator=generator) * torch.exp2(torch.randint(-30, 30, (40,), generator=generator))
    x.view(-1)[:6] = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-42])
    return x


LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(1, 2),
    "permuted": lambda x: x.permute(2, 0, 1),
    "slice": lambda x: x[:, ::2, 1:7],
    "expanded": lambda x: x[:1].expand(5, -1, -1),
    "single": lambda x: x[0, 0, 3],
    "empty": lambda x: x[:0],
    "channels last": lambda x: x[:, :, :, None].contiguous(memory_format=torch.channels_last),
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(kernel_selection, "MIN_ELEMENTS_BEFORE_LOADING", 0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "rounding"), [
    ("hfp8_forward", "nearest_even"), ("hfp8_backward", "nearest_even"), ("dlfloat16", "nearest_away"),
    ("bf16", "nearest_even"), ("q4.12", "nearest_down"), ("radix4_fp4_odd", "nearest_away"), ("int4", "toward_zero"),
    ("fp16", "stochastic"), ("posit8_1", "nearest_even"), ("fp32", "nearest_even"),
])  # fmt: skip
def test_same_bits_as_quantize(name, rounding, layout):
    x, format = LAYOUTS[layout](numbers()), formats.get(name)
    got = prepared_rounding.Prepared(format, Rounding(rounding))(x, seed=7)
    expected = format.quantize(x, rounding, seed=7)
    assert got.shape == x.shape
    assert same_bits(got, expected)


def same_bits(one, other):
    """The same patterns; a NaN is a NaN, whatever its sign."""
    one, other = (t.contiguous().numpy() for t in (one, other))
    nan = np.isnan(other)
    return np.array_equal(np.isnan(one), nan) and np.array_equal(one.view(np.int32)[~nan], other.view(np.int32)[~nan])


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("name", "rounding"), [
    ("hfp8_forward", "nearest_even"), ("dlfloat16", "stochastic"), ("radix4_fp4_even", "nearest_away"), ("e2m1", "up"),
])  # fmt: skip
def test_large_tensors_are_the_same_at_every_thread_count(name, rounding, threads):
    x, format = (
        torch.randn(
            MIN_ELEMENTS_TO_SHARE + PIECE + 5,
            generator=torch.Generator().manual_seed(1),
        ),
        formats.get(name),
    )
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        prepared = prepared_rounding.Prepared(format, Rounding(rounding))
        got = prepared(x, seed=7)
    finally:
        torch.set_num_threads(before)
    assert prepared.is_ready(0)
    assert same_bits(got, format.quantize(x, rounding, seed=7))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "rule", [QuantSpec(quantizer=SAWB(4)), QuantSpec(quantizer=SAWB(3)), QuantSpec(quantizer=SAWB(row="403_16"))]
)
def test_sawb_in_a_layer_is_sawb(rule, layout):
    x = LAYOUTS[layout](numbers()[:, 1:]).contiguous()
    rounded = rounder_of(rule)(x, 0, 1.0)
    values, alpha = rule.quantizer.quantize_with_scale(x)
    assert same_bits(rounded.values, values)
    assert np.array_equal(rounded.scale, alpha)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scaled_integers_are_those_of_the_quantizer(layout):
    x = LAYOUTS[layout](numbers())
    format = IntFormat(4, symmetric=True)
    got = prepared_rounding.Prepared(format, Rounding(), step=True)(x, scale=0.3)
    assert torch.equal(got.nan_to_num(), Quantizer(format).quantize(x, scale=0.3).nan_to_num())


def test_other_types_take_the_general_way():
    x = numbers()[1]
    prepared = prepared_rounding.Prepared(formats.get("e5m2"), Rounding())
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        assert prepared(x.to(dtype)).dtype == dtype
    scaled = prepared_rounding.Prepared(IntFormat(4), Rounding(), step=True)(x.double(), scale=0.5)
    assert torch.equal(scaled, IntFormat(4, scale=0.5).quantize(x.double()))


@pytest.mark.parametrize("scale", [2.0**-9, 1.0, 2.0, 2.0**21, 2.0**40])
def test_shifted_formats_are_the_two_phases(scale):
    x = numbers()[1] / scale
    rules = [QuantSpec(f"radix4_fp4_{phase}", "nearest_away", PerLayerGradScale()) for phase in ("even", "odd")]
    for rule, expected in zip(rules, two_phase(x, scale), strict=True):
        rounded = rounder_of(rule)(x, 0, scale)
        assert torch.equal(rounded.values, expected) and rounded.scale == 1 / scale
        assert rounded.limit == rule.format.max / scale


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "empty"])
@pytest.mark.parametrize("scale", [2.0**-9, 1.0, 2.0**21])
def test_both_phases_in_one_pass(scale, layout):
    x = LAYOUTS[layout](numbers() / scale)
    rules = [QuantSpec(f"radix4_fp4_{phase}", "nearest_away", PerLayerGradScale()) for phase in ("even", "odd")]
    both = dual_rounding(*rules, scale)
    for each in (x, x.nan_to_num(1.0, 2.0, 3.0)):
        first, second, largest = both(each)
        for rounded, rule in zip((first, second), rules, strict=True):
            assert same_bits(rounded, rounder_of(rule)(each, 0, scale).values)
        np.testing.assert_equal(largest, float(each.abs().max()))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("odd_one", [None, float("nan"), float("inf"), -3e38])
def test_both_phases_in_one_pass_are_the_same_at_every_thread_count(odd_one, threads):
    x = torch.randn(MIN_ELEMENTS_TO_SHARE + PIECE + 5, generator=torch.Generator().manual_seed(1))
    if odd_one is not None:
        x[PIECE + 3] = odd_one
    rules = [QuantSpec(f"radix4_fp4_{phase}", "nearest_away", PerLayerGradScale()) for phase in ("even", "odd")]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        *both, largest = dual_rounding(*rules, 2.0)(x)
    finally:
        torch.set_num_threads(before)
    for rounded, rule in zip(both, rules, strict=True):
        assert same_bits(rounded, rule.format.quantize(x * 2.0, rule.rounding).div_(2.0))
    np.testing.assert_equal(largest, float(x.abs().max()))


def test_one_pass_serves_two_formats_of_powers():
    even, odd = (QuantSpec(f"radix4_fp4_{phase}", "nearest_away", PerLayerGradScale()) for phase in ("even", "odd"))
    assert dual_rounding(even, even, 1.0) is None  # one rounding is enough
    assert dual_rounding(even, QuantSpec("radix4_fp4_odd", "toward_zero", PerLayerGradScale()), 1.0) is None
    assert dual_rounding(even, QuantSpec("radix4_fp4_odd", "nearest_away"), 1.0) is None  # no scale of the layer
    assert (
        dual_rounding(even, QuantSpec("e5m2", "nearest_away", PerLayerGradScale()), 1.0)(torch.ones(9)) is None
    )  # no powers
    assert (
        dual_rounding(even, odd, 1.0)(torch.ones(9).double()) is None
        and dual_rounding(even, odd, 1.0)(torch.ones(0)) is None
    )


@pytest.mark.parametrize("start", [None, 1.0])
def test_gradients_in_one_pass_vote_as_before(start, monkeypatch):
    even, odd = (
        QuantSpec(f"radix4_fp4_{phase}", "nearest_away", PerLayerGradScale(scale=start)) for phase in ("even", "odd")
    )
    quick, slow = (
        QuantizedOp("a", rules=LayerRules(output_gradient_dx=even, output_gradient_dw=odd)) for _ in range(2)
    )
    monkeypatch.setattr(slow, "_both_gradients", lambda dy, into: None)
    generator = torch.Generator().manual_seed(0)
    for k in (0, -30, 10, 3):
        dy = torch.randn(2**8, 2**7, generator=generator) * 2.0**k
        for ours, expected in zip(quick.gradients(dy, True, True), slow.gradients(dy, True, True), strict=True):
            assert torch.equal(ours, expected)
        assert quick.scale.votes == slow.scale.votes
        quick.end_step(), slow.end_step()
        assert quick.scale.scale == slow.scale.scale
        for both in ((True, False), (False, True)):  # one result alone costs no more than both
            quick.scale.votes, slow.scale.votes = [], []
            for ours, expected in zip(quick.gradients(dy, *both), slow.gradients(dy, *both), strict=True):
                assert ours is expected is None or torch.equal(ours, expected)
            assert quick.scale.votes == slow.scale.votes != []
        memory = torch.empty_like(dy), torch.empty_like(dy)
        assert all(ours is given for ours, given in zip(quick.gradients(dy, True, True, memory), memory, strict=True))
        for given, expected in zip(memory, slow.gradients(dy, True, True), strict=True):
            assert torch.equal(given, expected)
        quick.end_step(), slow.end_step()
    assert len(quick._both) > 1 and all(quick._both.values())
    quick.gradients(torch.full((9,), torch.nan), True, True)
    assert quick.scale.skip and quick.scale.votes == [-1]
