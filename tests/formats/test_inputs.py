"""Inputs of every shape, stride, dtype and byte order, and ``out`` of every kind; errors for invalid ones."""

import sys
from decimal import Decimal
from fractions import Fraction
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest
import torch

from lplab import formats as F
from lplab.formats.paths import numba_kernels
from tests.kinds import by_kind, pairs

from . import exact
from .probes import ELEMENTWISE, assert_same, bfloat16_patterns

E4M3 = F.get("e4m3fn")


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(1).standard_normal(shape) * 20).astype(dtype)


def test_numbers_are_rounded_while_another_thread_imports_torch(monkeypatch):
    """A live run imports it in a thread: then it is among the modules, and has no contents yet."""
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    assert E4M3.quantize(0.3) == 0.3125 and E4M3.quantize([0.3, 1]).tolist() == [0.3125, 1]
    assert numba_kernels.default_threads() >= 1


# -- shapes, strides, byte order -----------------------------------------------------------------------------------


VIEWS = {
    "0-d": lambda: np.array(numbers(1)[0]),
    "empty": lambda: numbers(0),
    "empty 2-d": lambda: numbers(3, 0),
    "one": lambda: numbers(1),
    "5-d": lambda: numbers(2, 3, 4, 5, 2),
    "every third": lambda: numbers(100)[::3],
    "backwards": lambda: numbers(100)[::-1],
    "transposed": lambda: numbers(30, 40).T,
    "Fortran order": lambda: np.asfortranarray(numbers(30, 40)),
    "broadcast": lambda: np.broadcast_to(numbers(40), (30, 40)),
    "column": lambda: numbers(30, 40)[:, 7],
    "unaligned": lambda: np.frombuffer(b"\0" + numbers(50).tobytes(), np.float32, offset=1),
    "large, strided": lambda: numbers(2**10, 2**7)[:, ::2],
    "large, transposed": lambda: numbers(2**9, 2**8).T,
}


DTYPES = ["float32", "float64", "float16", ">f4", ">f8", "bfloat16"]


@pytest.mark.parametrize(("view", "dtype", "name"), pairs(list(VIEWS), DTYPES, ["e4m3fn", "posit8_1", "int8", "mxfp4"]))
def test_any_view(view, dtype, name):
    """The same as on a plain copy; shape kept, dtype kept (in native byte order), the input not touched."""
    fmt = F.get(name)
    x = VIEWS[view]()
    x = np.asarray(x, ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    before = x.copy()
    got = fmt.quantize(x)
    want = fmt.quantize(np.array(x, np.float64 if "8" in dtype or dtype == "float64" else np.float32, order="C"))
    assert isinstance(got, np.ndarray) and got.shape == x.shape and got.dtype == x.dtype.newbyteorder("=")
    assert_same(got.astype(np.float64), want.astype(got.dtype).astype(np.float64), np.asarray(x, np.float64))
    np.testing.assert_array_equal(x, before)


TORCH_VIEWS = {
    "0-d": lambda x: x[0, 0],
    "empty": lambda x: x[:0],
    "transposed": lambda x: x.T,
    "every third": lambda x: x[:, ::3],
    "expanded": lambda x: x[:, :1].expand(-1, 50),
    "channels last": lambda x: x.reshape(2, 4, 8, 16).contiguous(memory_format=torch.channels_last),
}


TORCH_DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.mark.parametrize(
    ("view", "dtype", "name"), pairs(list(TORCH_VIEWS), TORCH_DTYPES, ["e4m3fn", "posit8_1", "mxfp4"])
)
def test_any_torch_view(view, dtype, name):
    fmt = F.get(name)
    x = TORCH_VIEWS[view](torch.from_numpy(numbers(16, 64)).to(dtype))
    got = fmt.quantize(x)
    assert got.shape == x.shape and got.dtype == x.dtype and got.device == x.device and not got.requires_grad
    wide = x.double() if dtype == torch.float64 else x.float()
    want = torch.from_numpy(np.asarray(fmt.quantize(wide.contiguous().numpy()))).to(dtype)
    assert torch.equal(got, want)
    codes = F.get("e4m3fn").encode(x)
    assert codes.shape == x.shape and codes.dtype == torch.uint8


def test_lazily_negated_tensor():
    """torch keeps the minus sign of a conjugate's imaginary part in a flag; .numpy() raises an error there."""
    x = torch.from_numpy(numbers(64))
    view = torch.complex(x, x).conj().imag
    assert view.is_neg() and torch.equal(E4M3.quantize(view), E4M3.quantize(-x))
    assert torch.equal(E4M3.encode(view), E4M3.encode(-x))
    assert E4M3.quantize(view, out=view) is view and torch.equal(view, E4M3.quantize(-x))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", by_kind(ELEMENTWISE))
def test_half_precision_input(name, dtype):
    """Every number of the type: computed in float32, then cast as a cast would."""
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    x = np.arange(2**16, dtype=np.uint16).view(kind)
    with np.errstate(over="ignore", invalid="ignore"):
        want = F.get(name).quantize(x.astype(np.float32)).astype(kind)
        got = F.get(name).quantize(x)
    assert got.dtype == kind
    assert_same(got.astype(np.float32), want.astype(np.float32), bfloat16_patterns())
    in_torch = torch.from_numpy(x.view(np.int16)).view(getattr(torch, dtype))
    assert_same(F.get(name).quantize(in_torch).float().numpy(), want.astype(np.float32), bfloat16_patterns())


def test_scalars_and_lists():
    assert E4M3.quantize(0.3) == 0.3125 and type(E4M3.quantize(0.3)) is float
    assert E4M3.quantize(3) == 3.0 and type(E4M3.quantize(3)) is float
    assert type(E4M3.quantize(np.float32(0.3))) is np.float32 and type(E4M3.quantize(np.float64(0.3))) is np.float64
    assert type(E4M3.quantize(np.float16(0.3))) is np.float16
    assert E4M3.quantize([0.3, 1000]).tolist() == [0.3125, 448] and E4M3.quantize([]).shape == (0,)
    assert E4M3.quantize([[1, 2.0], (3.3, 4)]).shape == (2, 2) and E4M3.quantize((1.05,)).dtype == np.float64
    assert type(E4M3.encode(0.3)) is int and E4M3.encode([0.3]).dtype == np.uint8
    assert type(E4M3.decode(42)) is float and E4M3.decode([42]).tolist() == [0.3125]
    assert E4M3.decode(np.uint8(42)) == 0.3125 and E4M3.decode([]).shape == (0,)
    assert F.get("fp16").encode([1.0]).dtype == np.uint16 and F.get("tf32").encode([1.0]).dtype == np.uint32
    for bits, dtype in ((8, torch.uint8), (16, torch.int32), (32, torch.int64)):
        fmt = F.IntFormat(bits, signed=False)
        assert fmt.encode(torch.tensor([1.0])).dtype == dtype
        assert fmt.decode(fmt.encode(torch.tensor([200.0]))).tolist() == [200.0]


ROUNDINGS = [mode for mode in F.ROUNDINGS if mode != "stochastic"]
LARGE_INTS = [2**53 + 1, 2**63 - 1, 2**64 + 1, 3 * 2**70 + 1, 2**127 + 2**119 + 1, 2**127 + 2**119 - 1, 10**30, 10**400]


@pytest.mark.parametrize("name", ["bf16", "e5m2", "binary8p1ue", "posit8_2"])
def test_large_ints_are_rounded_once(name):
    """Against the exact integer, in every mode; alone, in lists and as codes."""
    fmt = F.get(name)
    ruler = exact.posit_ruler(fmt) if name.startswith("posit") else exact.float_ruler(fmt)
    for mode in ROUNDINGS:
        for number in LARGE_INTS if fmt.min == 0 else [*LARGE_INTS, *(-n for n in LARGE_INTS)]:
            size = float(exact.round_magnitude(Fraction(abs(number)), ruler, mode, number < 0))
            got = fmt.quantize(number, mode)
            assert type(got) is float and got == (-size if number < 0 else size)
            assert fmt.quantize([[number, 1], [0.5, 2]], mode)[0, 0] == got == fmt.decode(fmt.encode(number, mode))


def test_ints_next_to_ties():
    """Half-way between two float32 numbers lies 2^24 + 1; a large multiple of it, one more or less, decides the tie."""
    tie = (2**24 + 1) << 60
    assert [F.get("fp32").quantize(tie + d) / 2.0**60 - 2**24 for d in (-1, 0, 1)] == [0, 0, 2]
    assert [F.get("fp32").quantize([-tie + d])[0] / 2.0**60 + 2**24 for d in (-1, 0, 1)] == [-2, 0, 0]
    assert (
        F.get("fp32").quantize(2**60 + 1, "up") == 2.0**60 + 2.0**37 and F.get("fp32").quantize(-(10**400)) == -np.inf
    )
    assert F.get("int8").quantize(10**400) == 127 and E4M3.quantize([np.int64(2**60 + 1), 17]).tolist() == [448, 16]


REFUSED = {
    "bool": lambda: True,
    "a list with bool": lambda: [True, 0.5],
    "a tuple with bool": lambda: ([0.5, np.bool_(True)],),
    "complex": lambda: 1j,
    "Fraction": lambda: Fraction(1, 3),
    "a list with Decimal": lambda: [Decimal("0.1")],
    "a list with str": lambda: ["1.5"],
    "str": lambda: "1.5",
    "NoneType": lambda: None,
    "a list with longdouble": lambda: [np.longdouble(1) / 3],
    "a ragged list": lambda: [[1.0], [2.0, 3.0]],
    "elements of type int64": lambda: np.int64(3),
    "elements of type uint64": lambda: np.array([2**63], np.uint64),
    "elements of type bool": lambda: torch.tensor([True]),
    "elements of type complex64": lambda: torch.tensor([1j]),
    "elements of type object": lambda: np.array([1.5, 2**70], object),
    "elements of type qint8": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    "a tensor of sparse_coo layout": lambda: torch.eye(3).to_sparse(),
    "a tensor of sparse_csr layout": lambda: torch.eye(3).to_sparse_csr(),
    "a tensor of nested layout": lambda: torch.nested.nested_tensor(
        [torch.ones(2), torch.ones(4)], layout=torch.jagged
    ),
    "a tensor of mkldnn layout": lambda: torch.eye(3).to_mkldnn(),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("name", ["e4m3fn", "mxfp4"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_numbers_are_refused(name, what):
    """One line that names what it is and says what is allowed."""
    for call in (F.get(name).quantize, F.get(name).encode):
        with pytest.raises((TypeError, ValueError), match=f"^cannot quantize {what}.*allowed: ") as caught:
            call(REFUSED[what]())
        assert "\n" not in str(caught.value)


def test_straight_through_and_other_array_likes():
    with pytest.raises(TypeError, match="sparse_coo layout"):
        F.straight_through(E4M3, torch.eye(3).to_sparse().requires_grad_())
    with pytest.raises(TypeError, match="convert it with numpy.asarray"):
        E4M3.quantize(type("Column", (), {"__array__": lambda self, dtype=None, copy=None: np.ones(2)})())


def test_subclasses_of_ndarray():
    """They give plain arrays: np.matrix, too, whose reshape keeps two axes."""
    for kind in (np.recarray, np.matrix, np.memmap):
        x = numbers(4, 4).view(kind) if kind is not np.memmap else numbers(4, 4)
        for fmt in (E4M3, F.get("mxfp4"), F.BlockFormat(F.get("e2m1"), block_size=(2, 4))):
            got = fmt.quantize(x)
            assert type(got) is np.ndarray
            assert_same(got, fmt.quantize(np.array(x)), np.array(x))


@pytest.mark.parametrize("fmt", [E4M3, F.get("mxfp4"), F.BlockFormat(F.get("e2m1"), block_size=(2, 4))], ids=str)
def test_masked_arrays(fmt):
    """The mask stays; masked numbers stay, too, and do not count in the scale of a block."""
    x = np.ma.MaskedArray(numbers(4, 8), mask=np.arange(32).reshape(4, 8) % 5 == 0, fill_value=7)
    x.data[x.mask] = [1e30, np.nan, np.inf, -1e9, 3, 3, 3]
    got = fmt.quantize(x)
    assert isinstance(got, np.ma.MaskedArray) and (got.mask == x.mask).all() and got.fill_value == 7
    assert_same(got.filled(0), np.where(x.mask, 0, fmt.quantize(x.filled(0))), x.filled(0))
    np.testing.assert_array_equal(got.data[x.mask], x.data[x.mask])
    got.mask[0, 1] = True
    assert not x.mask[0, 1]
    out = x.copy()
    assert fmt.quantize(x, out=out) is out
    assert_same(out.filled(0), fmt.quantize(x).filled(0), x.filled(0))
    with pytest.raises(TypeError, match="lose its mask"):
        fmt.encode(x)
    assert fmt.quantize(np.ma.masked) is np.ma.masked
    with pytest.raises(TypeError, match="lose its mask"):
        fmt.quantize([x, x])


# -- out -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [100, 2**16 + 3])
@pytest.mark.parametrize("name", ["e4m3fn", "bf16", "posit8_1", "posit16_1", "int8", "mxfp4", "nvfp4"])
def test_out(name, count):
    """``out`` may be new, x itself, strided or overlapping: out itself is returned, with the same bits."""
    fmt, x = F.get(name), numbers(count)
    want = fmt.quantize(x)
    for make in (
        np.empty_like,
        lambda v: np.empty(2 * v.size, v.dtype)[::2],
        lambda v: np.empty(v.size, v.dtype)[::-1],
    ):
        out = make(x)
        assert fmt.quantize(x, out=out) is out
        assert_same(out, want, x)
    here = x.copy()
    assert fmt.quantize(here, out=here) is here
    assert_same(here, want, x)
    for shift in (1, 7, -1, -7):
        buffer = np.concatenate([np.zeros(7, np.float32), x, np.zeros(7, np.float32)])
        out = buffer[7 + shift : 7 + shift + count]
        assert fmt.quantize(buffer[7 : 7 + count], out=out) is out
        assert_same(out, want, x)
    for seed_mode in ("stochastic",):
        here = x.copy()
        fmt.quantize(here, seed_mode, seed=1, out=here)
        assert_same(here, fmt.quantize(x, seed_mode, seed=1), x)


@pytest.mark.parametrize("count", [100, 2**16 + 3])
@pytest.mark.parametrize("name", ["e4m3fn", "posit8_1", "mxfp4"])
def test_torch_out(name, count):
    fmt, x = F.get(name), torch.from_numpy(numbers(count))
    want = fmt.quantize(x)
    for make in (torch.empty_like, lambda v: torch.empty(2 * v.numel())[::2]):
        out = make(x)
        assert fmt.quantize(x, out=out) is out and torch.equal(out, want)
    here = x.clone()
    assert fmt.quantize(here, out=here) is here and torch.equal(here, want)
    buffer = torch.cat([torch.zeros(3), x])
    fmt.quantize(buffer[3:], out=buffer[1 : 1 + count])
    assert torch.equal(buffer[1 : 1 + count], want)
    half = x.to(torch.bfloat16)
    assert fmt.quantize(half, out=half) is half and torch.equal(half, fmt.quantize(x.to(torch.bfloat16)))


def test_out_of_other_byte_order_and_type():
    x = numbers(50).astype(">f4")
    out = np.empty_like(x)
    assert E4M3.quantize(x, out=out) is out
    assert_same(out.astype("f4"), E4M3.quantize(x.astype("f4")), x)
    half = numbers(50).astype(np.float16)
    assert E4M3.quantize(half, out=half) is half


@pytest.mark.parametrize(
    ("x", "out"),
    [
        (np.zeros(3), np.zeros(4)),
        (np.zeros(3), np.zeros(3, np.float32)),
        (np.zeros(3), [0, 0, 0]),
        (np.zeros(3), torch.zeros(3)),
        (1.0, np.zeros(1)),
        ([1.0], np.zeros(1)),
        (torch.zeros(3), torch.zeros(4)),
        (torch.zeros(3), torch.zeros(3, dtype=torch.float64)),
        (torch.zeros(3), np.zeros(3, np.float32)),
        (torch.zeros(3, requires_grad=True), torch.zeros(3)),
        (torch.zeros(3), torch.zeros(3, requires_grad=True)),
    ],
)
def test_out_that_does_not_fit(x, out):
    with pytest.raises((ValueError, TypeError), match="out"):
        E4M3.quantize(x, out=out)


def test_read_only():
    x = numbers(10)
    x.flags.writeable = False
    assert_same(E4M3.quantize(x), E4M3.quantize(x.copy()), x)
    with pytest.raises(ValueError, match="read-only|writeable"):
        E4M3.quantize(x, out=x)


# -- gradients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["e4m3fn", "posit8_1", "mxfp4", "nvfp4", "int8"])
def test_gradients_pass_straight_through(name):
    fmt = F.get(name)
    x = torch.from_numpy(numbers(64)).requires_grad_()
    for y in (fmt.quantize(x), F.straight_through(fmt, x)):
        assert torch.equal(y, fmt.quantize(x.detach())) and y.requires_grad
        weight = torch.arange(64.0)
        (gradient,) = torch.autograd.grad((y * weight).sum(), x)
        assert torch.equal(gradient, weight)
    with torch.no_grad():
        assert not fmt.quantize(x).requires_grad


def test_clipped_gradients():
    x = torch.tensor([-500.0, -448, -0.3, 0, 448, 460, float("nan")], requires_grad=True)
    F.straight_through(E4M3, x, clip=True).sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 1, 0, 0]


def test_straight_through_keeps_seed_and_double_backward():
    x = torch.from_numpy(numbers(1000)).requires_grad_()
    a, b = (F.straight_through(E4M3, x, "stochastic", seed=4) for _ in range(2))
    assert torch.equal(a, b) and torch.equal(a, E4M3.quantize(x.detach(), "stochastic", seed=4))
    (first,) = torch.autograd.grad((F.straight_through(E4M3, x) ** 2).sum(), x, create_graph=True)
    assert first.requires_grad
    with pytest.raises(TypeError, match="torch tensor"):
        F.straight_through(E4M3, numbers(3))
