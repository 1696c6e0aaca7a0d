"""What must hold for every format and every number; hypothesis draws both."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, example, given, settings

from lplab import formats as F
from lplab.formats import counter_rng, reference
from tests.kinds import by_kind

from .paths.test_paths import EXOTIC
from .probes import ELEMENTWISE, assert_same, boundary, common, probes, random_patterns

MODES = [mode for mode in F.ROUNDINGS if mode != "stochastic"]
NEAREST = MODES[:3]


@st.composite
def float_formats(draw) -> F.FloatFormat:
    """Any description that the constructor accepts."""
    exponent_bits, mantissa_bits = draw(st.integers(1, 10)), draw(st.integers(0, 16))
    radix = draw(st.sampled_from([2, 2, 2, 4]))
    if radix == 4:
        exponent_bits, mantissa_bits = min(exponent_bits, 6), min(mantissa_bits, 5)
    bias = draw(st.none() | st.integers(-60, 160))
    kwargs = {
        "subnormals": draw(st.booleans()),
        "specials": draw(st.sampled_from(list(F.SPECIALS))),
        "saturating": draw(st.sampled_from([None, True, False])),
    }
    try:
        return F.FloatFormat(exponent_bits, mantissa_bits, bias, radix, **kwargs)
    except ValueError:
        assume(False)
        raise


@st.composite
def other_formats(draw) -> F.Format:
    kind = draw(st.sampled_from(["fixed", "int", "posit", "log", "codebook"]))
    if kind == "fixed":
        integer_bits = draw(st.integers(1, 16))
        return F.FixedFormat(integer_bits, draw(st.integers(1, 16)))
    if kind == "int":
        symmetric, scale = draw(st.booleans()), draw(st.floats(2.0**-60, 2.0**60))
        return F.IntFormat(draw(st.integers(2, 32)), symmetric=symmetric, scale=scale)
    if kind == "posit":
        return F.PositFormat(draw(st.integers(3, 10)), draw(st.integers(0, 3)))
    if kind == "log":
        bits = draw(st.integers(3, 9))
        return F.LogFormat(bits, draw(st.integers(max(0, bits - 8), bits - 2)))
    values = st.floats(-1e6, 1e6, width=32).filter(lambda v: v == 0 or abs(v) > 1e-30)
    chosen = draw(st.lists(values, min_size=8, max_size=8, unique=True))
    assume(any(v > 0 for v in chosen) and any(v < 0 for v in chosen))
    return F.CodebookFormat(tuple(chosen))


def is_scaled(fmt: F.Format) -> bool:
    """Integers whose scale is no power of two: the division by it is rounded."""
    return isinstance(fmt, F.IntFormat) and math.frexp(fmt.scale)[0] != 0.5


FORMATS = st.one_of(float_formats(), other_formats())
NUMBERS = st.lists(st.floats(width=64) | st.floats(-1e3, 1e3) | st.floats(width=32), min_size=1, max_size=20).map(
    np.array
)


@given(FORMATS, NUMBERS, st.sampled_from(MODES))
def test_result_is_a_value_and_rounding_it_again_changes_nothing(fmt, x, mode):
    once = fmt.quantize(x, mode)
    if not is_scaled(fmt) or mode in NEAREST:  # 3·scale, rounded, over scale may be a little less than 3
        assert_same(fmt.quantize(once, mode), once, x)
    if fmt.bits <= 16:
        finite = once[np.isfinite(once)]
        assert np.isin(finite, fmt.values).all()
    assert np.isnan(once[np.isnan(x)]).all()


@given(FORMATS, NUMBERS, st.sampled_from(MODES))
def test_monotone(fmt, x, mode):
    ordered = fmt.quantize(np.sort(x[~np.isnan(x)]), mode)
    kept = ordered[~np.isnan(ordered)]  # overflow to NaN at either end
    assert (kept[1:] >= kept[:-1]).all()


@given(FORMATS, NUMBERS)
def test_odd(fmt, x):
    """−x gives −q(x) where the format has every number's negative; directed modes swap."""
    assume(fmt.min == -fmt.max and not isinstance(fmt, F.CodebookFormat))
    for mode, mirrored in [
        ("nearest_even",) * 2,
        ("nearest_away",) * 2,
        ("toward_zero",) * 2,
        ("to_odd",) * 2,
        ("up", "down"),
    ]:
        np.testing.assert_array_equal(fmt.quantize(-x, mirrored), -fmt.quantize(x, mode))


@given(FORMATS, NUMBERS)
def test_the_modes_bracket_the_number(fmt, x):
    inside = x[(x >= fmt.min) & (x <= fmt.max)]
    flushes = isinstance(fmt, F.FloatFormat) and not fmt.subnormals
    posit = isinstance(fmt, F.PositFormat)  # never rounds to zero, so down may be above
    assume(inside.size and not (flushes or posit or is_scaled(fmt)))
    low, high = fmt.quantize(inside, "down"), fmt.quantize(inside, "up")
    assert (low <= inside).all() and (inside <= high).all()
    for mode in MODES:
        got = fmt.quantize(inside, mode)
        assert ((got == low) | (got == high)).all()
    for mode in NEAREST:
        error, gap = np.abs(fmt.quantize(inside, mode) - inside), high - low
        assert (error <= gap / 2 * (1 + 1e-15)).all()


@given(FORMATS)
def test_every_code_decodes_and_encodes_to_itself(fmt):
    assume(fmt.bits <= 16)
    codes = np.arange(2**fmt.bits)
    values = fmt.decode(codes)
    distinct = np.isfinite(values)
    if isinstance(fmt, F.FloatFormat):
        distinct &= ~(
            (values == 0) & (codes & (2 ** (fmt.bits - 1) - 1) != 0)
        )  # without subnormals field 0 is zero throughout
        distinct |= np.isinf(values) & (not fmt.saturating)
    np.testing.assert_array_equal(fmt.encode(values[distinct]), codes[distinct])


@given(FORMATS, NUMBERS, st.sampled_from(MODES))
def test_decode_of_encode_is_quantize(fmt, x, mode):
    merged = getattr(fmt, "specials", "") == "dlfloat"  # one code for infinity and NaN
    x = x if fmt.has_nan and not merged else x[~np.isnan(x)]
    want = fmt.quantize(x, mode)
    nan_without_code = np.isnan(want).any() and not fmt.has_nan
    infinity_without_code = np.isinf(want).any() and not np.isinf(fmt.codebook()).any()
    if nan_without_code or infinity_without_code:
        with pytest.raises(ValueError, match="no code for NaN"):
            fmt.encode(x, mode)
        return
    got = fmt.decode(fmt.encode(x, mode))
    assert_same(got, want, x)


@given(FORMATS, NUMBERS, st.sampled_from(F.ROUNDINGS), st.integers(0, 2**70))
@example(F.FloatFormat(4, 3, bias=-1), np.array([2.0**-1022]), "up", 0)
def test_public_path_equals_reference(fmt, x, mode, seed):
    rounding = F.Rounding(mode)
    draws = counter_rng.random_bits(np, counter_rng.keys(seed), 0, x.size, 16) if rounding.is_stochastic else None
    assert_same(fmt.quantize(x, mode, seed=seed), reference.quantize(x, fmt.rounding_spec, rounding, draws), x)
    with np.errstate(all="ignore"):
        narrow = x.astype(np.float32)
        want = reference.quantize(narrow, fmt.rounding_spec, rounding, draws).astype(np.float32)
    assert_same(fmt.quantize(narrow, mode, seed=seed), want, narrow)


@given(FORMATS)
def test_the_numbers_describe_the_values(fmt):
    """max, min, smallest value, eps and waste, derived again from the list of values."""
    assume(fmt.bits <= 16)
    values = fmt.values
    assert (fmt.max, fmt.min) == (values[-1], values[0])
    assert fmt.smallest_subnormal == values[values > 0][0] <= fmt.smallest_normal <= fmt.max
    assert fmt.wasted_codes == 2**fmt.bits - len(values)
    assert fmt.dynamic_range_octaves == pytest.approx(math.log2(fmt.max) - math.log2(fmt.smallest_subnormal))
    assert fmt.dynamic_range_db == pytest.approx(20 * math.log10(2) * fmt.dynamic_range_octaves)
    above = values[values > 1]
    if 1 in values and above.size:
        assert fmt.eps == above[0] - 1
    else:
        assert math.isnan(fmt.eps)
    assert sum(width for _, width in fmt.bit_fields()) == fmt.bits
    assert fmt.describe()["max"] == fmt.max and str(fmt)
    names = {
        k: getattr(F, k)
        for k in ("FloatFormat", "FixedFormat", "IntFormat", "PositFormat", "LogFormat", "CodebookFormat")
    }
    assert eval(repr(fmt), names) == fmt


@pytest.mark.parametrize("name", by_kind(ELEMENTWISE))
def test_catalogue_on_all_probes(name):
    """The first three properties again, at the boundaries of each format."""
    fmt, x = F.get(name), probes(name)[::3]
    ordered = np.sort(x[~np.isnan(x)])
    for mode in MODES:
        once = fmt.quantize(ordered, mode)
        assert_same(fmt.quantize(once, mode), once, ordered)
        kept = once[~np.isnan(once)]
        assert (np.diff(kept[np.isfinite(kept)]) >= 0).all()


@pytest.mark.parametrize("name", by_kind([*ELEMENTWISE, *EXOTIC], also=EXOTIC))
def test_codes_of_the_boundary(name):
    """Encode and decode where values change; and no code is outside the width."""
    fmt = EXOTIC[name] if name in EXOTIC else F.get(name)
    x = boundary(fmt, "float64")
    codes = fmt.encode(x)
    assert codes.dtype.kind == "u" and int(codes.max()) < 2**fmt.bits
    assert_same(fmt.decode(codes), fmt.quantize(x), x)


@given(FORMATS, st.sampled_from(F.ROUNDINGS), st.sampled_from(["float32", "float64"]))
@settings(max_examples=60)
def test_compiled_loops_of_any_format(fmt, mode, dtype):
    """Large arrays around the values of a drawn format, through the public path, against the reference."""
    x = common(dtype)[::5]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        near = random_patterns(dtype)[2**15 :] * x.dtype.type(min(fmt.max, 1e30))
        x = np.concatenate([x, near, boundary(fmt, dtype) if fmt.bits <= 12 else near])
        rounding = F.Rounding(mode)
        draws = counter_rng.random_bits(np, counter_rng.keys(1), 0, x.size, 16) if rounding.is_stochastic else None
        want = reference.quantize(x, fmt.rounding_spec, rounding, draws).astype(dtype)
    assert_same(fmt.quantize(x, mode, seed=1), want, x)
