"""The same bits without numba, with flushed subnormals, in forked workers, in threads, under torch.compile, on CUDA."""

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from functools import cache

import numpy as np
import pytest
import torch

from lplab import formats as F
from tests.kinds import slow

from .probes import BLOCKED, ELEMENTWISE, assert_same, boundary, common

NAMES = [*ELEMENTWISE, *BLOCKED]
MODES = ["nearest_even", "up", "to_odd", "stochastic"]


@cache
def inputs(name: str) -> np.ndarray:
    """Some 50,000 numbers, enough for the compiled loops; made before subnormals are flushed, hence the cache."""
    near = boundary(F.get(name)) if name in ELEMENTWISE else boundary(F.get(name).element)
    return np.concatenate([near[::3], common()[::4]])


def digest() -> dict[str, str]:
    """A hash of the results of every format and some modes, with one NaN pattern."""
    prints = {}
    for name in NAMES:
        x = inputs(name)
        for mode in MODES:
            for kind, value in (("numpy", x), ("torch", torch.from_numpy(x)), ("small", x[:300])):
                got = np.asarray(F.get(name).quantize(value, mode, seed=3))
                got = np.where(np.isnan(got), np.float32(np.nan), got)
                prints[f"{name} {mode} {kind}"] = hashlib.sha256(got.tobytes()).hexdigest()[:12]
    return prints


def differing(got: dict[str, str], want: dict[str, str]) -> list[str]:
    assert len(want) == len(NAMES) * len(MODES) * 3
    return [key for key in want if got.get(key) != want[key]]


def in_a_new_process(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.strip()


DIGEST = "from tests.formats.test_environment import digest; print(digest())"
FLUSHED = """
import torch
from tests.formats.test_environment import NAMES, digest, inputs
made = [inputs(name) for name in NAMES]
assert torch.set_flush_denormal(True)
print(digest())
"""


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    return digest()


@pytest.mark.slow  # by default test_all_paths_agree compares both ways in one process
def test_without_numba(expected):
    assert differing(ast.literal_eval(in_a_new_process(DIGEST, LPLAB_NO_NUMBA="1")), expected) == []


@pytest.mark.slow  # by default the next test switches it on in this process
@pytest.mark.parametrize("no_numba", ["0", "1"])
def test_flush_denormal(expected, no_numba):
    """torch.set_flush_denormal(True) makes arithmetic see and produce zeros instead of subnormal numbers."""
    assert differing(ast.literal_eval(in_a_new_process(FLUSHED, LPLAB_NO_NUMBA=no_numba)), expected) == []


def test_flush_denormal_switched_on_later(expected):
    """Also where tables and constants were made before."""
    assert torch.set_flush_denormal(True)
    try:
        assert differing(digest(), expected) == []
    finally:
        torch.set_flush_denormal(False)


class Quantized(torch.utils.data.Dataset):
    """A common use: quantize inside the data loader."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        x = torch.from_numpy(np.random.default_rng(index).standard_normal(2**16).astype(np.float32))
        return torch.stack(
            [F.get(name).quantize(x, "stochastic", seed=index) for name in ("e4m3fn", "posit8_1", "mxfp4")]
        )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_data_loader_worker():
    """numba's parallel layer would kill the child; ours has none. The parent has used the loops before the fork."""
    want = [Quantized()[i] for i in range(4)]
    loader = torch.utils.data.DataLoader(
        Quantized(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=120
    )
    for got, expected_batch in zip(loader, want, strict=True):
        assert torch.equal(got, expected_batch)


def test_threads_of_torch_are_left_alone():
    before = torch.get_num_threads()
    F.get("e4m3fn").quantize(torch.randn(2**17))
    F.get("mxfp4").quantize(torch.randn(2**10, 2**7), "stochastic", seed=1)
    assert torch.get_num_threads() == before


def test_first_use_in_many_threads():
    """Eight threads call a loop that is not loaded yet."""
    code = """
import threading, numpy as np
from lplab import formats as F
x = np.random.default_rng(0).standard_normal(2**16).astype(np.float32)
results = [None] * 8
def work(i):
    results[i] = F.get("e3m4").quantize(x, "nearest_away")
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(all((r == results[0]).all() for r in results))
"""
    assert in_a_new_process(code) == "True"
    assert threading.active_count() >= 1


# -- torch.compile ------------------------------------------------------------------------------------------------

# inductor hands its paths to the compiler unquoted
HEADER = os.path.join(sysconfig.get_path("include"), "Python.h")
CAN_COMPILE = shutil.which("g++") and os.path.exists(HEADER) and " " not in torch.__file__
NEEDS = "inductor needs a C++ compiler, Python's headers, and no space in the path of torch"
COMPILED = ["e4m3fn", "bf16", "fp16", "mxfp4"]
CASES = [(COMPILED[0], "eager"), *(slow((name, "eager")) for name in COMPILED[1:])]
CASES += [pytest.param(name, "inductor", marks=pytest.mark.slow) for name in COMPILED]  # half a minute, once


@pytest.mark.parametrize(("name", "backend"), CASES)
def test_inside_torch_compile(name, backend):
    """inductor drops casts to half precision and back; it must not trace ours."""
    if backend == "inductor" and not CAN_COMPILE:
        pytest.skip(NEEDS)
    fmt, x = F.get(name), torch.randn(64, 64, generator=torch.Generator().manual_seed(0))

    def layer(v: torch.Tensor) -> torch.Tensor:
        return fmt.quantize(v * 1.5) + fmt.quantize(v, "stochastic", seed=1)

    torch._dynamo.reset()
    assert torch.equal(torch.compile(layer, backend=backend)(x), layer(x))


def test_gradient_inside_torch_compile():
    x = torch.randn(32, requires_grad=True)
    torch._dynamo.reset()
    torch.compile(lambda v: (F.get("e4m3fn").quantize(v) * 2).sum(), backend="eager")(x).backward()
    assert torch.equal(x.grad, torch.full((32,), 2.0))


# -- imports ------------------------------------------------------------------------------------------------------


def test_importing_formats_is_light():
    """numpy alone; and quantizing numpy arrays needs no torch, small ones no numba."""
    code = """
import sys
import lplab.formats as F
heavy = {"torch", "numba", "plotly", "ipywidgets", "scipy", "pandas", "matplotlib"}
print(sorted(heavy & set(sys.modules)))
F.get("e4m3fn").quantize([0.3, 0.4]), F.get("mxfp4").quantize([0.3]), F.get("posit16_1").encode(0.3)
print(sorted(heavy & set(sys.modules)))
"""
    assert in_a_new_process(code).splitlines() == ["[]", "[]"]


def test_numba_missing():
    """Without numba the array path computes everything, without a warning."""
    code = """
import sys
sys.modules["numba"] = None
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "numba" else find_spec(name, *a)
import numpy as np
from lplab import formats as F
print(F.get("e4m3fn").quantize(np.full(2**17, 0.3, np.float32)).mean())
"""
    assert in_a_new_process(code) == "0.3125"


def test_no_place_for_the_cache(tmp_path):
    """Without a writable cache folder loops are compiled in each process, with the same bits."""
    code = """
import numpy as np
from lplab import formats as F
print(F.get("e4m3fn").quantize(np.full(2**17, 0.3, np.float32)).mean())
"""
    blocker = tmp_path / "file"
    blocker.write_text("")
    assert in_a_new_process(code, NUMBA_CACHE_DIR=str(blocker / "below")) == "0.3125"


# -- CUDA ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("names", [NAMES], ids=["all formats"])  # one line in the report where there is no device
def test_cuda_has_the_same_bits(names):
    for name in names:
        for dtype in (np.float32, np.float64):
            with np.errstate(invalid="ignore"):
                x = inputs(name).astype(dtype)
            on_device = torch.from_numpy(x).cuda()
            for mode in F.ROUNDINGS:
                got = F.get(name).quantize(on_device, mode, seed=3)
                assert got.is_cuda
                assert_same(got.cpu().numpy(), F.get(name).quantize(x, mode, seed=3), x)
            out = torch.empty_like(on_device)
            assert F.get(name).quantize(on_device, out=out) is out
        leaf = on_device[torch.isfinite(on_device)].float().requires_grad_()
        F.get(name).quantize(leaf).sum().backward()
        assert torch.equal(leaf.grad, torch.ones_like(leaf))
        if name in ELEMENTWISE:
            assert torch.equal(F.get(name).encode(leaf.detach()).cpu(), F.get(name).encode(leaf.detach().cpu()))
