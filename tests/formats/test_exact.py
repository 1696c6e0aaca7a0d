"""Every format against exact arithmetic with fractions, in every deterministic mode."""

from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest

from lplab import formats as F
from tests.kinds import by_kind

from . import exact
from .paths.test_paths import EXOTIC
from .probes import ELEMENTWISE, assert_same, boundary, specials

MODES = [mode for mode in F.ROUNDINGS if mode != "stochastic"]
LISTED = {name: F.get(name) for name in [*ELEMENTWISE, "q1.7", "q8.0", "q2.3"]} | EXOTIC
LISTED = {name: fmt for name, fmt in LISTED.items() if fmt.bits <= 16}


def rulers(fmt: F.Format) -> tuple[exact.Ruler, exact.Ruler]:
    """Of positive and of negative numbers."""
    if isinstance(fmt, F.FloatFormat):
        ruler = exact.float_ruler(fmt)
        return ruler, ruler
    if isinstance(fmt, F.PositFormat):
        ruler = exact.posit_ruler(fmt)
        return ruler, ruler
    if isinstance(fmt, F.FixedFormat):
        half, unit = 2 ** (fmt.bits - 1), Fraction(1, 2**fmt.fraction_bits)
        low, high = -half, half - 1
    else:
        assert isinstance(fmt, F.IntFormat)
        half, unit = 2 ** (fmt.bits - 1), Fraction(1)
        low, high = (-half + fmt.symmetric, half - 1) if fmt.signed else (0, 2**fmt.bits - 1)
    return tuple(exact.value_ruler(fmt, [unit * k for k in range(n + 1)]) for n in (high, -low))


def thinned(fmt: F.Format, count: int = 700) -> np.ndarray:
    """float64 numbers: some of the boundary in both types, all specials."""
    parts = [boundary(fmt).astype(np.float64), boundary(fmt, "float64")]
    parts = [part[:: max(1, part.size // count)] for part in parts]
    with np.errstate(invalid="ignore"):
        return np.concatenate([*parts, specials().astype(np.float64)[::3], [0.0, -0.0, np.inf, -np.inf, np.nan]])


IRREGULAR = (F.LogFormat, F.CodebookFormat)  # below


REGULAR = [n for n, f in LISTED.items() if not isinstance(f, IRREGULAR) and getattr(f, "scale", 1) == 1]


@pytest.mark.parametrize("name", by_kind(REGULAR, also={*EXOTIC, "q8.0"}))
def test_values_and_rounding(name):
    fmt = LISTED[name]
    positive, negative = rulers(fmt)
    x = thinned(fmt)
    has_negative_zero = isinstance(fmt, F.FloatFormat) and fmt.specials not in ("fnuz", "p3109")
    for mode in MODES:
        assert_same(fmt.quantize(x, mode), exact.quantize(x, positive, negative, mode, has_negative_zero), x)


@pytest.mark.parametrize("name", [n for n, f in LISTED.items() if isinstance(f, IRREGULAR)])
def test_irregular_sets(name):
    """Logarithmic numbers and codebooks: the nearest of all values, by exact distance; ties by the parity of codes."""
    fmt = LISTED[name]
    codes = {v: code for code, v in reversed(list(enumerate(fmt.codebook().tolist()))) if np.isfinite(v)}
    values = sorted(codes)
    x = thinned(fmt, 500)
    x = x[np.isfinite(x)]
    if fmt.min > 0:
        x = x[~(np.signbit(x) & (x != 0))]

    def expected(v: float, mode: str) -> float:
        above = bisect_left(values, v)
        if above == len(values) or values[above] == v or above == 0:
            return values[min(above, len(values) - 1)]
        low, high = values[above - 1], values[above]
        from_low, from_high = Fraction(v) - Fraction(low), Fraction(high) - Fraction(v)
        if mode in ("up", "down"):
            return high if mode == "up" else low
        if mode == "toward_zero":
            if low < 0 < high:  # a codebook without zero
                return high if high < -low or (high == -low and not np.signbit(v)) else low
            return high if np.signbit(v) else low
        if from_low != from_high:
            return low if from_low < from_high else high
        tie_goes_up = {"nearest_down": False, "nearest_away": not np.signbit(v), "nearest_even": codes[low] % 2 == 1}[
            mode
        ]
        return high if tie_goes_up else low

    for mode in MODES:
        if mode != "to_odd":  # has no meaning between codes of equal parity
            want = [expected(v, mode) for v in x.tolist()]
            np.testing.assert_array_equal(fmt.quantize(x, mode), want, err_msg=mode)


@pytest.mark.parametrize("scale", [0.1, 3.0, 3e-30, 0.07])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_integers_with_a_scale(scale, dtype):
    """round(x / scale) clamped, times scale: each operation rounded once in the type of x (ONNX QuantizeLinear)."""
    fmt = F.IntFormat(8, scale=scale, zero_point=-3)
    x = boundary(fmt, dtype)
    step = x.dtype.type(scale)
    want = np.clip(np.rint(x / step), -125, 130).astype(dtype) * step + x.dtype.type(0)
    assert_same(fmt.quantize(x), want, x)
    np.testing.assert_array_equal(fmt.encode(x), (np.clip(np.rint(x / step), -125, 130).astype(int) - 3) & 255)


def test_lns_values():
    """±2^(k / 8), rounded to float32: against exact integer roots."""
    for code, value in enumerate(F.get("lns8").codebook()[:128].tolist()):
        k = code - 128 if code >= 64 else code
        if k == -64:
            assert value == 0
            continue
        eighth_power = Fraction(2) ** k  # value^8 lies between those of the neighbours' midpoints
        down, up = (Fraction(value) + Fraction(float(np.nextafter(np.float32(value), np.float32(d)))) for d in (0, 9e9))
        assert (down / 2) ** 8 <= eighth_power <= (up / 2) ** 8
