"""The same bits on the path of other devices, without numba, with flushed subnormals, in a forked worker, compiled."""

import hashlib
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lplab import quantizers as Q
from lplab.quantizers import array_inputs
from tests.kinds import on_cuda, one_in_three, slow, tiered

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).standard_t(3, (60, 700)).astype(np.float32)
G = np.random.default_rng(1).normal(size=X.shape).astype(np.float32)
FORMATS = ["int4", "int8", "e4m3fn", "e5m2", "radix4_fp4_odd", "posit8_1"]


RULES = [Q.Amax(), Q.Percentile(99), Q.MinMSE(5), Q.Amax(True)]
WAYS = [(None, "nearest_even"), (1, "stochastic"), (None, "stochastic"), (1, "nearest_even")]  # axis, rounding
# Every format with every rule; the axis and the rounding in turn.
IN_TURN = {repr(Q.Quantizer(FORMATS[i], RULES[j], *WAYS[(i + j) % 4][::-1])) for i in range(6) for j in range(4)}


def calls():
    """Name → a call that takes (x, gradient) of any kind: everything that quantizes."""
    table = {}
    for name, rule, (axis, rounding) in itertools.product(FORMATS, RULES, WAYS):
        quantizer = Q.Quantizer(name, rule, rounding, axis)
        table[repr(quantizer)] = lambda x, g, q=quantizer: q.quantize_with_scale(x, seed=4)
    for row in Q.SAWB_ROWS:
        for axis in (None, 0):
            sawb = Q.SAWB(row=row, axis=axis)
            table[f"sawb {row} {axis}"] = lambda x, g, s=sawb: s.quantize_with_scale(x)
    for bits in (1, 2, 4, 8):
        table[f"pact {bits}"] = lambda x, g, b=bits: (Q.pact_forward(x, 1.3, b), *Q.pact_backward(x, 1.3, g))
        table[f"dorefa {bits}"] = lambda x, g, b=bits: (
            Q.dorefa_weights(x, b), Q.dorefa_weights_backward(x, g, b), Q.dorefa_activations(x, b))  # fmt: skip
        table[f"lsq {bits}"] = lambda x, g, b=bits: (
            Q.lsq_forward(x, 0.3, b, signed=b > 1), *Q.lsq_backward(x, 0.3, g, b, signed=b > 1),
            Q.lsq_step(x, 4))  # fmt: skip
    for ties in ("away", "toward_zero"):
        for underflow in ("published", "midpoint"):
            for scale in (1.0, 64.0, 3.0):
                table[f"two phases {ties} {underflow} {scale}"] = lambda x, g, r=(ties, underflow), s=scale: (
                    Q.two_phase(x, s, ties=r[0], underflow=r[1]))  # fmt: skip
    for luq in (Q.LUQ(), Q.LUQ(3), Q.LUQ(nearest=True), Q.LUQ(exponent_bits=2)):
        table[repr(luq)] = lambda x, g, q=luq: (q.quantize(x, seed=6), q.alpha(x))
    table["delayed"] = lambda x, g, make=Q.DelayedScaling: (lambda d: (d.quantize(x), d.quantize(g)))(make("e4m3fn"))
    table["gradscale"] = lambda x, g: (lambda s: (*s.two_phase(x), s.update()))(Q.GradScale())
    table["loss scale"] = lambda x, g: (Q.ConstantLossScale(1000.0).unscale(g), float(Q.all_finite([x, g])))
    table["pact alpha"] = lambda x, g: (Q.pact_alpha(x),)
    return table


CALLS = calls()


def results(call, x=X, g=G):
    """What a call gives, as numpy arrays."""
    return [part.numpy() if isinstance(part, torch.Tensor) else np.asarray(part) for part in call(x, g)]


@pytest.mark.parametrize("name", tiered(CALLS, lambda name: not name.startswith("Quantizer(") or name in IN_TURN))
def test_the_path_of_other_devices(name, monkeypatch):
    """Tensors elsewhere are computed by torch: here it computes tensors on the CPU, and the bits are numpy's."""
    want = results(CALLS[name])
    shared = results(CALLS[name], torch.from_numpy(X), torch.from_numpy(G))
    monkeypatch.setattr(array_inputs, "shares_memory", lambda tensor: False)
    apart = results(CALLS[name], torch.from_numpy(X), torch.from_numpy(G))
    for ours, same, other in zip(want, shared, apart, strict=True):
        np.testing.assert_array_equal(ours, same)
        np.testing.assert_array_equal(ours, other)
        assert ours.dtype == same.dtype == other.dtype


@pytest.mark.parametrize("name", on_cuda(CALLS))
def test_cuda_gives_the_same_bits(name):
    x, g = torch.from_numpy(X).cuda(), torch.from_numpy(G).cuda()
    got = [part.cpu().numpy() if isinstance(part, torch.Tensor) else np.asarray(part) for part in CALLS[name](x, g)]
    for ours, theirs in zip(results(CALLS[name]), got, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def digest():
    """A fingerprint of all results but those of searches, which take long and are made of the others."""
    prints = hashlib.sha256()
    for name, call in CALLS.items():
        if "MinMSE" not in name:
            for part in results(call):
                prints.update(part.tobytes())
    return prints.hexdigest()


@pytest.mark.parametrize(("flush", "no_numba"), [(True, "1"), slow((False, "1")), slow((True, "0"))])
def test_neither_numba_nor_flushed_subnormals_change_a_bit(flush, no_numba):
    folder = str(Path(__file__).parents[2])
    code = f"""
import sys, torch
sys.path.insert(0, {folder!r})
torch.set_flush_denormal({flush})
from tests.quantizers import test_environment
print(test_environment.digest())
"""
    environment = {**os.environ, "LPLAB_NO_NUMBA": no_numba}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.split()[-1] == digest()


class Rows(torch.utils.data.Dataset):
    """A data set whose rows are quantized where they are loaded."""

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return torch.stack([*Q.two_phase(torch.from_numpy(X[i]), 8.0), Q.SAWB(4).quantize(torch.from_numpy(X[i]))])


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_in_a_forked_worker():
    Q.two_phase(X)  # the parent has used the kernels
    loader = torch.utils.data.DataLoader(Rows(), batch_size=20, num_workers=1, multiprocessing_context="fork")
    got = torch.cat(list(loader))
    assert torch.equal(got, torch.stack([Rows()[i] for i in range(len(X))]))


@pytest.mark.parametrize("name", one_in_three([
    "two phases away published 64.0", "LUQ(samples=1, exponent_bits=3, random_bits=16, nearest=False)",
    "sawb 2bit None", "pact 4", "delayed", "gradscale", repr(Q.Quantizer("int8", Q.Amax(), axis=1)),
]))  # fmt: skip
def test_inside_torch_compile(name):
    x, g = torch.from_numpy(X), torch.from_numpy(G)

    def layer(x, g):
        return CALLS[name](x * 1.0, g * 1.0)

    torch._dynamo.reset()
    for ours, theirs in zip(layer(x, g), torch.compile(layer, backend="eager")(x, g), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_module_inside_torch_compile():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), Q.PACT(2, alpha=1.0), torch.nn.Linear(8, 1), Q.LSQ(4, step=0.1))
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    model(x).sum().backward()
    want = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    torch._dynamo.reset()
    torch.compile(model, backend="eager")(x).sum().backward()
    for parameter, gradient in zip(model.parameters(), want, strict=True):
        assert torch.equal(parameter.grad, gradient)
