"""Invalid arguments raise one error that says what is allowed."""

import dataclasses

import numpy as np
import pytest
import torch

from lplab import formats as F
from lplab.formats import catalogue

from .probes import BLOCKED, ELEMENTWISE

E4M3 = F.get("e4m3fn")


WRONG = {
    "int array": np.arange(3),
    "bool array": np.array([True]),
    "complex array": np.array([1j]),
    "string array": np.array(["1"]),
    "object array": np.array([None]),
    "datetime array": np.array(["2026-11-21"], "M8[D]"),
    "int scalar of numpy": np.int64(3),
    "int tensor": torch.arange(3),
    "bool tensor": torch.tensor([True]),
    "complex tensor": torch.tensor([1j]),
    "float8 tensor": torch.zeros(2).to(torch.float8_e4m3fn),
    "list of strings": ["1.0"],
    "list of complex": [1j],
    "list of bool": [True],
    "list of None": [None],
    "None": None,
    "string": "1.0",
    "bool": True,
    "complex": 1j,
    "dict": {"x": 1.0},
    "set": {1.0},
}


@pytest.mark.parametrize("name", ["e4m3fn", "posit8_1", "mxfp4"])
@pytest.mark.parametrize("kind", WRONG)
def test_wrong_types(kind, name):
    """One TypeError that names what is allowed."""
    for verb in ("quantize", "encode"):
        with pytest.raises(
            TypeError, match="allowed: numpy arrays and torch tensors of float16, bfloat16, float32 or float64"
        ):
            getattr(F.get(name), verb)(WRONG[kind])


def test_ragged_list():
    with pytest.raises((TypeError, ValueError)):
        E4M3.quantize([[1.0], [1.0, 2.0]])


def test_long_double_is_refused():
    if np.longdouble is not np.float64:
        with pytest.raises(TypeError, match="allowed"):
            E4M3.quantize(np.zeros(3, np.longdouble))


@pytest.mark.parametrize("codes", [[-1], [256], np.array([300]), 256, -1, torch.tensor([256])])
def test_codes_out_of_range(codes):
    with pytest.raises(ValueError, match="must be from 0 to 255"):
        E4M3.decode(codes)


@pytest.mark.parametrize("codes", [1.0, [1.0], np.zeros(2), None, "1", [True], True, torch.zeros(2)])
def test_codes_of_a_wrong_type(codes):
    with pytest.raises(TypeError, match="codes must be integers"):
        E4M3.decode(codes)


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if not F.get(n).has_nan])
def test_nan_without_a_code(name):
    """NaN stays NaN when quantized, but encoding it is an error."""
    fmt = F.get(name)
    assert np.isnan(fmt.quantize(np.float32(np.nan)))
    with pytest.raises(ValueError, match="no code for NaN, and 1 "):
        fmt.encode([1.0, np.nan])


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("e4m3nf", "e4m3fn"),
        ("E4M3FN", "e4m3fn"),
        ("mxfp5", "mxfp4"),
        ("bf61", "bf16"),
        ("posit81", "posit8_1"),
        ("int9", "int8"),
    ],
)
def test_unknown_names_have_neighbours(name, closest):
    with pytest.raises(ValueError, match=f"unknown format '{name}'.*closest: .*{closest}"):
        F.get(name)


@pytest.mark.parametrize("kind", catalogue._KINDS)
def test_a_kind_of_formats_is_answered_with_those_of_it(kind):
    found = catalogue._KINDS[kind]
    assert set(found) <= set(F.names())
    for name in (kind, kind.upper(), kind.replace("fp", "Float")):
        with pytest.raises(ValueError, match=f"unknown format '{name}'; closest: {', '.join(found)}; the"):
            F.get(name)


@pytest.mark.parametrize("name", ["", "zzzzzz", "q", "q4", None, 7, "q-1.2"])
def test_unknown_names_without(name):
    with pytest.raises(ValueError, match="unknown format"):
        F.get(name)


def test_fixed_point_names():
    assert F.get("q8.8") == F.FixedFormat(8, 8) and F.get("q1.31").bits == 32
    for name in ("q0.4", "q40.2", "q1.0", "q33.0"):
        with pytest.raises(ValueError, match="must be"):
            F.get(name)


CONSTRUCTORS = [
    (lambda: F.FloatFormat(0, 3), "exponent_bits must be an integer from 1 to 10, got 0"),
    (lambda: F.FloatFormat(11, 3), "exponent_bits must be an integer from 1 to 10"),
    (lambda: F.FloatFormat(4, -1), "mantissa_bits must be an integer from 0 to 48"),
    (lambda: F.FloatFormat(4, 49), "mantissa_bits must be an integer from 0 to 48"),
    (lambda: F.FloatFormat(4.0, 3), "exponent_bits must be an integer"),
    (lambda: F.FloatFormat(True, 3), "exponent_bits must be an integer"),
    (lambda: F.FloatFormat(4, "3"), "mantissa_bits must be an integer"),
    (lambda: F.FloatFormat(4, 3, bias=10**6), "bias must be from"),
    (lambda: F.FloatFormat(4, 3, bias=-(10**6)), "bias must be from"),
    (lambda: F.FloatFormat(4, 3, bias=0.5), "bias must be an integer in radix 2"),
    (lambda: F.FloatFormat(4, 3, bias=0.25, radix=4), "bias must be an integer or an integer plus one half"),
    (lambda: F.FloatFormat(4, 3, bias=float("nan")), "bias must be"),
    (lambda: F.FloatFormat(4, 3, bias=float("inf")), "bias must be"),
    (lambda: F.FloatFormat(4, 3, bias="7"), "bias must be an integer"),
    (lambda: F.FloatFormat(4, 3, bias=True), "bias must be an integer"),
    (lambda: F.FloatFormat(4, 3, radix=10), "radix must be 2 or 4"),
    (lambda: F.FloatFormat(8, 23, radix=4), "radix 4 rounds by a table, so it has at most 16 bits, got 32"),
    (lambda: F.FloatFormat(4, 3, specials="iee"), "unknown specials 'iee'; allowed: ieee, fn"),
    (lambda: F.FloatFormat(1, 3), "needs exponent_bits of at least 2"),
    (lambda: F.FloatFormat(1, 0, specials="fn"), "leaves no number"),
    (lambda: F.FloatFormat(4, 3, specials="p3109", subnormals=False), "always has subnormals"),
    (lambda: F.FloatFormat(4, 3, specials="dlfloat"), "pass subnormals=False"),
    (lambda: F.FloatFormat(4, 3, specials="none", saturating=False), "no code to overflow to"),
    (lambda: F.FixedFormat(0, 4), "integer_bits must be an integer from 1 to 32"),
    (lambda: F.FixedFormat(4, -1), "fraction_bits must be an integer from 0 to 31"),
    (lambda: F.FixedFormat(20, 20), "must be from 2 to 32, got 40"),
    (lambda: F.FixedFormat(1, 0), "must be from 2 to 32, got 1"),
    (lambda: F.IntFormat(1), "bits must be an integer from 2 to 32"),
    (lambda: F.IntFormat(33), "bits must be an integer from 2 to 32"),
    (lambda: F.IntFormat(8, scale=0), "scale must be a positive number"),
    (lambda: F.IntFormat(8, scale=-1.0), "scale must be a positive number"),
    (lambda: F.IntFormat(8, scale=float("nan")), "scale must be a positive number"),
    (lambda: F.IntFormat(8, scale="1"), "scale must be a positive number"),
    (lambda: F.IntFormat(8, symmetric=True, zero_point=1), "zero_point must be an integer from 0 to 0"),
    (lambda: F.IntFormat(8, zero_point=128), "zero_point must be an integer from -128 to 127"),
    (lambda: F.IntFormat(8, symmetric=True, signed=False), "symmetric=True needs signed=True"),
    (lambda: F.PositFormat(2, 0), "bits must be an integer from 3 to 16"),
    (lambda: F.PositFormat(17, 1), "bits must be an integer from 3 to 16"),
    (lambda: F.PositFormat(8, 4), "exponent_size must be an integer from 0 to 3"),
    (lambda: F.LogFormat(2, 0), "bits must be an integer from 3 to 16"),
    (lambda: F.LogFormat(8, 7), "fraction_bits must be an integer from 0 to 6"),
    (lambda: F.LogFormat(16, 3), "fraction_bits must be an integer from 8 to 14"),
    (lambda: F.CodebookFormat((1.0,)), "needs 2, 4, 8"),
    (lambda: F.CodebookFormat((1.0, 2.0, 3.0)), "needs 2, 4, 8"),
    (lambda: F.CodebookFormat((0.0, float("inf"))), "finite or NaN"),
    (lambda: F.CodebookFormat((0.0, -1.0)), "at least one of them positive"),
    (lambda: F.CodebookFormat((1.0, 1.0)), "at least two different"),
    (lambda: F.BlockFormat(F.get("posit8_1")), "element must be"),
    (lambda: F.BlockFormat(F.get("e5m2")), "element must be a saturating"),
    (lambda: F.BlockFormat("e2m1"), "element must be"),
    (lambda: F.BlockFormat(F.get("e2m1"), block_size=1), "block_size must be an integer from 2 to 1024"),
    (lambda: F.BlockFormat(F.get("e2m1"), block_size=2.5), "block_size must be an integer"),
    (
        lambda: F.BlockFormat(F.get("e2m1"), scale_rule="round"),
        "unknown scale_rule 'round'; allowed: floor, even, ceil, rceil",
    ),
    (lambda: F.BlockFormat(F.get("e2m1"), scale=F.get("e4m3fn")), "must be E8M0"),
    (lambda: F.BlockFormat(F.get("e2m1"), tensor_scale=True), "needs a FloatFormat as scale"),
    (lambda: F.Rounding("nearest"), "unknown rounding 'nearest'; allowed: nearest_even"),
    (lambda: F.Rounding("stochastic", 0), "random_bits must be an integer from 1 to 24, got 0"),
    (lambda: F.Rounding("stochastic", 25), "random_bits must be an integer from 1 to 24"),
    (lambda: F.Rounding("stochastic", True), "random_bits must be an integer from 1 to 24"),
    (lambda: F.Rounding("stochastic", 8, "D"), "unknown stochastic variant 'D'; allowed: A, B, C"),
    (lambda: E4M3.quantize(1.0, "up "), "unknown rounding 'up '; allowed"),
    (lambda: E4M3.quantize(1.0, None), "unknown rounding None; allowed"),
    (lambda: E4M3.quantize(1.0, "stochastic", random_bits=99), "random_bits must be"),
    (lambda: F.get("fp32").codebook(), "codebook\\(\\) lists at most 2\\^20"),
    (lambda: dataclasses.replace(E4M3, bias=5000), "bias must be from"),
]


@pytest.mark.parametrize(("make", "message"), CONSTRUCTORS, ids=[message for _, message in CONSTRUCTORS])
def test_one_clear_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", [*ELEMENTWISE, *BLOCKED])
def test_formats_are_values(name):
    """Frozen, hashable, equal to their copies, picklable, and copied after use."""
    import copy
    import pickle

    fmt = F.get(name)
    fmt.quantize(1.0)
    for twin in (pickle.loads(pickle.dumps(fmt)), copy.deepcopy(fmt), dataclasses.replace(fmt)):
        assert twin == fmt and hash(twin) == hash(fmt) and twin.quantize(1.3) == fmt.quantize(1.3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        fmt.name = "other"
    assert fmt.label and str(fmt) and fmt.describe()["name"] == fmt.label == name


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e5m2fnuz"])
def test_formats_answer_to_the_names_of_pytorch(dtype):
    torch = pytest.importorskip("torch")
    info = torch.finfo(getattr(torch, dtype))
    assert (F.get(dtype).bits, F.get(dtype).max) == (info.bits, info.max)
