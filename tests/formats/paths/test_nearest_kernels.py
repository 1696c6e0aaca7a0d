"""The short loops for rounding to nearest give the bits of the whole-array path, next to every threshold."""

import numpy as np
import pytest

from lplab import formats as F
from lplab.formats.paths import array_kernels, kernel_selection, nearest_kernels, table_kernels

pytestmark = pytest.mark.skipif(not kernel_selection.available(), reason="numba is not installed")
NAMES = ["hfp8_forward", "hfp8_backward", "dlfloat16", "bf16", "tf32", "fp16", "e4m3fn", "e5m2", "e2m1"]


def around(spec, rounding):
    """Patterns all over float32, and the neighbours of results and of midpoints between them."""
    x = np.arange(0, 2**32, 99991, dtype=np.uint64).astype(np.uint32).view(np.float32)
    values = np.unique(array_kernels.quantize(np, x, spec, rounding))
    values = values[np.isfinite(values)].astype(np.float64)
    near = np.concatenate([values, (values[1:] + values[:-1]) / 2]).astype(np.float32).view(np.int32)
    return np.concatenate([x, (near - 1).view(np.float32), near.view(np.float32), (near + 1).view(np.float32)])


def assert_same(out, want):
    nan = np.isnan(want)
    assert np.array_equal(np.isnan(out), nan)
    assert np.array_equal(out.view(np.int32)[~nan], want.view(np.int32)[~nan])


@pytest.mark.parametrize("mode", nearest_kernels.MODES)
@pytest.mark.parametrize("name", NAMES)
def test_grids(name, mode):
    spec, rounding = F.get(name).rounding_spec, F.Rounding(mode)
    x = around(spec, rounding)
    out = np.empty_like(x)
    nearest_kernels.nearest_kernel(spec, rounding)(x.ctypes.data, out.ctypes.data, x.size, 1.0)
    assert_same(out, array_kernels.quantize(np, x, spec, rounding))


@pytest.mark.parametrize("step", [0.37, 2.0**-100, 7100.0])
@pytest.mark.parametrize("format", [F.IntFormat(4, symmetric=True), F.IntFormat(8), F.IntFormat(3, signed=False)])
def test_integers_with_a_step(format, step):
    x = np.concatenate(
        [around(format.rounding_spec, F.Rounding()), np.arange(-40, 41).astype(np.float32) * np.float32(step / 2)]
    )
    out = np.empty_like(x)
    nearest_kernels.nearest_kernel(format.rounding_spec, F.Rounding(), step=True)(
        x.ctypes.data, out.ctypes.data, x.size, step
    )
    with np.errstate(all="ignore"):
        want = array_kernels.quantize(np, x / np.float32(step), format.rounding_spec, F.Rounding()) * np.float32(step)
    assert_same(out, want)


UNIFORM = [
    F.get("int8"), F.get("int4"), F.get("q4.12"), F.FixedFormat(16, 2), F.FixedFormat(1, 17), F.IntFormat(19),
    F.IntFormat(8, signed=False), F.IntFormat(4, signed=False, zero_point=5), F.IntFormat(8, zero_point=127),
    F.IntFormat(8, zero_point=-128), F.IntFormat(1, signed=False), F.IntFormat(8, scale=2.0**-100),
    F.IntFormat(8, scale=2.0**100), F.IntFormat(8, symmetric=True),
]  # fmt: skip


@pytest.mark.parametrize("format", UNIFORM, ids=lambda format: format.label)
def test_even_spacing_between_two_bounds(format):
    spec, rounding = format.rounding_spec, F.Rounding()
    x = around(spec, rounding)
    out = np.empty_like(x)
    assert nearest_kernels.serves_uniform(spec, rounding)
    nearest_kernels.uniform_kernel(spec, rounding)(x.ctypes.data, out.ctypes.data, x.size)
    assert_same(out, array_kernels.quantize(np, x, spec, rounding))


def test_grids_without_even_spacing_in_float32():
    refused = [F.IntFormat(21), F.FixedFormat(1, 31), F.IntFormat(8, scale=0.1)]
    refused += [F.get("e4m3fn"), F.get("fp32")]
    assert not [format for format in refused if nearest_kernels.serves_uniform(format.rounding_spec, F.Rounding())]
    assert not nearest_kernels.serves_uniform(F.get("int8").rounding_spec, F.Rounding("nearest_away"))


@pytest.mark.parametrize("name", ["radix4_fp4_even", "radix4_fp4_odd"])
@pytest.mark.parametrize("mode", ["nearest_away", "toward_zero"])
def test_powers(name, mode):
    spec, rounding = F.get(name).rounding_spec, F.Rounding(mode)
    cuts = table_kernels._comparison_arguments(spec, rounding)
    assert table_kernels._power_arguments(*cuts) is not None
    patterns = np.concatenate([np.array(cuts[0]) + np.int32(k) for k in (-1, 0, 1)]).view(np.float32)
    x = np.concatenate([around(spec, rounding), patterns, -patterns])
    out = np.empty_like(x)
    table_kernels.table_loop(spec, rounding)(x.ctypes.data, out.ctypes.data, x.size)
    assert_same(out, array_kernels.quantize(np, x, spec, rounding))


def test_what_has_no_short_loop():
    even = F.Rounding()
    fp32, e4m3fn, int8 = (F.get(name).rounding_spec for name in ("fp32", "e4m3fn", "int8"))
    assert nearest_kernels.nearest_kernel_key(fp32, even) is None
    assert nearest_kernels.nearest_kernel_key(e4m3fn, F.Rounding("stochastic")) is None
    assert nearest_kernels.nearest_kernel_key(int8, even) is None  # more numbers below zero than above
    assert nearest_kernels.nearest_kernel_key(int8, even, step=True) == ("integers",)


def test_loops_may_fill_whole_vector_registers():
    from numba import njit

    from lplab.formats.paths.numba_compile import use_wide_vectors

    @njit
    def loop(x):
        use_wide_vectors()
        for i in range(x.size):
            x[i] += 1

    x = np.zeros(40, np.float32)
    loop(x)
    (code,) = loop.inspect_llvm().values()
    assert (x == 1).all() and '"prefer-vector-width"="512"' in code
