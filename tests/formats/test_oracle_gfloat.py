"""gfloat: every rounding mode that it has, stochastic with given bits, P3109, saturating or not, encode and decode."""

import dataclasses

import numpy as np
import pytest

from lplab import formats as F
from lplab.formats import counter_rng
from tests.kinds import EXAMPLES, tiered

from .probes import assert_same, boundary, common, specials

gfloat = pytest.importorskip("gfloat")
from gfloat import Domain, FormatInfo, RoundMode  # noqa: E402
from gfloat.formats import format_info_ocp_e8m0, format_info_p3109  # noqa: E402

MODES = {
    "nearest_even": RoundMode.TiesToEven,
    "nearest_away": RoundMode.TiesToAway,
    "toward_zero": RoundMode.TowardZero,
    "up": RoundMode.TowardPositive,
    "down": RoundMode.TowardNegative,
}
VARIANTS = {"A": RoundMode.StochasticFastest, "B": RoundMode.StochasticFast, "C": RoundMode.Stochastic}
CATALOGUE = [
    row
    for row in map(F.get, F.names())
    if isinstance(row, F.FloatFormat) and row.radix == 2 and row.subnormals and row.bits <= 20
]
EXOTIC = [
    F.FloatFormat(3, 0, specials="fnuz"),  # no mantissa: ties go by the last bit of the exponent field
    F.FloatFormat(3, 0, bias=4, specials="none"),
    F.FloatFormat(5, 0, specials="p3109"),
    F.FloatFormat(1, 3, specials="none"),  # subnormals and one binade
    F.FloatFormat(4, 3, bias=-20, specials="fn"),
    F.FloatFormat(4, 3, bias=150, specials="fn"),  # among the subnormal numbers of float32
    F.FloatFormat(6, 9),
    F.FloatFormat(2, 5, specials="p3109"),
    F.FloatFormat(8, 3, bias=140),
    F.FloatFormat(10, 4),
]
FORMATS = [*CATALOGUE, *EXOTIC]


def is_default(fmt: F.FloatFormat) -> bool:
    return fmt.label in EXAMPLES or fmt in EXOTIC


def info(fmt: F.FloatFormat) -> FormatInfo:
    """The same format in the words of gfloat."""
    return FormatInfo(
        fmt.label,
        fmt.bits,
        fmt.mantissa_bits + 1,
        bias=fmt.bias,
        is_signed=True,
        domain=Domain.Extended if fmt.has_infinity else Domain.Finite,
        has_nz=fmt.has_negative_zero,
        num_high_nans={"ieee": 2**fmt.mantissa_bits - 1, "fn": 1}.get(fmt.specials, 0),
        has_subnormals=True,
        is_twos_complement=False,
    )


def inputs(fmt: F.FloatFormat) -> np.ndarray:
    """float64, because gfloat works in the type of its input. NaN only where the format has one: gfloat raises.

    Subnormal float64 numbers are left out: gfloat's ldexp flushes them before it looks at what was cut off.
    """
    with np.errstate(invalid="ignore"):
        narrow = np.concatenate([boundary(fmt), common()[::7]]).astype(np.float64)
    x = np.concatenate([boundary(fmt, "float64"), narrow, specials("float64")])
    x = x[~((x != 0) & (np.abs(x) < 2.0**-1022))]
    return x if fmt.has_nan else x[~np.isnan(x)]


@pytest.mark.parametrize("saturating", [True, False], ids=["saturating", "overflowing"])
@pytest.mark.parametrize("fmt", tiered(FORMATS, is_default), ids=lambda f: f.label)
def test_every_mode(fmt, saturating):
    if not saturating and fmt.specials == "none":
        with pytest.raises(ValueError, match="no code to overflow to"):
            dataclasses.replace(fmt, saturating=False)
        return
    fmt = dataclasses.replace(fmt, saturating=saturating)
    x = inputs(fmt)
    for ours, theirs in MODES.items():
        with np.errstate(all="ignore"):
            want = gfloat.round_ndarray(info(fmt), x, theirs, sat=saturating)
        assert_same(fmt.quantize(x, ours), want, x)


@pytest.mark.parametrize("bits", [1, 3, 8, 16, 24])
@pytest.mark.parametrize("variant", VARIANTS)
def test_stochastic_with_our_draws(variant, bits):
    """float32 numbers: with 53 bits gfloat's sum of fraction and random bits is itself rounded (variants A and B)."""
    for fmt in FORMATS[::3]:
        with np.errstate(invalid="ignore"):
            x = np.concatenate([boundary(fmt), common()[::7]]).astype(np.float64)
        x = x if fmt.has_nan else x[~np.isnan(x)]
        draws = counter_rng.random_bits(np, counter_rng.keys(bits), 0, x.size, bits).astype(np.int64)
        saturating = bool(fmt.saturating)
        with np.errstate(all="ignore"):
            want = gfloat.round_ndarray(info(fmt), x, VARIANTS[variant], sat=saturating, srbits=draws, srnumbits=bits)
        got = fmt.quantize(x, F.Rounding("stochastic", bits, variant), seed=bits)
        assert_same(got, want, x)


@pytest.mark.parametrize("fmt", tiered([f for f in FORMATS if f.bits <= 11], is_default), ids=lambda f: f.label)
def test_scalar_version(fmt):
    """round_float is gfloat's readable definition: some thousand inputs of each mode."""
    x = boundary(fmt)[:: max(1, boundary(fmt).size // 300)].astype(np.float64)
    for ours, theirs in MODES.items():
        want = np.array([gfloat.round_float(info(fmt), v, theirs, bool(fmt.saturating)) for v in x.tolist()])
        assert_same(fmt.quantize(x, ours), want, x)


@pytest.mark.parametrize("fmt", tiered([f for f in FORMATS if f.bits <= 11], is_default), ids=lambda f: f.label)
def test_decode_and_encode(fmt):
    codes = np.arange(2**fmt.bits)
    values = np.array([gfloat.decode_float(info(fmt), int(c)).fval for c in codes])
    assert_same(fmt.decode(codes), values, codes)
    number = np.isfinite(values)
    np.testing.assert_array_equal(fmt.encode(values[number]), gfloat.encode_ndarray(info(fmt), values[number]))


@pytest.mark.parametrize("precision", range(1, 8))
def test_every_signed_extended_p3109_format_of_8_bits(precision):
    theirs = format_info_p3109(8, precision)
    if precision == 7:
        fmt = F.FloatFormat(1, 6, specials="p3109")
    else:
        fmt = F.FloatFormat(8 - precision, precision - 1, specials="p3109")
    assert (fmt.bias, fmt.max, fmt.smallest_subnormal) == (theirs.bias, theirs.max, theirs.smallest)
    codes = np.arange(256)
    assert_same(fmt.decode(codes), np.array([gfloat.decode_float(theirs, int(c)).fval for c in codes]), codes)
    x = inputs(fmt)
    for ours, mode in MODES.items():
        with np.errstate(all="ignore"):
            assert_same(fmt.quantize(x, ours), gfloat.round_ndarray(theirs, x, mode), x)


def test_e8m0():
    """Agrees on all that lies between its ends; below them gfloat rounds to powers that have no code."""
    x = boundary(F.get("e8m0"), "float64")
    x = x[(x >= 2.0**-127) & (x < 1.5 * 2.0**127)]
    for ours, theirs in MODES.items():
        inside = x[x <= 2.0**127] if ours in ("up", "nearest_away") else x
        assert_same(
            F.get("e8m0").quantize(inside, ours), gfloat.round_ndarray(format_info_ocp_e8m0, inside, theirs), inside
        )
