"""Comparisons of products on the GPU's path with numpy's, which tests/interpreted.py runs."""

import numpy as np
import torch

from lplab import formats as F
from lplab.arithmetic import Accumulator, matmul
from tests.formats.probes import assert_same
from tests.interpreted import launches

ACCUMULATORS = {
    "1-6-9": Accumulator("dlfloat16"),
    "1-6-9 in chunks": Accumulator("dlfloat16", chunk=16),
    "two formats, ties away": Accumulator("bf16", chunk=16, outer="dlfloat16", rounding="nearest_away"),
    "float32": Accumulator("fp32"),
    "float32 in chunks": Accumulator("fp32", chunk=16),
    "float32 inside chunks, 1-6-9 outside": Accumulator("fp32", chunk=16, outer="dlfloat16"),
    "fixed point, stochastic": Accumulator("q8.8", rounding="stochastic"),
    "everything stochastic": Accumulator("dlfloat16", chunk=16, rounding="stochastic", fma=False),
    "products rounded": Accumulator("fp16", fma=False, product="e4m3fn"),
    "up": Accumulator("e5m2", rounding="up"),
    "toward zero in chunks": Accumulator("fp8_152", chunk=8, rounding="toward_zero"),
    "saturating": Accumulator("e4m3fn"),
    "integers": Accumulator("int8"),
}


KINDS = ("few bits", "special", "24 bits", "many octaves")


def operands(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Numbers of few bits, of 24 bits, over many octaves, and special ones."""
    x = rng.standard_normal(shape).astype(np.float32)
    if kind == "few bits":
        return F.get("hfp8_forward").quantize(x)
    if kind == "many octaves":
        return x * np.exp2(rng.integers(-60, 60, shape)).astype(np.float32)
    if kind == "special":
        x.flat[::7], x.flat[3], x.flat[11] = np.inf, np.nan, 1e-42
    return x


def products(name: str, device: str, count: int) -> None:
    """A product for each kind of operands; no side of it is a multiple of a tile."""
    rng, how = np.random.default_rng(0), ACCUMULATORS[name]
    rows, length, columns = (5, 20, 9) if device == "cpu" else (67, 300, 131)
    for kind in KINDS if name in ("1-6-9 in chunks", "products rounded") or device == "cuda" else KINDS[:2]:
        a, b = operands(kind, (2, rows, length), rng), operands(kind, (2, length, columns), rng)
        with launches() as names:
            got = matmul(torch.from_numpy(a).to(device), torch.from_numpy(b).to(device), how, seed=5)
        assert names == ["products"] and got.device.type == device
        assert_same(got.cpu().numpy(), matmul(a, b, how, seed=5), got.cpu().numpy())


def layouts(name: str, device: str, count: int) -> None:
    """Transposed operands, vectors, batches that are broadcast, half precision, float64, gradients."""
    rng, how = np.random.default_rng(0), ACCUMULATORS[name]
    shapes = [((7,), (7,)), ((3, 7), (7,)), ((2, 1, 3, 7), (5, 7, 4)), ((2, 3, 7), (7, 4)), ((3, 0), (0, 4))]
    for left, right in shapes:
        a, b = operands("few bits", left, rng), operands("few bits", right, rng)
        for dtype in (torch.float32, torch.float16, torch.float64):
            x, y = (torch.from_numpy(each).to(device, dtype) for each in (a, b))
            got = matmul(x, y, how)
            assert got.dtype == dtype and torch.equal(got.cpu(), torch.as_tensor(matmul(a, b, how)).to(dtype))
    a, b = (torch.from_numpy(operands("few bits", shape, rng)) for shape in ((7, 3), (4, 7)))
    want = torch.from_numpy(matmul(a.numpy().T, b.numpy().T, how))
    with launches() as names:
        assert torch.equal(matmul(a.to(device).T, b.to(device).T, how).cpu(), want)
    assert names == ["products"]
    leaf = a.to(device).requires_grad_()
    matmul(leaf.T, b.to(device).T, how).sum().backward()
    ones = np.ones((3, 4), np.float32)
    assert torch.equal(leaf.grad.cpu(), torch.from_numpy(matmul(ones, b.numpy(), how).T))
