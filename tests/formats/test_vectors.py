"""Every vector printed in sections 0 to 4 of the paper notes, and their tables; section 6 has its own file."""

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
        {
            0.1: 0.1015625,
            0.3: 0.3125,
            1.0625: 1,
            1.1875: 1.25,
            29: 28,
            31: 30,
            100: 30,
            2.0**-11: 2.0**-11,
            **SUBNORMALS_143,
        },
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
        {
            0.25: 0,
            0.26: 0.5,
            0.74: 0.5,
            0.75: 1,
            1.25: 1,
            1.26: 1.5,
            1.74: 1.5,
            1.75: 2,
            2.5: 2,
            2.51: 3,
            3.49: 3,
            3.5: 4,
            5: 4,
            5.01: 6,
        },
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
    assert (f.smallest_subnormal, f.min, f.max) == (0.000244140625, -8.0, 7.999755859375)


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
    """A product of two 1-5-2 numbers, or of a 1-4-3 and a 1-5-2 number, has few digits; only its range can spoil it."""
    dl, back, forward = F.get("dlfloat16"), F.get("hfp8_backward").values, F.get("hfp8_forward").values
    for a, b in ((back, back), (forward, back)):
        products = np.outer(a, b)
        inside = products[(np.abs(products) >= dl.smallest_normal) & (np.abs(products) <= dl.max)]
        same(dl.quantize(inside), inside)
    assert back[back > 0][0] ** 2 == 2.0**-32 and dl.quantize(2.0**-32) == 0  # the smallest is lost
    assert dl.quantize(57344.0**2) == 57344.0**2 and round(np.log2(57344.0**2), 1) == 31.6  # the largest fits


def test_section_3_2_aqt_fp8_143():
    """Google AQT's reading has no subnormals, 16 normal binades and zero: 129 non-negative values, too many for 8 bits.

    It is emulated with one exponent bit more, after clipping to ±30.
    """
    aqt = F.FloatFormat(5, 3, bias=12, subnormals=False, specials="none")
    pairs = {
        0.1: 0.1015625, 0.3: 0.3125, 1.0625: 1, 1.1875: 1.25, 29: 28, 31: 30, 100: 30, 2.0**-11: 2.0**-11, 2.0**-12: 0,
        0.8 * 2.0**-10: 0.00079345703125, 2.0**-13: 0, 2.0**-14: 0,
    }  # fmt: skip
    same(aqt.quantize(np.clip(list(pairs), -30, 30)), list(pairs.values()))
    assert np.count_nonzero((aqt.values >= 0) & (aqt.values <= 30)) == 129


def test_section_3_2_aqt_fp8_152():
    """Google's choice, not the paper's: bias 23, all 32 exponents normal; emulated as above."""
    aqt = F.FloatFormat(6, 2, bias=24, subnormals=False, specials="none")
    same(aqt.quantize(np.clip([1e9, 449, 448, 2.0**-23, 2.0**-24], -448, 448)), [448, 448, 448, 2.0**-23, 0])


def test_section_3_7_a_stored_bias_of_4_is_a_misreading():
    literal = F.FloatFormat(4, 3, bias=4, specials="none")
    assert (literal.max, literal.smallest_subnormal) == (3840, 2.0**-6)
    assert F.get("hfp8_forward").max == 30 and literal.quantize(1e-3) == 0 != F.get("hfp8_forward").quantize(1e-3)


def test_section_4_1_radix_4_and_its_relatives():
    """Squares of P3109's powers of two, 2^12 of range where radix 2 has 2^6; inside, posit⟨4,2⟩ (section 6.8)."""
    four = F.get("radix4_fp4_even").codebook()[1:8]
    two = F.FloatFormat(3, 0, specials="fnuz").codebook()[1:8]
    same(two**2, four)
    assert four[-1] / four[0] == 2**12 and two[-1] / two[0] == 2**6
    posit = F.PositFormat(4, 2).codebook()[1:8]
    same(posit[1:-1], four[1:-1])
    assert (posit[0], posit[-1], four[0], four[-1]) == (1 / 256, 256, 1 / 64, 64)


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
    """In figure 2c the value changes AT these points: ties away from zero. In equation 1 they go down."""
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
