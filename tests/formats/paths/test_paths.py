"""Reference, numpy arrays, torch tensors and compiled loops give the same bits: every format, mode and type."""

import itertools

import numpy as np
import pytest
import torch

from lplab import formats as F
from lplab.formats import counter_rng, reference
from lplab.formats.apply import addresses, prepare
from lplab.formats.paths import array_kernels, kernel_selection
from tests.kinds import EXAMPLES, tiered

from ..probes import ELEMENTWISE, assert_same, boundary, common

# No input may cause a warning, not even a signaling NaN.
pytestmark = pytest.mark.filterwarnings("error")

DETERMINISTIC = [F.Rounding(mode) for mode in F.ROUNDINGS if mode != "stochastic"]
STOCHASTIC = [F.Rounding("stochastic", bits, variant) for variant in F.VARIANTS for bits in (1, 3, 8, 16, 24)]
COMPILED_FOR_IT_ALONE = ["no mantissa, no subnormals", "int8, odd scale", "lns16"]  # 5 to 10 s in a fresh clone
THOROUGH = ["e4m3fn", "bf16", "q4.12", "int8", "posit8_1"]  # one of each kind
EXOTIC = {
    "among float32's subnormals": F.FloatFormat(4, 3, bias=140),
    "below float32": F.FloatFormat(4, 3, bias=600),
    "above float32": F.FloatFormat(4, 3, bias=-500),
    "the end of float32": F.FloatFormat(4, 3, bias=-113, specials="fn"),
    "the end of float32, non-saturating": F.FloatFormat(4, 3, bias=-113, specials="fn", saturating=False),
    "no mantissa": F.FloatFormat(5, 0, specials="fn"),
    "no mantissa, odd bias": F.FloatFormat(4, 0, bias=4, specials="none"),
    "no mantissa, no subnormals": F.FloatFormat(4, 0, bias=7, specials="fnuz", subnormals=False),
    "no mantissa, 8 exponent bits": F.FloatFormat(8, 0, specials="fn"),
    "radix 4 with mantissa": F.FloatFormat(4, 3, radix=4),
    "radix 4, half bias": F.FloatFormat(3, 2, bias=3.5, radix=4, specials="fnuz", saturating=False),
    "radix 4, no subnormals": F.FloatFormat(3, 1, radix=4, subnormals=False),
    "radix 4, dlfloat": F.FloatFormat(3, 2, radix=4, subnormals=False, specials="dlfloat"),
    "radix 4, dlfloat, no mantissa": F.FloatFormat(3, 0, radix=4, subnormals=False, specials="dlfloat"),
    "radix 4, no mantissa, ieee": F.FloatFormat(3, 0, radix=4, specials="ieee"),
    "dlfloat, no mantissa": F.FloatFormat(5, 0, subnormals=False, specials="dlfloat"),
    "dlfloat 8 bits": F.FloatFormat(4, 3, bias=9, subnormals=False, specials="dlfloat"),
    "dlfloat 8 exponent bits": F.FloatFormat(8, 7, subnormals=False, specials="dlfloat"),
    "no subnormals, ieee": F.FloatFormat(4, 3, subnormals=False),
    "no subnormals, ieee, saturating": F.FloatFormat(4, 3, subnormals=False, saturating=True),
    "no subnormals, fn": F.FloatFormat(4, 3, subnormals=False, specials="fn"),
    "no subnormals, fnuz": F.FloatFormat(4, 3, subnormals=False, specials="fnuz", saturating=False),
    "no subnormals, none": F.FloatFormat(2, 3, subnormals=False, specials="none"),
    "bf16 without subnormals": F.FloatFormat(8, 7, subnormals=False),
    "10 exponent bits": F.FloatFormat(10, 5),
    "11-bit mantissa, 8 exponent bits": F.FloatFormat(8, 11),
    "21-bit mantissa": F.FloatFormat(6, 21),
    "22-bit mantissa": F.FloatFormat(8, 22),
    "30-bit mantissa": F.FloatFormat(8, 30),
    "one exponent bit": F.FloatFormat(1, 2, specials="none"),
    "fixed 32 bits": F.FixedFormat(16, 16),
    "fixed, sign alone": F.FixedFormat(1, 31),
    "fixed, two bits": F.FixedFormat(1, 1),
    "int8, odd scale": F.IntFormat(8, scale=0.1),
    "int8, tiny odd scale": F.IntFormat(8, symmetric=True, scale=3e-30),
    "uint8, zero point": F.IntFormat(8, signed=False, scale=0.07, zero_point=128),
    "int32, odd scale": F.IntFormat(32, scale=3.0),
    "uint1": F.IntFormat(1, signed=False),
    "posit16_3": F.PositFormat(16, 3),
    "posit3_0": F.PositFormat(3, 0),
    "lns16": F.LogFormat(16, 8),
    "lns3": F.LogFormat(3, 0),
    "nf4-like": F.CodebookFormat(tuple(np.tanh(np.linspace(-2, 2, 16)).astype("f4").tolist())),
    "codebook out of order": F.CodebookFormat((0.5, -3.0, float("nan"), 7.0)),
}


def sources(name: str, dtype: str) -> tuple:
    """A format and its inputs: enough of them for the compiled loops."""
    fmt = EXOTIC[name] if name in EXOTIC else F.get(name)
    near = boundary(fmt, dtype)
    return fmt, np.concatenate([near[:: 1 + near.size // 40000], common(dtype)[:: 1 if name in THOROUGH else 3]])


def draws_of(rounding: F.Rounding, size: int) -> np.ndarray | None:
    return (
        counter_rng.random_bits(np, counter_rng.keys(5), 0, size, rounding.random_bits)
        if rounding.is_stochastic
        else None
    )


def by_reference(x: np.ndarray, fmt: F.Format, rounding: F.Rounding) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return reference.quantize(x, fmt.rounding_spec, rounding, draws_of(rounding, x.size)).astype(x.dtype)


def by_arrays(x: np.ndarray, fmt: F.Format, rounding: F.Rounding) -> np.ndarray:
    return array_kernels.quantize(np, x, fmt.rounding_spec, rounding, draws_of(rounding, x.size))


def by_torch(x: np.ndarray, fmt: F.Format, rounding: F.Rounding) -> np.ndarray:
    draws = draws_of(rounding, x.size)
    draws = None if draws is None else torch.from_numpy(draws)
    return array_kernels.quantize(torch, torch.from_numpy(x), fmt.rounding_spec, rounding, draws).numpy()


def by_kernel(x: np.ndarray, fmt: F.Format, rounding: F.Rounding) -> np.ndarray | None:
    out = np.empty_like(x)
    return out if prepare(fmt.rounding_spec, rounding, x.dtype.name).round_at(*addresses(x, out), x.size, 5) else None


def is_default(case: tuple[str, str]) -> bool:
    """Each kind of format in both types; the exotic ones in float32, where more loops are special."""
    name, dtype = case
    return name in EXAMPLES or (name in EXOTIC and name not in COMPILED_FOR_IT_ALONE and dtype == "float32")


@pytest.mark.parametrize(
    ("name", "dtype"), tiered(itertools.product([*ELEMENTWISE, *EXOTIC], ["float32", "float64"]), is_default)
)
def test_all_paths_agree(name, dtype):
    fmt, x = sources(name, dtype)
    assert x.size >= kernel_selection.MIN_COMPILED_SIZE
    for rounding in DETERMINISTIC + (STOCHASTIC if name in THOROUGH else STOCHASTIC[2::6]):
        want = by_reference(x, fmt, rounding)
        for path in (by_arrays, by_torch, by_kernel):
            got = path(x, fmt, rounding)
            if got is not None:
                try:
                    assert_same(got, want, x)
                    _assert_quiet(got)
                except AssertionError as error:
                    raise AssertionError(f"{path.__name__}, {rounding}: {error}") from None


def _assert_quiet(result: np.ndarray) -> None:
    """No signaling NaN: it would make the next operation of the user warn."""
    assert_quiet = result[np.isnan(result)] + 1
    assert np.isnan(assert_quiet).all()


TOO_FINE = {"posit16_1", "posit16_2"}  # two results at most among 65,536 neighbouring patterns: not these


@pytest.mark.skipif(not kernel_selection.available(), reason="numba is not installed")
def test_the_kernels_really_ran():
    """The compiled kernel really runs: the test above also passes on the array path."""
    x = np.ones(kernel_selection.MIN_COMPILED_SIZE, np.float32)
    declined = {name for name in ELEMENTWISE if by_kernel(x, F.get(name), F.Rounding()) is None}
    assert declined == TOO_FINE
