"""Comparisons of the GPU's path with numpy's, which tests/interpreted.py runs."""

from itertools import product

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from lplab import formats as F
from lplab.quantizers import NVFP4_SIGNS, Hadamard, PreScaled
from tests.formats import triton_cases
from tests.interpreted import launches

TRANSFORMS = {"16": Hadamard(16, NVFP4_SIGNS), "2": Hadamard(2, 1), "64": Hadamard(64, 5)}


def transforms(name: str, device: str, count: int) -> None:
    """A transform and the rounding of its result in one pass: along each axis, for each type, with ragged ends."""
    size, format = name.split()
    transform, fmt, x = TRANSFORMS[size], F.get(format), triton_cases.rows_of_blocks(count)
    wanted = ["largest_of_blocks", "rounded_scale_blocks"] if fmt.tensor_scale else ["power_of_two_blocks"]
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        if dtype == "bfloat16" and device == "cpu":  # Triton's interpreter cuts bfloat16 off, where a GPU rounds
            continue
        on_device, _ = triton_cases.tensor(x, dtype, device)
        for how in triton_cases.FEW_ROUNDINGS if dtype == "float32" else triton_cases.FEW_ROUNDINGS[2:]:
            for axis in (2, 1, 0) if dtype == "float32" else (-1,):
                with launches() as names:
                    got = transform.quantize(on_device, fmt, how, seed=3, axis=axis)
                assert names == wanted
                rotated = transform.apply(on_device.cpu(), axis)  # in half precision it is rounded to that
                rotated = (rotated if dtype == "float64" else rotated.float()).numpy()
                want = fmt.quantize(rotated, how, 3, axis=axis)
                triton_cases.assert_same(got, want, rotated)
    assert got.shape[-1] == 71 + -71 % transform.size


def pre_scaled(name: str, device: str, count: int) -> None:
    """MX blocks whose numbers are made smaller, alone and after a transform."""
    fmt, x = F.get(name), triton_cases.rows_of_blocks(count)
    for factor, how in product((0.75, 0.3), triton_cases.FEW_ROUNDINGS):
        quantizer = PreScaled(fmt, factor, how)
        for dtype in ("float32", "float64", "float16"):
            on_device, plain = triton_cases.tensor(x, dtype, device)
            with launches() as names:
                got = quantizer.quantize(on_device, seed=3)
            assert names == ["power_of_two_blocks"]
            triton_cases.assert_same(got, quantizer.quantize(plain, seed=3), plain)
        on_device = triton_cases.tensor(x, "float32", device)[0]
        with launches() as names:
            got = quantizer.quantize_transformed(TRANSFORMS["64"], on_device, 3)
        assert names == ["power_of_two_blocks"]
        rotated = TRANSFORMS["64"].apply(on_device.cpu()).numpy()
        triton_cases.assert_same(got, quantizer.quantize(rotated, seed=3), rotated)


def transposed(name: str, device: str, count: int) -> None:
    """A transposed matrix is read where it lies, with the random bits of a copy; so are stacks of them."""
    transform, fmt = TRANSFORMS["16"], F.get(name)
    for shape in ((40, 50), (3, 33, 20)):
        x = torch.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32)).to(device)
        got = transform.quantize(x.mT, fmt, "stochastic", seed=7)
        assert torch.equal(got, transform.quantize(x.mT.contiguous(), fmt, "stochastic", seed=7))
        assert got.mT.is_contiguous()


def tools(name: str, device: str, count: int) -> None:
    """Gradients are transformed back; functions of torch.func, recorded and compiled programs see one operator."""
    transform, fmt = TRANSFORMS["16"], F.get(name)
    x = torch.linspace(-2, 2, 4 * 40, device=device).reshape(4, 40)
    want = transform.quantize(x.cpu().numpy(), fmt)
    weights = torch.linspace(0, 1, 48, device=device)
    leaf = x.clone().requires_grad_()
    (transform.quantize(leaf, fmt) * weights).sum().backward()
    gradient = transform.invert(weights.expand(4, 48).contiguous(), 40)
    assert torch.equal(leaf.grad, gradient)

    def rounded(x: torch.Tensor) -> torch.Tensor:
        return transform.quantize(x, fmt)

    for call in (torch.jit.trace(rounded, x), make_fx(rounded)(x)):
        with launches() as names:
            got = call(x)
        assert names and np.array_equal(got.cpu().numpy(), want)
    each = torch.stack([rounded(row) for row in x])
    assert torch.equal(torch.vmap(rounded)(x), each)
    torch.testing.assert_close(torch.func.grad(lambda x: (rounded(x) * weights).sum())(x), gradient)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(torch.vmap(rounded), backend="aot_eager", fullgraph=True)(x), each)
    compiled = torch.compile(lambda x: rounded(x + 0) * weights, backend="aot_eager", fullgraph=True)
    leaf.grad = None
    with launches() as names:
        got = compiled(leaf)
    got.sum().backward()
    assert names and np.array_equal(got.detach().cpu().numpy(), want * weights.cpu().numpy())
    assert torch.equal(leaf.grad, gradient)
    with torch._subclasses.FakeTensorMode() as mode:
        assert rounded(mode.from_tensor(x)).shape == (4, 48)
