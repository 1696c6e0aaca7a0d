"""Accepted inputs, the results for them, and the error messages for everything else."""

import numpy as np
import pytest
import torch

from lplab import arithmetic, formats
from lplab.arithmetic import Accumulator, dot, gemm, matmul, reference_sums
from lplab.formats.paths import kernel_selection

from .operands import assert_same, operand

WAY = Accumulator("dlfloat16", chunk=4)
SHAPES = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((2, 3), (3, 0)),
    ((0,), (0,)),
    ((0, 2, 3), (3, 4)),
]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_shapes_are_those_of_torch(left, right, kind):
    """Small integers have exact sums."""
    rng = np.random.default_rng(0)
    a, b = operand("small", left, rng), operand("small", right, rng)
    want = torch.matmul(torch.from_numpy(a), torch.from_numpy(b))
    got = matmul(a, b, WAY) if kind == "numpy" else matmul(torch.from_numpy(a), torch.from_numpy(b), WAY)
    assert isinstance(got, np.ndarray | np.generic if kind == "numpy" else torch.Tensor)
    assert tuple(got.shape) == tuple(want.shape)
    assert (np.asarray(got) == want.numpy()).all()
    if 0 in left[-1:]:
        assert not np.signbit(np.asarray(got)).any()  # an empty sum is +0


def layouts(x: np.ndarray) -> list[np.ndarray]:
    """The same numbers in other memory layouts."""
    spaced = np.zeros((2 * x.shape[0], 3 * x.shape[1]), x.dtype)
    spaced[::2, 1::3] = x
    return [np.asfortranarray(x), x.T.copy().T, spaced[::2, 1::3], x[::-1].copy()[::-1], x.astype(">f4")]


@pytest.mark.parametrize("rounding", ["nearest_even", "stochastic"])
def test_strides_and_byte_order(rounding):
    rng = np.random.default_rng(1)
    a, b = operand("dlfloat", (6, 40), rng), operand("fp8", (40, 5), rng)
    want = matmul(a, b, WAY.format, rounding=rounding, seed=1)
    for other_a, other_b in zip(layouts(a), layouts(b), strict=True):
        got = matmul(other_a, other_b, WAY.format, rounding=rounding, seed=1)
        assert_same(got, want)
        assert got.dtype == np.float32 and got.dtype.isnative


def test_views_of_torch():
    a, b = torch.randn(6, 40).t(), torch.randn(5, 6).mT
    assert torch.equal(matmul(a, b, WAY), matmul(a.contiguous(), b.contiguous(), WAY))
    conjugate = torch.complex(torch.randn(4, 4), torch.randn(4, 4)).conj().imag  # a minus sign that memory lacks
    assert torch.equal(matmul(conjugate, torch.eye(4), "fp32"), conjugate.clone())
    expanded = torch.randn(4, 1).expand(4, 7)
    assert torch.equal(matmul(expanded, torch.ones(7, 2), WAY), matmul(expanded.clone(), torch.ones(7, 2), WAY))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes(dtype):
    dtype = getattr(torch, dtype)
    a, b = torch.randn(3, 20).to(dtype), torch.randn(20, 4).to(dtype)
    if dtype == torch.float64:
        a, b = a.float().double(), b.float().double()
    got = matmul(a, b, "e5m2")
    assert got.dtype == dtype
    assert_same(got.double(), reference_sums.matmul(a.double().numpy(), b.double().numpy(), Accumulator("e5m2")))
    if dtype != torch.bfloat16:
        assert_same(matmul(a.numpy(), b.numpy(), "e5m2"), got.double())
        assert matmul(a.numpy(), b.numpy(), "e5m2").dtype == a.numpy().dtype


def test_mixed_dtypes_are_promoted():
    half, single = torch.ones(2, 2, dtype=torch.float16), torch.ones(2, 2)
    assert matmul(half, single, WAY).dtype == torch.float32
    assert matmul(half.numpy(), single.double().numpy(), WAY).dtype == np.float64


def test_ml_dtypes_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.ones((2, 3), ml_dtypes.bfloat16)
    got = matmul(a, a.T, "fp16")
    assert got.dtype == a.dtype and (got.astype(np.float32) == 3).all()


def test_results_are_rounded_to_the_dtype():
    """As a cast would: 70,000 is a number of 1-6-9 but not of half precision."""
    x = np.full((1, 2), 187, np.float16)
    assert matmul(x, x.T, "dlfloat16")[0, 0] == np.inf
    assert matmul(x.astype(np.float32), x.T.astype(np.float32), "dlfloat16")[0, 0] == 69888


def test_lists_and_numbers():
    assert dot([1.0, 2.0], (3, 4), "dlfloat16") == 11.0
    assert isinstance(dot([1.0, 2.0], [3.0, 4.0], "dlfloat16"), float)
    assert matmul([[1, 2]], [[3], [4]], "dlfloat16").tolist() == [[11.0]]


@pytest.mark.parametrize("no_loops", [False, True])
def test_special_values(no_loops, monkeypatch):
    if no_loops:
        monkeypatch.setattr(kernel_selection, "loops_are_on", False)
    inf, nan = np.inf, np.nan
    rows = [
        [inf, 1, 1],
        [inf, -inf, 1],
        [nan, 0, 0],
        [3e38, 3e38, 0],
        [1e-20, 0, 0],
        [-1e-20, 0, 0],
        [-0.0, -0.0, -0.0],
    ]
    a, b = np.array(rows, np.float32), np.ones((3, 200), np.float32)
    for name in ("dlfloat16", "bf16", "e4m3fn", "binary8p3", "q8.8"):
        want = reference_sums.matmul(a.astype(float), b[:, :1].astype(float), Accumulator(name))
        for column in (0, 199):
            assert_same(matmul(a, b, name)[:, column : column + 1], want)


# -- operands -------------------------------------------------------------------------------------------------------


def test_operand_formats():
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((3, 64)).astype(np.float32), rng.standard_normal((64, 5)).astype(np.float32)
    e4, e5, mx = (formats.get(name) for name in ("e4m3fn", "e5m2", "mxfp4"))
    assert_same(matmul(a, b, WAY, operands="e4m3fn"), matmul(e4.quantize(a), e4.quantize(b), WAY))
    assert_same(matmul(a, b, WAY, operands=("e4m3fn", e5)), matmul(e4.quantize(a), e5.quantize(b), WAY))
    assert_same(matmul(a, b, WAY, operands=(None, "e5m2")), matmul(a, e5.quantize(b), WAY))
    along_k = matmul(mx.quantize(a), mx.quantize(np.ascontiguousarray(b.T)).T, WAY)
    assert_same(matmul(a, b, WAY, operands="mxfp4"), along_k)


def test_float64_products_must_be_exact():
    third = np.full((2, 2), 1 / 3)
    with pytest.raises(
        ValueError, match="products of these float64 operands may not be exact: they have up to 106 bits"
    ):
        matmul(third, third, "dlfloat16")
    assert (
        matmul(third, third, "dlfloat16", operands="fp32")[0, 0]
        == matmul(np.float32(third), np.float32(third), "dlfloat16")[0, 0]
    )
    assert matmul(third, np.eye(2), "dlfloat16")[0, 0] == formats.get("dlfloat16").quantize(1 / 3)
    with pytest.raises(ValueError, match="may not be exact"):
        matmul(np.array([[5e-324]]), np.ones((1, 1)), "dlfloat16")
    with pytest.raises(ValueError, match="may not be exact"):
        matmul(torch.full((1, 1), 1e300, dtype=torch.float64), torch.full((1, 1), 1e300, dtype=torch.float64), "fp32")


def test_products_of_float32_are_always_exact():
    """Also the smallest: 2^−149 squared is a normal float64."""
    tiny = np.full((1, 1), 2.0**-149, np.float32)
    assert matmul(tiny, tiny, "bf16", rounding="up")[0, 0] == np.float32(2.0**-133)
    near = np.array([[1 + 2.0**-23]], np.float32)
    assert (1 + 2.0**-23) ** 2 > 1 + 2.0**-22
    assert matmul(near, near, "fp32", rounding="down")[0, 0] == np.float32(1 + 2.0**-22)
    assert matmul(near, near, "fp32", rounding="up")[0, 0] == np.float32(1 + 2.0**-22 + 2.0**-23)


# -- gradients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("left", "right"), SHAPES[:9], ids=str)
def test_gradients(left, right):
    rng = np.random.default_rng(5)
    a, b = (torch.from_numpy(operand("small", shape, rng)).requires_grad_() for shape in (left, right))
    other_a, other_b = (x.detach().clone().requires_grad_() for x in (a, b))
    matmul(a, b, "fp32").square().sum().backward()
    torch.matmul(other_a, other_b).square().sum().backward()
    assert torch.equal(a.grad, other_a.grad) and torch.equal(b.grad, other_b.grad)


def test_gradients_are_rounded_too():
    a, b = torch.ones(1, 1, requires_grad=True), torch.ones(1, 5000)
    matmul(a, b, "dlfloat16").sum().backward()
    assert a.grad.item() == 1024  # 5000 ones, one after the other


# -- errors ---------------------------------------------------------------------------------------------------------

ONES = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: matmul(ONES, np.ones((3, 2)), WAY), ValueError, r"shapes \(2, 2\) and \(3, 2\) do not fit: 2 columns"),
    (lambda: matmul(np.ones((2, 2, 2)), np.ones((3, 2, 2)), WAY), ValueError, "their batches do not broadcast"),
    (lambda: matmul(np.float32(1), ONES, WAY), TypeError, "cannot multiply float32; allowed: numpy arrays"),
    (lambda: matmul(np.ones(()), ONES, WAY), ValueError, "needs at least one dimension"),
    (lambda: matmul(ONES.astype(int), ONES, WAY), TypeError, "elements of type int64"),
    (lambda: matmul(ONES, torch.ones(2, 2), WAY), TypeError, "both must be torch tensors"),
    (lambda: matmul("a", ONES, WAY), TypeError, "cannot multiply str"),
    (lambda: matmul(ONES, ONES, "dlfloat61"), ValueError, "unknown format 'dlfloat61'; closest: dlfloat16"),
    (lambda: matmul(ONES, ONES, 16), TypeError, "expected a format of lplab.formats or its name, got int"),
    (lambda: matmul(ONES, ONES, "mxfp4"), ValueError, "its numbers share scales"),
    (lambda: matmul(ONES, ONES, "e8m0"), ValueError, "no zero to start from"),
    (lambda: matmul(ONES, ONES, WAY, chunk=2), ValueError, "the Accumulator already decides chunk"),
    (lambda: matmul(ONES, ONES, "bf16", chunk=0), ValueError, "chunk must be None or an integer of at least 1"),
    (lambda: matmul(ONES, ONES, "bf16", chunk=2.0), ValueError, "chunk must be None or an integer of at least 1"),
    (lambda: matmul(ONES, ONES, "bf16", outer="fp32"), ValueError, "pass chunk, too"),
    (lambda: matmul(ONES, ONES, "bf16", product="fp16"), ValueError, "pass fma=False, too"),
    (lambda: matmul(ONES, ONES, "bf16", fma="no"), ValueError, "fma must be True or False"),
    (lambda: matmul(ONES, ONES, "bf16", rounding="nearest"), ValueError, "unknown rounding 'nearest'"),
    (lambda: matmul(ONES, ONES, "bf16", threads=0), ValueError, "threads must be None or an integer of at least 1"),
    (lambda: matmul(ONES, ONES, "bf16", operands=("bf16",)), ValueError, "a pair of formats, got 1"),
    (lambda: matmul(ONES, ONES, "bf16", operands=3), TypeError, "operands must be formats"),
    (lambda: matmul(ONES, ONES, "bf16", rounding="stochastic", seed="x"), TypeError, "seed must be an integer"),
    (lambda: dot(ONES, ONES, WAY), ValueError, r"two vectors of equal length, got shapes \(2, 2\) and \(2, 2\)"),
    (lambda: dot([1.0], [1.0, 2.0], WAY), ValueError, "two vectors of equal length"),
    (lambda: arithmetic.sum(ONES, WAY, axis=2), ValueError, "axis must be None or an integer from -2 to 1, got 2"),
    (lambda: arithmetic.sum("no", WAY), TypeError, "cannot multiply str"),
    (lambda: arithmetic.kahan_sum(torch.ones(2, requires_grad=True), "bf16"), ValueError, "have no gradient"),
    (
        lambda: Accumulator(formats.FloatFormat(5, 40), rounding=formats.Rounding("stochastic", 16)),
        ValueError,
        "exact with at most 10 random bits",
    ),
])  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_too_many_elements_for_their_random_bits():
    with pytest.raises(ValueError, match="random bits for 2\\^32 elements"):
        gemm.check_size((2**20, 2**13), Accumulator("bf16", rounding="stochastic"))
    gemm.check_size((2**20, 2**13), Accumulator("bf16"))


def test_accumulators_are_data():
    one = Accumulator("dlfloat16", chunk=64, rounding="nearest_away")
    assert one == Accumulator(formats.get("dlfloat16"), chunk=np.int64(64), rounding=formats.Rounding("nearest_away"))
    assert len({one, Accumulator("dlfloat16", chunk=64, rounding="nearest_away")}) == 1
    assert eval(repr(one)) == one
    assert one.outer_format == one.product_format == formats.get("dlfloat16")
