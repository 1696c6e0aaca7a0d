"""Block formats: by definition in float64, against torchao in all its scale modes, and along every axis and path."""

import dataclasses
import math
from functools import cache

import numpy as np
import pytest
import torch

from lplab import formats as F
from lplab.formats import counter_rng, reference
from lplab.formats.paths import block_rounding, kernel_selection
from lplab.formats.rounding import Rounding
from tests.kinds import by_kind

from .probes import BLOCKED, assert_same, random_patterns, specials

pytestmark = pytest.mark.filterwarnings("error")

MX = [name for name in BLOCKED if name != "nvfp4"]
MODES = ["nearest_even", "nearest_away", "nearest_down", "toward_zero", "up", "down", "to_odd", "stochastic"]
ELEMENTS = 2**16  # enough for the compiled loops


@cache
def mixed(dtype: str = "float32") -> np.ndarray:
    """Blocks of every kind: smooth, wide, on the boundaries of scales, subnormal, with specials, random bits."""
    rng = np.random.default_rng(3)
    wide = rng.standard_normal(ELEMENTS // 4) * 2.0 ** rng.integers(-12, 12, ELEMENTS // 4)
    smooth = rng.standard_normal((ELEMENTS // 128, 32)) * 2.0 ** rng.integers(-126, 120, (ELEMENTS // 128, 1)).astype(
        float
    )
    edges = np.repeat(2.0 ** np.arange(-140, 127), 64) * np.tile(
        [1, 1.75, 1.5, 1.25, 0.5, 7 / 8, 1.9375, 15 / 16], 267 * 8
    )
    subnormal = rng.integers(0, 2**12, 1024) * 2.0**-149
    with np.errstate(invalid="ignore", over="ignore"):
        parts = [
            part.reshape(-1).astype(dtype)
            for part in (wide, smooth, edges, -edges, subnormal, np.zeros(64), -np.zeros(64))
        ]
        x = np.concatenate([*parts, specials(dtype), random_patterns(dtype, 2**13)])
        return np.concatenate([x, np.nextafter(x, np.zeros(1, dtype))])


def define_mx(x: np.ndarray, fmt: F.BlockFormat, rounding: Rounding, draws: np.ndarray | None = None) -> np.ndarray:
    """OCP MX as specified: scale by a power of two, round the elements, scale back. x is flat."""
    size, element = fmt.block_size, fmt.element
    pad = -x.size % size
    with np.errstate(invalid="ignore"):
        split = np.pad(x, (0, pad)).astype(np.float64).reshape(-1, size)
    draws = None if draws is None else np.pad(draws, (0, pad))
    largest = np.abs(split).max(1)
    bad = ~np.isfinite(largest)
    exponents = np.array([scale_exponent(v, fmt) if np.isfinite(v) and v else 0 for v in largest.tolist()])[:, None]
    scaled = np.ldexp(np.where(bad[:, None], 0, split), -exponents)
    values = reference.quantize(scaled.reshape(-1), element.rounding_spec, rounding, draws).reshape(split.shape)
    values = np.where(bad[:, None], np.nan, np.ldexp(values, exponents))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.reshape(-1)[: x.size].astype(x.dtype)


def scale_exponent(amax: float, fmt: F.BlockFormat) -> int:
    """The rules in Python floats."""
    largest = fmt.element.max
    top = math.frexp(largest)[1] - 1
    if fmt.scale_rule == "nearest":  # of the powers of two around amax / largest, the next one
        lower = math.frexp(amax)[1] - top - 3
        while 2.0 * 2.0**lower * largest <= amax:
            lower += 1
        return max(-127, min(127, lower + (amax >= 1.5 * 2.0**lower * largest)))
    mantissa, exponent = math.frexp(amax)  # amax = mantissa · 2^exponent, 1/2 <= mantissa < 1
    if fmt.scale_rule == "even":
        bits = getattr(fmt.element, "mantissa_bits", fmt.element.bits - 2)
        mantissa = math.floor(mantissa * 2 ** (bits + 1) + 0.5) / 2 ** (bits + 1)
        exponent += mantissa == 1
    if fmt.scale_rule == "ceil":
        exponent += mantissa != 0.5
    if fmt.scale_rule == "rceil":
        exponent += 2 * mantissa > largest / 2.0**top
    return max(-127, min(127, exponent - 1 - top))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rule", F.SCALE_RULES)
@pytest.mark.parametrize("name", by_kind(MX))
def test_mx_by_definition(name, rule, dtype, monkeypatch):
    """Compiled loops and array path, numpy and torch."""
    fmt, x = dataclasses.replace(F.get(name), scale_rule=rule), mixed(dtype)
    for mode in MODES if rule == "floor" and dtype == "float32" else MODES[:1]:
        rounding = Rounding(mode)
        draws = counter_rng.random_bits(np, counter_rng.keys(5), 0, x.size, 16) if rounding.is_stochastic else None
        want = define_mx(x, fmt, rounding, draws)
        assert_same(fmt.quantize(x, mode, seed=5), want, x)
        assert_same(fmt.quantize(torch.from_numpy(x), mode, seed=5).numpy(), want, x)
        with monkeypatch.context() as patch:
            patch.setattr(kernel_selection, "loops_are_on", False)
            assert_same(fmt.quantize(x, mode, seed=5), want, x)
            assert_same(fmt.quantize(torch.from_numpy(x), mode, seed=5).numpy(), want, x)


@pytest.mark.parametrize("no_numba", ["0", "1"])
@pytest.mark.parametrize("name", MX)
def test_rceil_doubles_the_scale_only_where_the_largest_does_not_fit(name, no_numba, monkeypatch):
    monkeypatch.setattr(kernel_selection, "loops_are_on", kernel_selection.available() and no_numba != "1")
    fmt = dataclasses.replace(F.get(name), scale_rule="rceil")
    largest, smallest = 2 * np.float32(fmt.element.max), 2 * np.float32(fmt.element.smallest_subnormal)
    x = np.tile(smallest, (ELEMENTS // 32, 32))
    x[:, 0] = largest
    x[1::2, 0] = np.nextafter(largest, np.float32(np.inf))
    assert (fmt.encode(x).scales.reshape(-1, 2) == [128, 129]).all(), "exponents 1 and 2"
    assert_same(fmt.quantize(x[::2]), x[::2], x[::2])
    assert (fmt.quantize(x[1::2])[:, 1:] != smallest).all(), "half a step under the doubled scale"


@pytest.mark.parametrize("size", [2, 3, 16, 31, 64, 1000])
def test_any_block_size(size):
    fmt = F.BlockFormat(F.get("e2m1"), block_size=size)
    x = mixed()[: 2**16 + 1]
    assert_same(fmt.quantize(x), define_mx(x, fmt, Rounding()), x)
    assert fmt.bits == 4 + 8 / size


def define_nvfp4(x: np.ndarray) -> np.ndarray:
    """NVIDIA's reference (section 6.4 of the notes), one float32 operation after the other."""
    f32 = np.float32
    finite = np.abs(x[np.isfinite(x)])
    amax = finite.max() if finite.size else f32(0)
    s_enc = f32(2688) / amax if amax else f32(1)
    s_enc = min(s_enc, np.finfo(f32).max)
    s_dec = f32(1) / s_enc
    split = np.pad(x, (0, -x.size % 16)).reshape(-1, 16)
    bad = ~np.isfinite(split).all(1)
    split = np.where(bad[:, None], f32(0), split)
    target = np.minimum(np.abs(split).max(1) * (s_enc * (f32(1) / f32(6))), f32(448))
    s_b = F.get("e4m3fn").quantize(target)[:, None]
    factor = np.minimum(f32(1) / (s_b * s_dec), np.finfo(f32).max)
    q = F.get("e2m1").quantize(np.clip(split * factor, f32(-6), f32(6)))
    return np.where(bad[:, None], f32(np.nan), q * s_b * s_dec).reshape(-1)[: x.size]


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
@pytest.mark.parametrize("case", ["wide", "with specials", "few"])
def test_nvfp4_by_definition(case, scale, monkeypatch):
    x = (
        np.random.default_rng(1).standard_normal(2**17) * 2.0 ** np.random.default_rng(2).integers(-12, 12, 2**17)
    ).astype("f4")
    x *= np.float32(scale)
    if case == "with specials":
        x[::1000], x[7::5000], x[100:132] = np.nan, np.inf, -0.0
    if case == "few":
        x = x[:37]
    with np.errstate(all="ignore"):
        want = define_nvfp4(x)
    for no_numba in ("0", "1"):
        monkeypatch.setattr(kernel_selection, "loops_are_on", kernel_selection.available() and no_numba != "1")
        assert_same(F.get("nvfp4").quantize(x), want, x)
        assert_same(F.get("nvfp4").quantize(torch.from_numpy(x)).numpy(), want, x)


# -- torchao ----------------------------------------------------------------------------------------------------


def torchao_mx():
    module = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    config = pytest.importorskip("torchao.prototype.mx_formats.config")
    return module, config.ScaleCalculationMode


THEIRS = {
    "mxfp8_e4m3": torch.float8_e4m3fn,
    "mxfp8_e5m2": torch.float8_e5m2,
    "mxfp6_e3m2": "fp6_e3m2",
    "mxfp6_e2m3": "fp6_e2m3",
    "mxfp4": torch.float4_e2m1fn_x2,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rule", F.SCALE_RULES)
@pytest.mark.parametrize("name", THEIRS)
def test_torchao_mx(name, rule):
    """Equal on every element while the scale is a normal float32 and not the largest; rceil there goes through log2."""
    module, modes = torchao_mx()
    fmt = dataclasses.replace(F.get(name), scale_rule=rule)
    x = mixed()
    x = x[: x.size // 32 * 32].reshape(-1, 32)
    amax = np.abs(x).max(1)
    x = x[(amax < 2.0**120) & ((amax > 2.0**-105) | (amax == 0))]  # drops blocks with NaN and infinity, too
    scale, codes = module.to_mx(torch.from_numpy(x), THEIRS[name], 32, modes(rule))
    want = module.to_dtype(codes, scale, THEIRS[name], 32, torch.float32).numpy()
    zero = np.abs(x).max(1) == 0
    np.testing.assert_array_equal(fmt.encode(x).scales[~zero, 0], scale.view(torch.uint8).numpy().reshape(-1)[~zero])
    assert_same(fmt.quantize(x), want, x)


@pytest.mark.filterwarnings("ignore")
def test_torchao_nvfp4():
    """torchao divides where NVIDIA multiplies, so ties may fall the other way; everything else is equal.

    Its least block scale is 2^−6, ours 2^−9 (as NVIDIA's): blocks below it are left out.
    """
    module = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
    x = np.random.default_rng(0).standard_normal((512, 1024)).astype(np.float32)
    s_dec = module.per_tensor_amax_to_scale(torch.tensor(np.abs(x).max()))
    scales, packed = module.nvfp4_quantize(torch.from_numpy(x), 16, s_dec)
    ours = F.get("nvfp4").encode(x)
    np.testing.assert_array_equal(ours.scales, scales.view(torch.uint8).numpy())
    low, high = packed.numpy() & 15, packed.numpy() >> 4
    theirs = np.stack([low, high], -1).reshape(x.shape)
    differ = ours.elements != theirs
    scaled = np.abs(x / (F.get("e4m3fn").decode(np.repeat(ours.scales, 16, 1)) * ours.tensor_scale))[differ]
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5])
    assert differ.mean() < 1e-4
    assert (np.abs(scaled[:, None] - ties).min(1) < 1e-6).all()


# -- shapes, codes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", by_kind(BLOCKED))
@pytest.mark.parametrize("shape", [(5, 7, 33), (64,), (3, 100), (1, 1), (40, 3, 2)])
def test_axes(name, shape):
    """Blocks along an axis are those of the array with that axis last, for numpy, torch and codes."""
    fmt = F.get(name)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for axis in range(-len(shape), len(shape)):
        want = np.moveaxis(fmt.quantize(np.ascontiguousarray(np.moveaxis(x, axis, -1))), -1, axis)
        assert_same(fmt.quantize(x, axis=axis), want, x)
        assert_same(fmt.quantize(torch.from_numpy(x), axis=axis).numpy(), want, x)
        codes = fmt.encode(x, axis=axis)
        blocks_along = list(shape)
        blocks_along[axis] = -(-shape[axis] // fmt.block_size)
        assert codes.elements.shape == shape and codes.scales.shape == tuple(blocks_along)
        assert_same(fmt.decode(codes, axis=axis).astype(np.float32), want, x)
    with pytest.raises(ValueError, match="axis must be from"):
        fmt.quantize(x, axis=len(shape))


@pytest.mark.parametrize("name", BLOCKED)
def test_decode_of_encode_is_quantize(name):
    fmt, x = F.get(name), mixed()
    if name == "nvfp4":
        x = x[np.isfinite(x)]
    got = fmt.decode(fmt.encode(x))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        assert_same(got.astype(np.float32), fmt.quantize(x), x)
    in_torch = fmt.encode(torch.from_numpy(x))
    np.testing.assert_array_equal(in_torch.elements.numpy(), fmt.encode(x).elements)
    np.testing.assert_array_equal(in_torch.scales.numpy(), fmt.encode(x).scales)
    np.testing.assert_array_equal(fmt.decode(in_torch).numpy(), got)


@pytest.mark.parametrize("name", BLOCKED)
def test_empty_and_scalar(name):
    fmt = F.get(name)
    for shape in [(0,), (0, 32), (32, 0), (3, 0, 2)]:
        assert fmt.quantize(np.zeros(shape, np.float32)).shape == shape
        assert fmt.quantize(torch.zeros(shape)).shape == shape
    x = np.float32(3.0)  # NVFP4's product of three float32 factors may miss it by an ulp
    assert fmt.quantize(3.0) == pytest.approx(3, rel=1e-6) == fmt.quantize(x)
    assert fmt.quantize(np.array(x)).shape == () == fmt.quantize(torch.tensor(3.0)).shape
    with pytest.raises(ValueError, match="no single|grid for each block"):
        fmt.codebook()


@pytest.mark.parametrize("name", ["mxfp4", "mxint8", "nvfp4"])
def test_codes_of_whatever_can_be_rounded(name):
    """numpy's numbers, no axis, and empty axes: elements in the shape of x, scales with the blocks along their axis."""
    fmt = F.get(name)
    for x in (np.float32(0.3), np.float64(0.3), np.array(0.3, np.float32), 0.3, torch.tensor(0.3)):
        codes = fmt.encode(x)
        assert tuple(codes.elements.shape) == () and tuple(codes.scales.shape) == (1,)
        assert np.float32(fmt.decode(codes)) == np.float32(fmt.quantize(x))
    for shape in ((0,), (3, 0), (0, 32), (0, 0), (2, 0, 5)):
        for axis in range(-len(shape), len(shape)):
            for x in (np.empty(shape, np.float32), torch.empty(shape)):
                codes, blocks = fmt.encode(x, "stochastic", 1, axis=axis), list(shape)
                blocks[axis] = -(-shape[axis] // fmt.block_size)
                assert tuple(codes.elements.shape) == tuple(fmt.decode(codes, axis=axis).shape) == shape
                assert tuple(codes.scales.shape) == tuple(blocks)


def test_one_bad_number_spoils_its_block_alone():
    for bad in (np.nan, np.inf, -np.inf):
        x = np.ones(96, np.float32)
        x[40] = bad
        got = F.get("mxfp4").quantize(x)
        assert np.isnan(got[32:64]).all() and (got[:32] == 1).all() and (got[64:] == 1).all()
        codes = F.get("mxfp4").encode(x)
        assert codes.scales.tolist() == [125, 255, 125]
        assert np.isnan(F.get("mxfp4").decode(codes)[32:64]).all()
    with pytest.raises(ValueError, match="no code for NaN"):
        F.get("nvfp4").encode([1.0, np.nan])


@pytest.mark.skipif(not kernel_selection.available(), reason="numba is not installed")
@pytest.mark.parametrize("name", BLOCKED)
def test_kernels_serve_all_of_them(name, monkeypatch):
    """The compiled loop really runs: the tests above also pass on the array path."""
    monkeypatch.setattr(block_rounding, "quantize", lambda *_: pytest.fail("the array path was taken"))
    assert (F.get(name).quantize(np.full((2**10, 2**6), 2, np.float32)) == 2).all()
