"""Faults measured in other libraries (notes on peers, section 3), which ours must not have; named in each test."""

import dataclasses

import numpy as np
import pytest
import torch

from lplab import formats as F

from .probes import assert_same, boundary, probes

E4M3 = F.get("e4m3")  # (4, 3), IEEE style, largest value 240
UNBOUNDED = F.FloatFormat(4, 3, specials="none")  # QPyTorch's (4, 3): no code is special
NAN, INF = float("nan"), float("inf")


def test_qtorch_ties_away():
    """1.0625 is half-way between 1 and 1.125; half of all ties go wrong there. Here every tie goes to the even code."""
    assert UNBOUNDED.quantize(1.0625) == 1.0
    for name in ("e4m3", "hfp8_backward", "dlfloat16", "bf16"):
        fmt = F.get(name)
        codes = np.arange(2 ** (fmt.bits - 1))
        values = fmt.decode(codes)
        pairs = np.flatnonzero(np.isfinite(values[:-1]) & np.isfinite(values[1:]))
        if not fmt.subnormals:
            pairs = pairs[1:]  # below the smallest value lies what is flushed
        ties = values[pairs] + (values[pairs + 1] - values[pairs]) / 2
        np.testing.assert_array_equal(fmt.encode(ties) % 2, 0)


def test_qtorch_rounds_twice_among_subnormals():
    assert UNBOUNDED.quantize(np.float32(0.0146484366)) == 0.013671875


def test_qtorch_clips_nan():
    fmt = F.FloatFormat(5, 2)
    assert np.isnan(fmt.quantize(NAN)) and fmt.quantize(INF) == INF and fmt.quantize(-INF) == -INF


def test_qtorch_shift_by_zero_bits():
    """(8, 23) is float32 itself: −3 came back for 3."""
    x = probes("fp32")
    assert_same(F.get("fp32").quantize(x), x, x)


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "bf16", "dlfloat16", "e2m1"])
def test_qtorch_and_mptorch_lose_the_sign_of_zero(name):
    tiny = np.float32([-0.0, -1e-45, -1e-40])
    assert np.signbit(F.get(name).quantize(tiny)).all()


def test_pychop_dead_binade():
    """Everything from 248 on overflows; pychop's (4, 3) returned 256, 0, 0, 0, inf."""
    x = np.array([250.0, 256, 300, 500, 512])
    np.testing.assert_array_equal(E4M3.quantize(x), [INF] * 5)
    np.testing.assert_array_equal(dataclasses.replace(E4M3, saturating=True).quantize(x), [240] * 5)
    assert E4M3.quantize(247.9) == 240


def test_pychop_odd_moves_exact_values():
    for name in ("e4m3", "bf16", "posit8_1", "q4.12"):
        values = F.get(name).values
        np.testing.assert_array_equal(F.get(name).quantize(values, "to_odd"), values)


def test_pychop_away_forgets_the_sign():
    assert E4M3.quantize(-0.96875, "nearest_away") == -1.0


def test_pychop_and_microxcaling_log2_just_below_a_power_of_two():
    """floor(log2(x)) is one too high there; the exponent must come from the bits."""
    assert E4M3.quantize(np.float32(0.249999985), "toward_zero") == 0.234375
    powers = np.ldexp(np.float32(1), np.arange(-5, 8))
    below = np.nextafter(powers, np.float32(0))
    np.testing.assert_array_equal(E4M3.quantize(below, "toward_zero"), powers * (15 / 16))


def test_pychop_rounds_twice():
    assert E4M3.quantize(np.float32(0.00683593703)) == 0.005859375


def test_microxcaling_even_just_under_half_the_least_subnormal():
    """floor(x + 0.5) in float32 makes one of it."""
    assert E4M3.quantize(np.float32(0.000976562442)) == 0


def test_microxcaling_nearest_is_ties_away():
    """Here the names say which."""
    assert (E4M3.quantize(1.0625), E4M3.quantize(1.0625, "nearest_away"), E4M3.quantize(1.0625, "nearest_down")) == (
        1,
        1.125,
        1,
    )


def test_unit_scaling_ties_toward_zero():
    assert F.FloatFormat(4, 3, specials="fnuz").quantize(0.96875) == 1.0


def test_apytypes_gap_below_the_smallest_normal():
    """Half-way between the largest subnormal and the smallest normal number: 0 there."""
    assert E4M3.quantize(0.0146484375) == 0.015625


def test_brevitas_infinity():
    """there NaN resulted from inf / inf; here the option decides."""
    assert F.get("e4m3fn").quantize(INF) == 448
    assert np.isnan(dataclasses.replace(F.get("e4m3fn"), saturating=False).quantize(INF))


@pytest.mark.parametrize("name", ["e3m2", "e2m3", "e2m1"])
def test_torchao_and_ml_dtypes_make_numbers_of_nan(name):
    assert np.isnan(F.get(name).quantize(np.float32(NAN)))
    with pytest.raises(ValueError, match="no code for NaN"):
        F.get(name).encode(NAN)


def test_torch_float8_overflow_is_an_option_here():
    """torch saturates since 2.12 and gave NaN before: 1,999,634,432 of 2^32 inputs depend on it."""
    x = np.float32([464.01, 1e9, INF, -INF])
    np.testing.assert_array_equal(F.get("e4m3fn").quantize(x), [448, 448, 448, -448])
    assert np.isnan(dataclasses.replace(F.get("e4m3fn"), saturating=False).quantize(x)).all()


def test_torchao_least_nvfp4_block_scale():
    """2^−9, the least E4M3 number, as NVIDIA's; with 2^−6, as in torchao, blocks of small values lose bits."""
    x, small = np.ones(32, np.float32), np.float32(6 * 2.0**-8 / 2688)
    x[16:] = small  # its block needs the scale 2^−8
    codes = F.get("nvfp4").encode(x)
    assert F.get("e4m3fn").decode(int(codes.scales[1])) == 2.0**-8
    np.testing.assert_allclose(F.get("nvfp4").quantize(x)[16:], small, rtol=1e-6)


def test_torch_compile_drops_half_precision_casts():
    """On the CPU, inductor turns x.half().float() into x. Ours still rounds there."""
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    torch._dynamo.reset()
    rounded = torch.compile(lambda v: F.get("fp16").quantize(v), backend="eager")(x)
    assert not torch.equal(rounded, x) and torch.equal(rounded, x.half().float())


def test_fake_quantize_multiplies_by_the_reciprocal():
    """With scale 15, x / scale has ties where x · (1/15) has none."""
    fmt = F.IntFormat(8, scale=15.0)
    x = (np.arange(-127, 127) + 0.5).astype(np.float32) * 15
    want = np.rint(x / np.float32(15)) * 15
    np.testing.assert_array_equal(fmt.quantize(x), want)
    reciprocal = np.rint(x * (np.float32(1) / np.float32(15))) * 15
    assert (reciprocal != want).any()


def test_cpfloat_rounds_the_bits_of_nan():
    """Any payload and sign: NaN stays NaN in every mode."""
    nan = (np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFC00000, 0x7FBFFFFF], np.uint32)).view(np.float32)
    for name in ("e4m3", "e4m3fn", "bf16", "fp32", "posit8_1", "q4.12", "lns8", "mxfp4"):
        for mode in F.ROUNDINGS:
            assert np.isnan(F.get(name).quantize(nan, mode, seed=0)).all()


@pytest.mark.parametrize(("name", "code"), [("e4m3fn", 0x7F), ("e5m2", 0x7E), ("e4m3fnuz", 0x80), ("bf16", 0x7FC0)])
def test_nan_has_one_code(name, code):
    """Whatever its sign and payload; ml_dtypes and torch keep the sign."""
    nan = (np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFC00000], np.uint32)).view(np.float32)
    assert F.get(name).encode(nan).tolist() == [code] * 4 == F.get(name).encode(torch.from_numpy(nan)).tolist()


def test_a_block_with_nan_has_elements_of_zero():
    codes = F.get("mxfp4").encode(np.float32([1, -2, np.nan, np.inf] * 8))
    assert codes.scales.tolist() == [0xFF] and not codes.elements.any()


def test_microxcaling_scale_beyond_the_largest():
    """NaN there; only float64 numbers can ask for it."""
    assert F.get("mxint8").encode(np.array([2.0**130])).scales.tolist() == [254]


def test_microxcaling_floor_equals_truncation():
    """Towards zero is a mode that never grows a number, at any boundary."""
    for name in ("e4m3", "e5m2", "e2m1", "bf16"):
        x = boundary(F.get(name))
        assert (np.abs(F.get(name).quantize(x, "toward_zero")) <= np.abs(x)).all()
