"""IEEE P3109 by the words of its interim report (version 4.0): every kind of format, saturation and rounding mode."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from lplab import formats as F
from lplab.formats import reference
from lplab.formats.floating import FloatFormat
from lplab.formats.paths.kernel_selection import without_compiled_loops

from .probes import assert_same, boundary

gfloat = pytest.importorskip("gfloat")
from gfloat.formats import format_info_p3109  # noqa: E402
from gfloat.types import Signedness  # noqa: E402

SATURATION = {"SatFinite": True, "SatPropagate": "propagate", "SatNone": False}
MODES = {
    "NearestTiesToEven": "nearest_even",
    "NearestTiesToAway": "nearest_away",
    "TowardPositive": "up",
    "TowardNegative": "down",
    "TowardZero": "toward_zero",
    "ToOdd": "to_odd",
}
WIDTHS = (3, 4, 6, 8)
NAMES = [
    f"binary{width}p{precision}{sign}{domain}"
    for width in WIDTHS
    for sign in "su"
    for precision in range(1, width + (sign == "u"))
    for domain in "ef"
]


def parameters(name: str) -> tuple[int, int, bool, bool, int]:
    """Width, precision, signed, extended, bias (section 3.1)."""
    width, precision = (int(part) for part in name[6:-2].split("p"))
    signed = name[-2] == "s"
    return width, precision, signed, name[-1] == "e", 2 ** (width - precision - signed)


def decoded(name: str, code: int) -> float:
    """Section 4.7.2."""
    width, precision, signed, extended, bias = parameters(name)
    if code == (2 ** (width - 1) if signed else 2**width - 1):
        return math.nan
    if signed and code > 2 ** (width - 1):
        return -decoded(name, code - 2 ** (width - 1))
    if extended and code == (2 ** (width - 1) - 1 if signed else 2**width - 2):
        return math.inf
    trailing, exponent = code % 2 ** (precision - 1), code // 2 ** (precision - 1)
    fraction = Fraction(trailing, 2 ** (precision - 1))
    return float((fraction + (exponent > 0)) * Fraction(2) ** (max(exponent, 1) - bias))


def rounded_to_precision(x: float, precision: int, bias: int, mode: str) -> float:
    """Section 4.7.4, without the stochastic modes."""
    if not math.isfinite(x) or x == 0:
        return x
    exact = abs(Fraction(x))
    exponent = max(math.frexp(x)[1] - 1, 1 - bias) - precision + 1
    significand = exact / Fraction(2) ** exponent
    whole = math.floor(significand)
    rest = significand - whole
    code_is_even = whole % 2 == 0 if precision > 1 else whole == 0 or (exponent + bias) % 2 == 0
    away = {
        "TowardZero": False,
        "TowardPositive": rest > 0 and x > 0,
        "TowardNegative": rest > 0 and x < 0,
        "NearestTiesToAway": rest >= Fraction(1, 2),
        "NearestTiesToEven": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and not code_is_even),
        "ToOdd": rest > 0 and code_is_even,
    }[mode]
    return math.copysign(float((whole + away) * Fraction(2) ** exponent), x)


def saturated(x: float, saturation: str, mode: str, low: float, high: float, signed: bool, extended: bool) -> float:
    """Section 4.7.5."""
    if math.isnan(x) or low <= x <= high:
        return x
    above = x > high
    if saturation == "SatFinite" or (saturation == "SatPropagate" and math.isfinite(x)):
        return high if above else low
    if math.isinf(x):
        if extended and (above or signed):
            return x
        return math.nan if saturation == "SatNone" and not above and not signed else high if above else low
    if above and (mode in ("TowardZero", "TowardNegative") or (mode == "ToOdd" and not signed)):
        return high
    if not above and mode in ("TowardZero", "TowardPositive"):
        return low
    if not above and not signed:
        return math.nan
    return math.copysign(math.inf, x) if extended else high if above else low


@pytest.mark.parametrize("width", WIDTHS)
def test_codes(width):
    """Against the report and against gfloat; encode is the inverse of decode, bit for bit."""
    codes = np.arange(2**width)
    for name in (name for name in NAMES if parameters(name)[0] == width):
        fmt, (_, precision, signed, extended, bias) = F.get(name), parameters(name)
        assert (fmt.bits, fmt.mantissa_bits + 1, fmt.bias, fmt.has_infinity) == (width, precision, bias, extended)
        values = fmt.decode(codes)
        assert_same(values, np.array([decoded(name, code) for code in codes.tolist()]), codes)
        np.testing.assert_array_equal(fmt.encode(values), codes)
        theirs = format_info_p3109(
            width,
            precision,
            Signedness.Signed if signed else Signedness.Unsigned,
            gfloat.Domain.Extended if extended else gfloat.Domain.Finite,
        )
        assert_same(values, np.array([gfloat.decode_float(theirs, int(code)).fval for code in codes]), codes)
        assert (fmt.max, fmt.min) == (np.nanmax(values[np.isfinite(values)]), np.nanmin(values[np.isfinite(values)]))


@pytest.mark.parametrize("width", WIDTHS)
def test_projection(width):
    """Every rounding and saturation mode; float32, which compiled loops round, and float64."""
    for name in (name for name in NAMES if parameters(name)[0] == width):
        _, precision, signed, extended, bias = parameters(name)
        x = boundary(F.get(name)).astype(np.float64)
        x = x[:: max(1, x.size // 60)]
        beyond = np.float64([F.get(name).max * k for k in (1.0001, 1.2, 1.9, 2.0, 3.0, 1e9)])
        x = np.concatenate([x, beyond, -beyond, [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30]])
        with np.errstate(over="ignore"):
            x = x.astype(np.float32).astype(np.float64)
        low, high = F.get(name).min, F.get(name).max
        for theirs, mode in MODES.items():
            rounded = [rounded_to_precision(v, precision, bias, theirs) for v in x.tolist()]
            for saturation, ours in SATURATION.items():
                fmt = dataclasses.replace(F.get(name), saturating=ours)
                want = np.array([saturated(v, saturation, theirs, low, high, signed, extended) for v in rounded])
                want = np.where(want == 0, 0.0, want)  # there is one zero
                assert_same(fmt.quantize(x, mode), want, x)
                assert_same(fmt.quantize(x.astype(np.float32), mode), want.astype(np.float32), x)


def test_to_odd_beyond_the_largest_value():
    """Section 4.7.5: the largest code of signed, extended formats is even, and ToOdd goes on to infinity."""
    x = [224.1, 240.0, 1e6, -1e6, np.inf]
    assert F.get("binary8p4").quantize(x, "to_odd").tolist() == [np.inf, np.inf, np.inf, -np.inf, np.inf]
    assert F.get("binary8p4ue").quantize([53248.1, 1e6, np.inf], "to_odd").tolist() == [53248, 53248, np.inf]
    assert F.get("binary8p4sf").quantize(x, "to_odd").tolist() == [240, 240, 240, -240, 240]
    assert F.get("e5m2").quantize([57345, 1e6, np.inf], "to_odd").tolist() == [57344, 57344, np.inf]


@pytest.mark.parametrize("name", ["binary8p4ue", "binary8p4", "e5m2", "binary8p1ue"])
def test_every_path_agrees(name):
    """Compiled loops, whole arrays and the reference, with each kind of saturation."""
    x = np.resize(boundary(F.get(name)), 2**15 + 7)
    x[:6] = [np.inf, -np.inf, np.nan, -0.0, 1e38, -1e38]
    for saturating in SATURATION.values():
        fmt = dataclasses.replace(F.get(name), saturating=saturating)
        for mode in ("nearest_even", "down", "to_odd"):
            want = reference.quantize(x, fmt.rounding_spec, F.Rounding(mode)).astype(np.float32)
            assert_same(fmt.quantize(x, mode), want, x)
            with without_compiled_loops():
                assert_same(fmt.quantize(x, mode), want, x)


def test_fields_that_contradict_each_other():
    with pytest.raises(ValueError, match="signed=False needs radix 2 and specials of p3109 or p3109_finite"):
        FloatFormat(4, 3, signed=False)
    with pytest.raises(ValueError, match="saturating must be True, False, None or 'propagate'"):
        FloatFormat(4, 3, saturating="always")
    with pytest.raises(ValueError, match="leaves no number; use more bits"):
        FloatFormat(1, 0, specials="p3109_finite", signed=False)
    for name, allowed in (("binary8p8se", "1 to 7"), ("binary8p9uf", "1 to 8"), ("binary2p1se", "3 bits and more")):
        with pytest.raises(ValueError, match=f"P3109 has no format '{name}'.*{allowed}"):
            F.get(name)
    assert F.get("binary8p4se") is F.get("binary8p4") and F.get("Binary8p3ue") == F.get("binary8p3ue")
    assert (
        F.get("binary8p3ue").label == "binary8p3ue"
        and "0-6-2" in dataclasses.replace(F.get("binary8p3ue"), name="").label
    )
