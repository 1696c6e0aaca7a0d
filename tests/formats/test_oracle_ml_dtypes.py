"""ml_dtypes rounds to nearest even and overflows to NaN or infinity: every format that it and the catalogue share."""

import dataclasses

import numpy as np
import pytest

from lplab import formats as F

from .probes import assert_same, probes

ml_dtypes = pytest.importorskip("ml_dtypes")

THEIRS = {
    "bf16": "bfloat16",
    "e4m3fn": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
    "e4m3b11fnuz": "float8_e4m3b11fnuz",
    "e4m3": "float8_e4m3",
    "e3m4": "float8_e3m4",
}
WITHOUT_NAN = {"e3m2": "float6_e3m2fn", "e2m3": "float6_e2m3fn", "e2m1": "float4_e2m1fn"}


def theirs(x: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return x.astype(np.dtype(getattr(ml_dtypes, name)))


@pytest.mark.parametrize("name", THEIRS)
def test_quantize_and_encode(name):
    """As ml_dtypes does not saturate, neither may our format here."""
    fmt, x = dataclasses.replace(F.get(name), saturating=False), probes(name)
    want = theirs(x, THEIRS[name])
    assert_same(fmt.quantize(x), want.astype(np.float32), x)
    number = ~np.isnan(want.astype(np.float32))  # the choice among several NaNs is not compared
    codes = want.view(f"uint{8 * want.itemsize}")
    np.testing.assert_array_equal(fmt.encode(x)[number], codes[number])


@pytest.mark.parametrize("name", THEIRS)
def test_float64_is_rounded_once(name):
    """ml_dtypes goes through float32 and rounds twice; it agrees where x is a float32, and elsewhere if we do so."""
    fmt, x = dataclasses.replace(F.get(name), saturating=False), probes(name, "float64")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = x.astype(np.float32)
    want = theirs(x, THEIRS[name]).astype(np.float64)
    once, twice = fmt.quantize(x), fmt.quantize(narrow).astype(np.float64)
    assert_same(twice, want, x)
    is_float32 = (narrow == x) | np.isnan(x)
    assert_same(once[is_float32], want[is_float32], x[is_float32])
    assert (once != want)[~is_float32].any()


@pytest.mark.parametrize("name", WITHOUT_NAN)
def test_formats_without_specials(name):
    """These saturate there too; NaN becomes ±0, which ml_dtypes calls undefined. Ours stays NaN and has no code."""
    fmt, x = F.get(name), probes(name)
    nan = np.isnan(x)
    want = theirs(x[~nan], WITHOUT_NAN[name])
    assert_same(fmt.quantize(x[~nan]), want.astype(np.float32), x[~nan])
    np.testing.assert_array_equal(fmt.encode(x[~nan]), want.view(np.uint8))
    assert np.isnan(fmt.quantize(x[nan])).all()
    with pytest.raises(ValueError, match="no code for NaN"):
        fmt.encode(x[nan])


@pytest.mark.parametrize("name", THEIRS | WITHOUT_NAN)
def test_decode_every_code(name):
    fmt = F.get(name)
    codes = np.arange(2**fmt.bits, dtype=f"uint{max(8, fmt.bits)}")
    with np.errstate(invalid="ignore"):
        want = codes.view(np.dtype(getattr(ml_dtypes, (THEIRS | WITHOUT_NAN)[name]))).astype(np.float64)
    assert_same(fmt.decode(codes), want, codes)
    assert_same(fmt.codebook(), want, codes)


@pytest.mark.parametrize("name", THEIRS | WITHOUT_NAN)
def test_the_numbers_people_ask_for(name):
    fmt, info = F.get(name), ml_dtypes.finfo(getattr(ml_dtypes, (THEIRS | WITHOUT_NAN)[name]))
    assert fmt.max == float(info.max) and fmt.min == float(info.min)
    assert fmt.smallest_normal == float(info.smallest_normal)
    assert fmt.smallest_subnormal == float(info.smallest_subnormal)
    assert fmt.eps == float(info.eps) and fmt.bits == info.bits


def test_e8m0():
    """Positive normal numbers: equal if ties go up, as they do there."""
    fmt, codes = F.get("e8m0"), np.arange(256, dtype=np.uint8)
    assert_same(fmt.decode(codes), codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64), codes)
    x = probes("e8m0")
    x = x[(x >= 2.0**-126) & (x < 1.5 * 2.0**127) | (x < 0) | np.isnan(x)]
    assert_same(fmt.quantize(x, "nearest_away"), theirs(x, "float8_e8m0fnu").astype(np.float32), x)


@pytest.mark.parametrize(
    ("x", "ours", "ml"),
    [
        (3.0, 2.0, 4.0),  # a tie: even code (128 of 128 and 129); up
        (6.0, 8.0, 8.0),  # a tie between 129 and 130
        (1.25 * 2.0**-127, 2.0**-127, 2.0**-126),  # the nearest; any subnormal above 2^−127 goes up
        (0.0, 2.0**-127, np.nan),  # no zero in the format: the nearest value
        (-0.0, 2.0**-127, np.nan),
        (1.5 * 2.0**127, 2.0**127, np.nan),  # saturates, as the scale of a block must
        (np.inf, 2.0**127, np.nan),
        (-1.0, np.nan, np.nan),  # no sign
    ],
)
def test_e8m0_conventions(x, ours, ml):
    """Where the two differ no standard decides (ml_dtypes #298): both answers are written down."""
    x = np.float32([x])
    assert_same(F.get("e8m0").quantize(x), np.float32([ours]), x)
    assert_same(theirs(x, "float8_e8m0fnu").astype(np.float32), np.float32([ml]), x)
