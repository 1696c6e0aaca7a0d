"""The short ways to round give the bits of the reference, next to every threshold: nearest, even spacing, powers."""

import numpy as np
import pytest

from lplab import formats as F
from lplab.formats import reference
from lplab.formats.paths import kernel_selection
from lplab.formats.paths.numba_compile import words_stamp
from lplab.formats.paths.rules import grid_rule
from lplab.formats.paths.table_rules import table_rule

pytestmark = pytest.mark.skipif(not kernel_selection.available(), reason="numba is not installed")
NAMES = ["hfp8_forward", "hfp8_backward", "dlfloat16", "bf16", "tf32", "fp16", "e4m3fn", "e5m2", "e2m1"]


def by_reference(x, spec, rounding):
    with np.errstate(all="ignore"):
        return reference.quantize(x, spec, rounding).astype(np.float32)


def by_loop(x, rule, scale=None):
    from lplab.formats.paths import numba_kernels

    out = np.empty_like(x)
    loop = numba_kernels.rounding_loop(rule, "float32", scale is not None)
    loop(x.ctypes.data, out.ctypes.data, x.size, scale or 1.0)
    return out


def around(spec, rounding):
    """Patterns all over float32, and the neighbours of results and of midpoints between them."""
    x = np.arange(0, 2**32, 99991, dtype=np.uint64).astype(np.uint32).view(np.float32)
    values = np.unique(by_reference(x, spec, rounding))
    values = values[np.isfinite(values)].astype(np.float64)
    near = np.concatenate([values, (values[1:] + values[:-1]) / 2]).astype(np.float32).view(np.int32)
    return np.concatenate([x, (near - 1).view(np.float32), near.view(np.float32), (near + 1).view(np.float32)])


def assert_same(out, want):
    nan = np.isnan(want)
    assert np.array_equal(np.isnan(out), nan)
    assert np.array_equal(out.view(np.int32)[~nan], want.view(np.int32)[~nan])


@pytest.mark.parametrize("mode", ["nearest_even", "nearest_away"])
@pytest.mark.parametrize("name", NAMES)
def test_grids(name, mode):
    spec, rounding = F.get(name).rounding_spec, F.Rounding(mode)
    x, rule = around(spec, rounding), grid_rule(spec, rounding, "float32")
    assert rule.word == "nearest"
    assert_same(by_loop(x, rule), by_reference(x, spec, rounding))


@pytest.mark.parametrize("step", [0.37, 2.0**-100, 7100.0])
@pytest.mark.parametrize("format", [F.IntFormat(4, symmetric=True), F.IntFormat(8), F.IntFormat(3, signed=False)])
def test_integers_with_a_step(format, step):
    x = np.concatenate(
        [around(format.rounding_spec, F.Rounding()), np.arange(-40, 41).astype(np.float32) * np.float32(step / 2)]
    )
    rule = grid_rule(format.rounding_spec, F.Rounding(), "float32")
    with np.errstate(all="ignore"):
        want = by_reference(x / np.float32(step), format.rounding_spec, F.Rounding()) * np.float32(step)
    assert_same(by_loop(x, rule, step), want)


UNIFORM = [
    F.get("int8"), F.get("int4"), F.get("q4.12"), F.FixedFormat(16, 2), F.FixedFormat(1, 17), F.IntFormat(19),
    F.IntFormat(8, signed=False), F.IntFormat(4, signed=False, zero_point=5), F.IntFormat(8, zero_point=127),
    F.IntFormat(8, zero_point=-128), F.IntFormat(1, signed=False), F.IntFormat(8, scale=2.0**-100),
    F.IntFormat(8, scale=2.0**100), F.IntFormat(8, symmetric=True),
]  # fmt: skip


@pytest.mark.parametrize("format", UNIFORM, ids=lambda format: format.label)
def test_even_spacing_between_two_bounds(format):
    spec, rounding = format.rounding_spec, F.Rounding()
    x, rule = around(spec, rounding), grid_rule(spec, rounding, "float32")
    assert rule.word == "evenly_spaced"
    assert_same(by_loop(x, rule), by_reference(x, spec, rounding))


@pytest.mark.parametrize("name", ["radix4_fp4_even", "radix4_fp4_odd"])
@pytest.mark.parametrize("mode", ["nearest_away", "toward_zero"])
def test_powers(name, mode):
    spec, rounding = F.get(name).rounding_spec, F.Rounding(mode)
    rule = table_rule(spec, rounding)
    assert rule.word == "power"
    least, top, lead, mask, _ = rule.constants
    cuts = np.arange(least, least + top + 1, -mask) - (lead + least)
    patterns = np.concatenate([cuts + k for k in (-1, 0, 1)]).astype(np.int32).view(np.float32)
    x = np.concatenate([around(spec, rounding), patterns, -patterns])
    assert_same(by_loop(x, rule), by_reference(x, spec, rounding))


def test_which_function_serves():
    def word(fmt, mode="nearest_even", real="float32"):
        rule = grid_rule(fmt.rounding_spec, F.Rounding(mode), real)
        return rule and rule.word

    assert (
        word(F.get("fp32")) == word(F.get("e4m3fn"), "stochastic") == word(F.get("int8"), "nearest_away") == "general"
    )
    assert word(F.IntFormat(21)) == word(F.get("q4.12"), "up") == "general"
    assert word(F.FixedFormat(1, 31)) is None and word(F.FixedFormat(1, 31), real="float64") == "evenly_spaced"
    assert word(F.IntFormat(8, scale=0.1)) == "evenly_spaced"  # of the integers; the step is not its own


def test_old_machine_code_is_not_loaded(tmp_path):
    """The stamp in the name of a stored loop changes with the text of the functions that it calls."""
    from lplab.formats import words
    from lplab.formats.paths import numba_kernels

    rule = grid_rule(F.get("e4m3fn").rounding_spec, F.Rounding(), "float32")
    loop, _ = numba_kernels.bound(numba_kernels._round, rule, STEP=False)
    assert words_stamp(words) in loop.py_func.__qualname__

    text = tmp_path / "other_words.py"
    text.write_text("WORDS = ()\n", "utf-8")
    import importlib.util

    other = importlib.util.module_from_spec(importlib.util.spec_from_file_location("other_words", text))
    assert words_stamp(other) != words_stamp(words)


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
