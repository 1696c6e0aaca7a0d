"""Comparisons of the GPU's path with numpy's, which tests/interpreted.py runs.

Each takes the name of a format, a device, and how many numbers of each kind of input there are at most.
"""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from lplab import formats as F
from lplab.formats.block_format import E8M0
from lplab.formats.rounding_spec import Table
from lplab.training.emulation.prepared_rounding import DualRounding
from tests import golden
from tests.formats import probes
from tests.interpreted import launches

HALVES = ("float16", "bfloat16")
FEW_ROUNDINGS = [golden.ROUNDINGS[name] for name in ("nearest_even", "up", "stochastic, C, 16 bits")]


def cases(name: str, device: str) -> Iterator[tuple[str, F.Rounding]]:
    """Types of numbers and roundings: float32 in every rounding, the others in few, where there are many of a kind."""
    if device == "cpu" and name not in F.names():  # fields of a format that the catalogue does not have
        roundings = golden.ROUNDINGS.values() if name in golden.ELEMENTWISE else FEW_ROUNDINGS
        yield from (("float32", rounding) for rounding in roundings)
        return
    for dtype in ("float32", "float64", *HALVES):
        if dtype != "bfloat16" or device != "cpu":  # Triton's interpreter cuts bfloat16 off, where a GPU rounds
            for rounding in golden.ROUNDINGS.values() if dtype == "float32" else FEW_ROUNDINGS:
                yield dtype, rounding


def tensor(x: np.ndarray, dtype: str, device: str) -> tuple[torch.Tensor, np.ndarray]:
    """Numbers as a tensor, and the same numbers as an array of a type that numpy has."""
    with np.errstate(over="ignore"):
        on_device = torch.from_numpy(x).to(getattr(torch, dtype)).to(device)
    plain = on_device.cpu()
    return on_device, (plain.float() if dtype in HALVES else plain).numpy()


def assert_same(got: torch.Tensor, want: np.ndarray, x: np.ndarray) -> None:
    """The bits of numpy's result, rounded to the type of the tensor."""
    want = torch.from_numpy(want).to(got.dtype).to(torch.float64).numpy()
    probes.assert_same(got.cpu().to(torch.float64).numpy(), want, x)


def numbers() -> np.ndarray:
    """Special numbers and random patterns."""
    with np.errstate(invalid="ignore"):
        return np.concatenate([probes.specials(), probes.random_patterns()]).astype(np.float64)


def rounding(name: str, device: str, count: int) -> None:
    """A format in every rounding, for every type of numbers."""
    fmt = golden.ELEMENTWISE[name]
    x = np.concatenate([golden._thinned(part, count) for part in (probes.boundary(fmt, "float64"), numbers())])
    for dtype, how in cases(name, device):
        on_device, plain = tensor(x, dtype, device)
        with launches() as names:
            got = fmt.quantize(on_device, how, seed=3)
        needs_no_kernel = isinstance(fmt.rounding_spec, Table) and (
            how.is_stochastic or dtype == "float64" or fmt.bits > 8 or how.mode == "to_odd"
        )
        assert names == ["elementwise"] or (needs_no_kernel and not names)
        assert_same(got, fmt.quantize(plain, how, seed=3), plain)


def codes(name: str, device: str, count: int) -> None:
    """Codes and their values; the error where a number has no code."""
    fmt = golden.ELEMENTWISE[name]
    x = np.concatenate([golden._thinned(part, count) for part in (probes.boundary(fmt, "float64"), numbers())])
    x = x if fmt.has_nan else x[~np.isnan(x)]
    for dtype, how in cases(name, device):
        on_device, plain = tensor(x, dtype, device)
        with launches() as names:
            got = fmt.encode(on_device, how, seed=3)
        assert names == ["encoded"] or (not names and (fmt.bits > 8 or isinstance(fmt.rounding_spec, Table)))
        want = fmt.encode(plain, how, seed=3)
        assert got.device == on_device.device and np.array_equal(got.cpu().numpy(), want)
    if fmt.bits <= 20:
        with launches() as names:
            values = fmt.decode(got)
        assert names == ["decoded"] and values.device == got.device
        probes.assert_same(values.cpu().numpy(), fmt.decode(want), want)
        with pytest.raises(ValueError, match="must be from 0 to"):
            fmt.decode(got.long() + 2**fmt.bits)
    if not fmt.has_nan:
        with pytest.raises(ValueError, match="has no code for NaN, and 2 elements are NaN"):
            fmt.encode(torch.tensor([1.0, np.nan, 2.0, np.nan], device=device))


def rows_of_blocks(count: int) -> np.ndarray:
    """Numbers of many magnitudes [2, rows, 71], with blocks of zeros, of infinity, with NaN, and of extremes."""
    rng = np.random.default_rng(0)
    rows = max(count // 64, 2)
    x = rng.standard_normal((2, rows, 71)) * 2.0 ** rng.integers(-40, 40, (2, rows, 1))
    x[rng.random(x.shape) < 0.1] = 0
    x[0, 0], x[0, 1, 64:], x[1, 0, 3] = 0, np.inf, np.nan
    x[1, 1, :32] *= 2.0**100
    x[1, 1, 32:64] *= 2.0**-110
    return x


def blocks(name: str, device: str, count: int) -> None:
    """A block format in every rounding, for every type of numbers, along each axis; the last blocks are not whole."""
    fmt, x = golden.BLOCKED[name], rows_of_blocks(count)
    wanted = ["power_of_two_blocks"] if fmt.scale == E8M0 else ["rounded_scale_blocks"]
    wanted = ["largest_of_blocks"] * fmt.tensor_scale + wanted
    for dtype, how in cases(name, device):
        on_device, plain = tensor(x, dtype, device)
        for axis in (2, 1, 0) if dtype == "float32" and how in FEW_ROUNDINGS else (2,):
            with launches() as names:
                got = fmt.quantize(on_device, how, seed=3, axis=axis)
            assert names == wanted
            assert_same(got, fmt.quantize(plain, how, seed=3, axis=axis), plain)


def codes_of_blocks(name: str, device: str, count: int) -> None:
    """Codes of elements and scales along each axis, and their values; the error where a block has no code."""
    fmt, x = golden.BLOCKED[name], rows_of_blocks(count)
    if fmt.scale != E8M0 and not fmt.element.has_nan:
        with pytest.raises(ValueError, match="has no code for NaN or infinity, and [0-9]+ blocks hold one"):
            fmt.encode(tensor(x, "float32", device)[0])
        x = np.clip(np.nan_to_num(x), -1e30, 1e30)
    scales_have_kernels = fmt.scale.bits <= 8
    few = [("float32", how) for how in FEW_ROUNDINGS]
    for dtype, how in few if device == "cpu" else cases(name, device):
        on_device, plain = tensor(x, dtype, device)
        for axis in (2, 1, 0):
            with launches() as names:
                got = fmt.encode(on_device, how, seed=3, axis=axis)
            kernel = "encoded_power_of_two_blocks" if fmt.scale == E8M0 else "encoded_rounded_scale_blocks"
            assert names == (
                ["largest_of_blocks"] * fmt.tensor_scale + [kernel] if scales_have_kernels else ["encoded"]
            )
            want = fmt.encode(plain, how, seed=3, axis=axis)
            assert {got.elements.device, got.scales.device} == {on_device.device}
            assert got.tensor_scale == want.tensor_scale
            assert np.array_equal(got.elements.cpu().numpy(), want.elements)
            assert np.array_equal(got.scales.cpu().numpy(), want.scales)
            with launches() as names:
                values = fmt.decode(got, axis=axis)
            assert (
                names == (["decoded_blocks"] if scales_have_kernels else ["decoded"])
                and values.device == on_device.device
            )
            probes.assert_same(values.cpu().numpy(), fmt.decode(want, axis=axis), plain)


def layouts(name: str, device: str, count: int) -> None:
    """Every stride, ragged ends, empty tensors and numbers, ``out``, and rounding in place."""
    fmt = F.get(name)
    x, plain = tensor(np.resize(numbers()[::7], (3, 5, 7, 11)), "float32", device)
    views = [
        lambda a: a[:, ::2],
        lambda a: a[..., ::3],
        lambda a: a[1:, :, 2],
        lambda a: a[:, :, :1],
        lambda a: a[0, 0, 0, 0],
        lambda a: a[:0],
        lambda a: a.swapaxes(0, 3),
        lambda a: a.swapaxes(1, 2)[:, :, ::2],
        lambda a: a.reshape(-1)[3:],
    ]
    for view in views:
        part, part_plain = view(x), view(plain)
        want = np.asarray(fmt.quantize(part_plain))
        assert_same(fmt.quantize(part), want, part_plain)
        for out in (torch.empty_like(part), torch.empty_like(x.swapaxes(0, 3)).swapaxes(0, 3)):
            if out.shape == part.shape:
                assert fmt.quantize(part, out=out) is out
                assert_same(out, want, part_plain)
    in_place = x.clone()
    assert fmt.quantize(in_place, out=in_place) is in_place
    assert_same(in_place, fmt.quantize(plain), plain)
    shifted = torch.cat([x.reshape(-1), x.reshape(-1)[:1]])
    wanted = fmt.quantize(shifted[:-1].cpu().numpy())
    fmt.quantize(shifted[:-1], out=shifted[1:])  # they overlap
    assert_same(shifted[1:], wanted, wanted)


def stretches(name: str, device: str, count: int) -> None:
    """A tensor that takes several launches has the random bits of one."""
    from lplab.formats.gpu import dispatch

    x, plain = tensor(numbers()[:1000], "float32", device)
    before = dispatch.STRETCH
    try:
        dispatch.STRETCH = 300
        with launches() as names:
            got = F.get(name).quantize(x, "stochastic", seed=5)
    finally:
        dispatch.STRETCH = before
    assert len(names) == 4
    assert_same(got, F.get(name).quantize(plain, "stochastic", seed=5), plain)


def phases(name: str, device: str, count: int) -> None:
    """Both phases of radix-4 FP4 and the largest magnitude in one pass; also transposed, and with NaN."""
    even, odd = F.get("radix4_fp4_even"), F.get("radix4_fp4_odd")
    both = DualRounding(even, odd, F.Rounding(name))
    x, plain = tensor(np.resize(probes.random_patterns("float32"), (40, 50)), "float32", device)
    finite, finite_plain = x.nan_to_num(1.0), np.nan_to_num(plain, nan=1.0)
    for view, wanted in ((x, plain), (x.T, plain.T), (finite[:, ::2], finite_plain[:, ::2])):
        with launches() as names:
            first, second, largest = both(view)
        assert names == ["two_roundings"]
        assert np.isnan(largest) if np.isnan(wanted).any() else largest == np.abs(wanted).max()
        assert_same(first, even.quantize(wanted, name), wanted)
        assert_same(second, odd.quantize(wanted, name), wanted)


def gradients(name: str, device: str, count: int) -> None:
    """Gradients pass straight through; functions of torch.func and recorded programs see the rounding."""
    fmt = F.get(name)
    x, plain = tensor(np.linspace(-2, 2, 4 * 32).reshape(4, 32), "float32", device)
    want = fmt.quantize(plain)
    leaf = x.clone().requires_grad_()
    fmt.quantize(leaf).sum().backward()
    assert torch.equal(leaf.grad, torch.ones_like(x))
    for call in (
        torch.vmap(fmt.quantize),
        torch.jit.trace(lambda x: fmt.quantize(x), x),
        make_fx(lambda x: fmt.quantize(x))(x),
    ):
        with launches() as names:
            got = call(x)
        assert names and np.array_equal(got.cpu().numpy(), want)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: fmt.quantize(x + 0) * 2, backend="aot_eager", fullgraph=True)
    with launches() as names:
        got = compiled(leaf)
    got.sum().backward()
    assert len(names) == 1 and np.array_equal(got.detach().cpu().numpy(), 2 * want)
    assert torch.equal(leaf.grad, torch.full_like(x, 3))
    with torch._subclasses.FakeTensorMode() as mode:
        assert fmt.quantize(mode.from_tensor(x)).shape == x.shape
