"""The printed vectors of section 6 of the paper notes: OCP FP8, MX, NVFP4, P3109, posits, logarithmic numbers."""

import dataclasses
from functools import cache
from statistics import NormalDist

import numpy as np
import pytest

from lplab import formats as F
from lplab.formats.rounding import rounds_away

from .test_vectors import INF, NAN, same

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


RAMP_MXFP4 = [
    -6,
    -6,
    -4,
    -4,
    -3,
    -2,
    -1.5,
    -1,
    0,
    1,
    1.5,
    2,
    3,
    4,
    4,
    6,
    0,
    0,
    0,
    0.5,
    0.5,
    0.5,
    0.5,
    0.5,
    1,
    1,
    1,
    1,
    1,
    1.5,
    1.5,
    1.5,
]
RAMP_MXFP8 = [-416, -352, -320, -256, -208, -160, -104, -52, 0, 52, 104, 160, 208, 256, 320, 352]
RAMP_NVFP4 = [
    -6,
    -6,
    -4,
    -4,
    -3,
    -2,
    -1.5,
    -0.5,
    0,
    0.5,
    1.5,
    2,
    3,
    4,
    4,
    6,
    0,
    0.5,
    1,
    1,
    1.5,
    2,
    2,
    3,
    3,
    4,
    4,
    4,
    4,
    6,
    6,
    6,
]


def test_section_6_4_nvfp4_ramp():
    """Elements 7 and 9 (∓0.1) sit on a tie in real numbers; float32 rounding decides, in NVIDIA's order."""
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


# Section 6.3: squared error over power of 2^19 draws, by MEASURED
ERRORS = {
    "normal": (0.01325, 0.02075, 0.01335, 0.00905, 0.00086, 0.00070, 0.00080, 0.00292, 0.00292),
    "laplace": (0.01605, 0.02897, 0.01743, 0.00857, 0.00100, 0.00070, 0.00094, 0.00301, 0.00301),
    "t3": (0.02000, 0.03896, 0.02309, 0.00815, 0.00104, 0.00068, 0.00117, 0.00299, 0.00299),
}
MEASURED = [
    ("mxfp4", "floor"), ("mxfp4", "ceil"), ("mxfp4", "rceil"), ("nvfp4", None), ("mxfp8_e4m3", "floor"),
    ("mxfp8_e4m3", "rceil"), ("mxfp6_e2m3", "floor"), ("mxfp6_e3m2", "floor"), ("mxfp8_e5m2", "floor"),
]  # fmt: skip


@cache
def draws() -> dict[str, np.ndarray]:
    """One generator, one distribution after the other, as the notes draw."""
    random, n = np.random.default_rng(0), 2**19
    return {"normal": random.normal(size=n), "laplace": random.laplace(size=n), "t3": random.standard_t(3, size=n)}


@pytest.mark.parametrize(("data", "printed"), ERRORS.items())
def test_section_6_3_mean_errors(data, printed):
    """To the last printed digit."""
    x = draws()[data].astype(np.float32)
    for (name, rule), error in zip(MEASURED, printed, strict=True):
        fmt = F.get(name) if rule is None else dataclasses.replace(F.get(name), scale_rule=rule)
        square = (fmt.quantize(x).astype(np.float64) - x) ** 2
        assert square.sum() / np.square(x, dtype=np.float64).sum() == pytest.approx(error, abs=6e-6), (name, rule)


def test_section_0_4_mxint8():
    """Elements with six fraction bits, symmetric: 1 + 63/64 at most, in steps of 1/64."""
    element = F.get("mxint8").element
    assert (element.max, element.min, element.smallest_subnormal) == (1 + 63 / 64, -1 - 63 / 64, 1 / 64)


def test_section_6_9_the_nearest_value_is_not_the_nearest_logarithm():
    """Thresholds 0.75·2^n and 0.625·4^n, the arithmetic midpoints (logarithmic ones: 0.707·2^n, 0.5·4^n)."""
    two, four = F.LogFormat(4, 0), F.get("radix4_fp4_even")
    same(two.quantize([0.72 * 4, 0.749 * 4, 0.751 * 4]), [2, 2, 4])
    same(four.quantize([0.51 * 16, 0.624 * 16, 0.626 * 16]), [4, 4, 16])


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
    same(
        F.LogFormat(4, 0).codebook(), [1, 2, 4, 8, 0, 1 / 8, 1 / 4, 1 / 2, -1, -2, -4, -8, NAN, -1 / 8, -1 / 4, -1 / 2]
    )
    assert F.LogFormat(4, 1).codebook()[1] == np.float32(np.sqrt(2))


def test_nf4_holds_the_quantiles_of_a_normal_distribution():
    """QLoRA's construction, with the standard library: eight above zero, seven below, over the largest."""
    share = 1 - (1 / 30 + 1 / 32) / 2  # of a normal distribution below the largest quantile
    above, below = ([NormalDist().inv_cdf(p) for p in np.linspace(share, 0.5, n)[:-1]] for n in (9, 8))
    want = np.array(sorted([*above, 0.0, *(-q for q in below)])) / max(above)
    nf4 = F.get("nf4")
    np.testing.assert_allclose(nf4.codebook(), want, atol=3e-7, rtol=0)
    assert (nf4.codebook().astype(np.float32) == nf4.codebook()).all()
    same(nf4.quantize([-9, 0.03, 0.04, INF]), [-1, 0, nf4.codebook()[8], 1])


# Section 6.5: mean bias of the up-probability in ulp: dropped bits, random bits, A, B, C (as printed, rounded).
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
    fraction = np.arange(2**dropped)[:, None] / 2**dropped
    draws = np.arange(2**random_bits)[None, :]
    no = np.zeros_like(fraction, bool)
    for variant, printed in zip("ABC", (a, b, c), strict=True):
        up = rounds_away(np, F.Rounding("stochastic", random_bits, variant), no, fraction, no, draws)
        bias = (up.mean(1) - fraction[:, 0]).mean()
        assert bias == pytest.approx(printed, abs=5e-5 if dropped != 4 else 1e-12)
