"""Every vector printed in the paper notes (shared/papers/quantization.md), each under the section that prints it."""

import dataclasses

import numpy as np
import pytest

from lplab import formats as F

INF, NAN = np.inf, np.nan


def same(got: np.ndarray, want: list) -> None:
    np.testing.assert_array_equal(np.asarray(got, np.float64), np.asarray(want, np.float64))


# Section 0.4: name, bias, max, smallest normal, smallest positive value
TABLE = [
    ("q4.12", None, 2.0**3 - 2.0**-12, 2.0**-12, 2.0**-12),
    ("fp8_152", 15, 57344, 2.0**-14, 2.0**-16),
    ("dlfloat16", 31, 8573157376, 2.0**-31 * (1 + 2.0**-9), 2.0**-31 * (1 + 2.0**-9)),
    ("hfp8_forward", 11, 30, 2.0**-10, 2.0**-13),
    ("hfp8_backward", 15, 57344, 2.0**-14, 2.0**-16),
    ("radix4_fp4_even", 4, 64, 1 / 64, 1 / 64),
    ("radix4_fp4_odd", 4.5, 32, 1 / 128, 1 / 128),
    ("e4m3fn", 7, 448, 2.0**-6, 2.0**-9),
    ("e5m2", 15, 57344, 2.0**-14, 2.0**-16),
    ("e4m3fnuz", 8, 240, 2.0**-7, 2.0**-10),
    ("e5m2fnuz", 16, 57344, 2.0**-15, 2.0**-17),
    ("e4m3b11fnuz", 11, 30, 2.0**-10, 2.0**-13),
    ("e4m3", 7, 240, 2.0**-6, 2.0**-9),
    ("e3m4", 3, 15.5, 2.0**-2, 2.0**-6),
    ("e3m2", 3, 28, 0.25, 0.0625),
    ("e2m3", 1, 7.5, 1, 0.125),
    ("e2m1", 1, 6, 1, 0.5),
    ("e8m0", None, 2.0**127, 2.0**-127, 2.0**-127),
    ("binary8p3", 16, 49152, 2.0**-15, 2.0**-17),
    ("binary8p4", 8, 224, 2.0**-7, 2.0**-10),
    ("binary8p5", 4, 15, 2.0**-3, 2.0**-7),
]


@pytest.mark.parametrize(("name", "bias", "largest", "smallest_normal", "smallest"), TABLE)
def test_section_0_4_format_table(name, bias, largest, smallest_normal, smallest):
    fmt = F.get(name)
    assert getattr(fmt, "bias", None) == bias
    assert (fmt.max, fmt.smallest_normal, fmt.smallest_subnormal) == (largest, smallest_normal, smallest)


# Section 0.4 and 6.1: special codes and how many distinct finite values there are (7)
SPECIAL_CODES = [
    ("e4m3fn", [0x7F, 0xFF], [], 253),
    ("e5m2", [0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF], [0x7C, 0xFC], 247),
    ("e4m3fnuz", [0x80], [], 255),
    ("e5m2fnuz", [0x80], [], 255),
    ("e4m3b11fnuz", [0x80], [], 255),
    ("e4m3", [*range(0x79, 0x80), *range(0xF9, 0x100)], [0x78, 0xF8], 239),
    ("e3m4", [*range(0x71, 0x80), *range(0xF1, 0x100)], [0x70, 0xF0], 223),
    ("e3m2", [], [], 63),
    ("e2m3", [], [], 63),
    ("e2m1", [], [], 15),
    ("binary8p3", [0x80], [0x7F, 0xFF], 253),
    ("binary8p4", [0x80], [0x7F, 0xFF], 253),
    ("binary8p5", [0x80], [0x7F, 0xFF], 253),
    ("e8m0", [0xFF], [], 255),
    ("radix4_fp4_even", [], [], 15),
]


@pytest.mark.parametrize(("name", "nan", "infinite", "distinct"), SPECIAL_CODES)
def test_section_7_special_codes(name, nan, infinite, distinct):
    fmt = F.get(name)
    book = fmt.codebook()
    assert np.flatnonzero(np.isnan(book)).tolist() == nan
    assert np.flatnonzero(np.isinf(book)).tolist() == infinite
    assert len(fmt.values) == distinct and fmt.wasted_codes == 2**fmt.bits - distinct


# Section, format, rounding, pairs x → value
SUBNORMALS_143 = {0.8 * 2.0**-10: 0.000732421875, 2.0**-12: 2.0**-12, 2.0**-13: 2.0**-13, 2.0**-14: 0}
VALUES = [
    (
        "2.2 DLFloat16, ties up",
        "dlfloat16",
        "nearest_away",
        {
            1 + 2.0**-10: 1.001953125,
            1 + 3 * 2.0**-10: 1.00390625,
            0.1: 0.0999755859375,
            1 / 3: 0.33349609375,
            3.14159265: 3.140625,
            1000.5: 1001,
            1023.75: 1024,
            8573157376: 8573157376,
            8577351680: INF,
            2.0**-31: 0,
            2.0**-31 * (1 + 2.0**-9): 2.0**-31 * (1 + 2.0**-9),
            -0.1: -0.0999755859375,
        },
    ),
    (
        "3.2 HFP8 1-4-3, bias 11",
        "hfp8_forward",
        "nearest_even",
        {0.1: 0.1015625, 0.3: 0.3125, 1.0625: 1, 1.1875: 1.25, 29: 28, 31: 30, 100: 30, 2.0**-11: 2.0**-11, **SUBNORMALS_143},
    ),
    (
        "6.1 E4M3FN",
        "e4m3fn",
        "nearest_even",
        {
            0.3: 0.3125,
            0.33: 0.34375,
            1.0625: 1,
            1.1875: 1.25,
            2.0**-10: 0,
            1.0001 * 2.0**-10: 2.0**-9,
            1.5 * 2.0**-9: 2.0**-8,
            2.5 * 2.0**-9: 2.0**-8,
        },
    ),
    (
        "6.1 E5M2",
        "e5m2",
        "nearest_even",
        {1.125: 1, 1.375: 1.5, 1.625: 1.5, 2.0**-17: 0, 1.5 * 2.0**-16: 2.0**-15, 61439: 57344, 61440: INF},
    ),
    (
        "6.4 E2M1 thresholds",
        "e2m1",
        "nearest_even",
        {0.25: 0, 0.26: 0.5, 0.74: 0.5, 0.75: 1, 1.25: 1, 1.26: 1.5, 1.74: 1.5, 1.75: 2, 2.5: 2, 2.51: 3, 3.49: 3, 3.5: 4, 5: 4, 5.01: 6},
    ),
]


@pytest.mark.parametrize(("name", "rounding", "pairs"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES])
def test_sections_2_3_6_values(name, rounding, pairs):
    fmt = F.get(name)
    same(fmt.quantize(np.array(list(pairs), np.float64), rounding), list(pairs.values()))
    same(fmt.quantize(-np.array(list(pairs), np.float64), rounding), [-v for v in pairs.values()])
    same(fmt.quantize(np.array(list(pairs), np.float32), rounding), list(pairs.values()))


def test_section_1_1_gupta_range():
    f = F.FixedFormat(4, 12)
    assert (f.smallest_subnormal, f.lowest, f.max) == (0.000244140625, -8.0, 7.999755859375)


def test_section_1_2_gupta_nearest():
    """Ties go down, towards −∞."""
    f, eps = F.FixedFormat(4, 12), 2.0**-12
    x = [0.3, -0.3, 0.5 * eps, -0.5 * eps, 1.5 * eps, -1.5 * eps, 7.9999, 8.0, -8.0, -9.0]
    integers = [1229, -1229, 0, -1, 1, -2, 32767, 32767, -32768, -32768]
    same(f.quantize(x, "nearest_down") / eps, integers)
    same(f.encode(x, "nearest_down"), [i % 2**16 for i in integers])


def test_section_2_2_three_readings_of_fp8_152():
    """IEEE-like, IBM's (all-ones reserved), and QPyTorch's (nothing reserved, ties away)."""
    assert F.get("fp8_152").max == 57344
    assert F.FloatFormat(5, 2, specials="fn", subnormals=False).max == 98304
    qpytorch = F.FloatFormat(5, 2, specials="none")
    assert qpytorch.max == 114688 and qpytorch.quantize(1.125, "nearest_away") == 1.25


def test_section_2_2_products_are_exact_in_1_6_9():
    """A product of two 1-5-2 numbers, or of a 1-4-3 and a 1-5-2 number, has few digits; only the exponent range can spoil it."""
    dl, back, forward = F.get("dlfloat16"), F.get("hfp8_backward").values, F.get("hfp8_forward").values
    for a, b in ((back, back), (forward, back)):
        products = np.outer(a, b)
        inside = products[(np.abs(products) >= dl.smallest_normal) & (np.abs(products) <= dl.max)]
        same(dl.quantize(inside), inside)
    assert dl.quantize(back[back > 0][0] ** 2) == 0  # 2^−32


def test_section_3_2_aqt_fp8_143():
    """Google AQT's reading has no subnormals, 16 normal binades and zero: 129 non-negative values, one more than 8 bits hold.

    It is emulated with one exponent bit more, after clipping to ±30.
    """
    aqt = F.FloatFormat(5, 3, bias=12, subnormals=False, specials="none")
    pairs = {
        0.1: 0.1015625, 0.3: 0.3125, 1.0625: 1, 1.1875: 1.25, 29: 28, 31: 30, 100: 30, 2.0**-11: 2.0**-11, 2.0**-12: 0,
        0.8 * 2.0**-10: 0.00079345703125, 2.0**-13: 0, 2.0**-14: 0,
    }  # fmt: skip
    same(aqt.quantize(np.clip(list(pairs), -30, 30)), list(pairs.values()))
    assert np.count_nonzero((aqt.values >= 0) & (aqt.values <= 30)) == 129


def test_section_4_1_radix_4_values():
    same(F.get("radix4_fp4_even").codebook()[:8], [0, *(4.0 ** (e - 4) for e in range(1, 8))])
    same(F.get("radix4_fp4_odd").codebook()[:8], [0, *(4.0 ** (e - 4) / 2 for e in range(1, 8))])
    same(F.get("radix4_fp4_even").codebook()[8:], -F.get("radix4_fp4_even").codebook()[:8])


def figure_2c(x: float) -> float:
    """The executable description of Sun et al. 2020: x ← 1.6·x; ebit = ⌊log4 |x|⌋; the tie goes up."""
    scaled = abs(x) * 1.6
    ebit = -4 if scaled < 4.0**-3 else max(e for e in range(-3, 4) if scaled >= 4.0**e)
    return 0.0 if ebit < -3 else np.sign(x) * 4.0**ebit


def test_section_4_2_radix_4_vectors():
    rows = {
        0.005: (0, 1 / 128), 0.0097: (0, 1 / 128), 0.0098: (1 / 64, 1 / 128), 0.1: (1 / 16, 1 / 8), 0.2: (1 / 4, 1 / 8),
        0.5: (1 / 4, 1 / 2), 0.7: (1, 1 / 2), 1: (1, 1 / 2), 2: (1, 2), 2.6: (4, 2), 3.9: (4, 2), 9.99: (4, 8),
        10.1: (16, 8), 30: (16, 32), 40.1: (64, 32), 100: (64, 32),
    }  # fmt: skip
    x, want = np.array(list(rows), np.float64), np.array(list(rows.values()))
    for rounding in ("nearest_even", "nearest_away", "nearest_down"):  # none of them is a tie
        for name, column in (("radix4_fp4_even", 0), ("radix4_fp4_odd", 1)):
            same(F.get(name).quantize(x, rounding), want[:, column])
            same(F.get(name).quantize(-x, rounding), -want[:, column])


def test_section_4_2_radix_4_thresholds():
    """The value changes AT these points in figure 2c: ties away from zero. In equation 1 they go towards zero (down, for x > 0)."""
    even, odd = F.get("radix4_fp4_even"), F.get("radix4_fp4_odd")
    thresholds = np.array([0.009765625, 0.0390625, 0.15625, 0.625, 2.5, 10, 40])
    above, below = even.values[even.values > 0], even.values[even.values >= 0][:-1]
    same(even.quantize(thresholds, "nearest_away"), above)
    same(even.quantize(thresholds, "nearest_down"), below)
    same(even.quantize(np.nextafter(thresholds, 0), "nearest_away"), below)
    same(odd.quantize(thresholds / 2, "nearest_away"), above / 2)
    same(odd.quantize(np.linspace(20.001, 64, 99)), np.full(99, 32))
    x = np.random.default_rng(4).standard_normal(1000) * 4.0 ** np.random.default_rng(5).integers(-5, 5, 1000)
    same(even.quantize(x, "nearest_away"), [figure_2c(v) for v in x])
    same(odd.quantize(x), even.quantize(2 * x) / 2)  # section 4.3


# Section 6.1: the casting table; a finite overflow, ∞, NaN, −0
CASTS = [
    ("e4m3fn", True, (448, 448, NAN, -0.0)),
    ("e4m3fn", False, (NAN, NAN, NAN, -0.0)),
    ("e5m2", True, (57344, 57344, NAN, -0.0)),
    ("e5m2", False, (INF, INF, NAN, -0.0)),
    ("e4m3fnuz", True, (240, 240, NAN, 0.0)),  # ONNX has NaN for ∞ here; ours saturates everything in every format
    ("e4m3fnuz", False, (NAN, NAN, NAN, 0.0)),
]


@pytest.mark.parametrize(("name", "saturating", "want"), CASTS)
def test_section_6_1_casting_rules(name, saturating, want):
    fmt = dataclasses.replace(F.get(name), saturating=saturating)
    got = fmt.quantize(np.array([1e6, INF, NAN, -0.0]))
    same(got, want)
    assert np.signbit(got[3]) == np.signbit(want[3])
    same(fmt.quantize(np.array([-1e6, -INF])), -np.array(want[:2]))


def test_section_6_1_codes_and_overflow_boundary():
    fn, e5m2 = F.get("e4m3fn"), F.get("e5m2")
    same(fn.decode([0x7E, 0x08, 0x01, 0x2A]), [448, 2.0**-6, 2.0**-9, 0.3125])
    same(e5m2.decode([0x7B, 0x7C, 0x04, 0x01]), [57344, INF, 2.0**-14, 2.0**-16])
    assert fn.encode(0.3) == 0x2A
    same(dataclasses.replace(fn, saturating=False).quantize([464, 465]), [448, NAN])


def test_section_6_3_mx_vectors():
    """Two worked blocks and the ramp of 32 float32 values, as scale and codes."""
    x = np.array([0.9, -0.1, 0.02, 3.5])
    same(F.get("mxfp4").quantize(x), [1, 0, 0, 3])
    same(dataclasses.replace(F.get("mxfp4"), scale_rule="ceil").quantize(x), [1, 0, 0, 4])
    ramp = np.concatenate([np.arange(-8, 8) / 10, np.arange(16) * 0.013]).astype(np.float32)
    same(F.get("mxfp4").quantize(ramp) / 0.125, RAMP_MXFP4)
    same(F.get("mxfp8_e4m3").quantize(ramp)[:16] * 2.0**9, RAMP_MXFP8)
    scales = F.get("mxfp4").encode(ramp).scales, F.get("mxfp8_e4m3").encode(ramp).scales
    assert [int(s[0]) - 127 for s in scales] == [-3, -9]


RAMP_MXFP4 = [float(v) for v in "-6 -6 -4 -4 -3 -2 -1.5 -1 0 1 1.5 2 3 4 4 6 0 0 0 .5 .5 .5 .5 .5 1 1 1 1 1 1.5 1.5 1.5".split()]
RAMP_MXFP8 = [-416, -352, -320, -256, -208, -160, -104, -52, 0, 52, 104, 160, 208, 256, 320, 352]
RAMP_NVFP4 = [float(v) for v in "-6 -6 -4 -4 -3 -2 -1.5 -.5 0 .5 1.5 2 3 4 4 6 0 .5 1 1 1.5 2 2 3 3 4 4 4 4 6 6 6".split()]


def test_section_6_4_nvfp4_ramp():
    """Element 7 and 9 (∓0.1) sit on a tie in real numbers; float32 rounding decides, in NVIDIA's order of operations."""
    ramp = np.concatenate([np.arange(-8, 8) / 10, np.arange(16) * 0.013]).astype(np.float32)
    codes = F.get("nvfp4").encode(ramp)
    assert codes.tensor_scale == np.float32(0.8) / np.float32(2688)
    same(F.get("e4m3fn").decode(codes.scales), [448, 112])
    same(F.get("e2m1").decode(codes.elements), RAMP_NVFP4)


def test_section_6_4_nvfp4_course_vectors():
    block = np.zeros(32, np.float32)
    block[:4], block[16:20] = (0.9, -0.1, 0.02, 3.5), (0.05, 0.01, -0.03, 0.002)
    got = F.get("nvfp4").quantize(block)
    np.testing.assert_allclose(got[:4], [0.875, 0, 0, 3.5], rtol=1e-6)
    np.testing.assert_allclose(got[16:20], [0.0508, 0.0085, -0.0339, 0], atol=5e-5)
    assert F.get("e4m3fn").decode(int(F.get("nvfp4").encode(block).scales[1])) == 6.5


def test_section_6_4_all_zero_block():
    """A known defect elsewhere (TransformerEngine PR 3281): zeros stay zeros, whatever the scales."""
    for name in ("nvfp4", "mxfp4", "mxint8"):
        same(F.get(name).quantize(np.zeros(64, np.float32)), np.zeros(64))


def test_section_6_3_floor_rule_clips_and_rceil_does_not():
    """Values in (6, 8) after scaling: the OCP rule clips them by up to 25 %. microxcaling #4: 957 → 896."""
    assert F.get("mxfp8_e4m3").quantize([957.0])[0] == 896
    assert F.get("mxfp4").quantize([7.9])[0] == 6
    assert dataclasses.replace(F.get("mxfp4"), scale_rule="rceil").quantize([7.9])[0] == 8


def test_section_6_5_p3109_binary4p1sf():
    """No mantissa: pure powers of two, here 0, ±2^−3 … ±2^3, NaN at code 8."""
    f = F.FloatFormat(3, 0, specials="fnuz")
    same(f.codebook()[:9], [0, *(2.0 ** (k - 4) for k in range(1, 8)), NAN])


# Section 6.8: the positive halves printed by stillwater-sc/universal
POSITS = [
    (4, 1, [1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 16]),
    (4, 2, [1 / 256, 1 / 16, 1 / 4, 1, 4, 16, 256]),
    (5, 2, [2.0**k for k in (-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12)]),
]


@pytest.mark.parametrize(("bits", "exponent_size", "positive"), POSITS)
def test_section_6_8_posit_tables(bits, exponent_size, positive):
    f = F.PositFormat(bits, exponent_size)
    same(f.codebook(), [0, *positive, NAN, *(-v for v in reversed(positive))])
    same(f.quantize([1e-30, 1e30, -1e-30, -1e30]), [f.smallest_subnormal, f.max, -f.smallest_subnormal, -f.max])


def test_section_6_9_lns_table():
    """universal's lns⟨4,0⟩."""
    same(F.LogFormat(4, 0).codebook(), [1, 2, 4, 8, 0, 1 / 8, 1 / 4, 1 / 2, -1, -2, -4, -8, NAN, -1 / 8, -1 / 4, -1 / 2])
    assert F.LogFormat(4, 1).codebook()[1] == np.float32(np.sqrt(2))


# Section 6.5: mean bias of the up-probability in ulp: dropped bits, random bits, A, B, C. Exact values; the notes print rounded ones.
BIAS = [
    (4, 3, -0.03125, 0.03125, 0),
    (4, 2, -0.09375, 0.03125, 0),
    (16, 3, -0.0625, 0.00001, 0),
    (16, 4, -0.0312, 0.00001, 0),
    (14, 8, -0.0019, 0.00003, 0),
]


@pytest.mark.parametrize(("dropped", "random_bits", "a", "b", "c"), BIAS)
def test_section_6_5_stochastic_bias(dropped, random_bits, a, b, c):
    """Every fraction with every draw, through the rounding formula itself."""
    from lplab.formats.rounding import rounds_away

    fraction = np.arange(2**dropped)[:, None] / 2**dropped
    draws = np.arange(2**random_bits)[None, :]
    no = np.zeros_like(fraction, bool)
    for variant, printed in zip("ABC", (a, b, c), strict=True):
        up = rounds_away(np, F.Rounding("stochastic", random_bits, variant), no, fraction, no, draws)
        bias = (up.mean(1) - fraction[:, 0]).mean()
        assert bias == pytest.approx(printed, abs=5e-5 if dropped != 4 else 1e-12)
