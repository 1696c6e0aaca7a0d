"""The same bits without numba, with flushed subnormals, in forked workers, in many threads, on CUDA."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from lplab.arithmetic import compiled_sums, matmul
from lplab.arithmetic import sum as sum_in

from .operands import KINDS, operand

PROJECT = Path(__file__).parents[2]
WAYS = [
    {"accumulator": "dlfloat16", "chunk": 16},
    {"accumulator": "bf16"},
    {"accumulator": "fp16", "rounding": "stochastic", "seed": 3},
    {"accumulator": "q8.8", "rounding": "nearest_away"},
]


def made() -> list[tuple[np.ndarray, np.ndarray]]:
    """Operands of every kind; to be made before subnormals are flushed."""
    rng = np.random.default_rng(0)
    return [(operand(kind, (6, 70), rng), operand("gradients", (70, 20), rng)) for kind in KINDS]


def digest(operands: list[tuple[np.ndarray, np.ndarray]]) -> str:
    """All results as bits, NaN made uniform."""
    results = []
    for a, b in operands:
        for way in WAYS:
            for x, y in ((a, b), (torch.from_numpy(a), torch.from_numpy(b))):
                got = np.asarray(matmul(x, y, **way))
                results.append(np.where(np.isnan(got), np.float32(np.nan), got).tobytes())
    return b"".join(results).hex()


def in_a_new_process(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", code]
    run = subprocess.run(
        command, env={**os.environ, **environment}, cwd=PROJECT, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.strip()


@pytest.fixture(scope="module")
def expected() -> str:
    return digest(made())


@pytest.mark.parametrize(("no_numba", "flush"), [
    ("0", True),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in (("1", False), ("0", False), ("1", True))),
])  # fmt: skip
def test_environments(expected, no_numba, flush):
    code = "from tests.arithmetic.test_environment import digest, made; import torch; operands = made()\n"
    code += "assert torch.set_flush_denormal(True)\n" if flush else ""
    assert in_a_new_process(code + "print(digest(operands))", LPLAB_NO_NUMBA=no_numba) == expected


def test_importing_is_light_and_small_work_needs_nothing():
    code = """
import sys
from lplab import arithmetic
heavy = {"torch", "numba", "scipy", "pandas"}
print(sorted(heavy & set(sys.modules)))
print(arithmetic.dot([1.0, 2.0], [3.0, 4.0], "dlfloat16"), sorted(heavy & set(sys.modules)))
"""
    assert in_a_new_process(code).splitlines() == ["[]", "11.0 []"]


def test_no_place_for_the_cache(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    code = "from lplab import arithmetic; print(arithmetic.sum([1.0] * 5000, 'dlfloat16', chunk=64))"
    assert in_a_new_process(code, NUMBA_CACHE_DIR=str(blocker / "below")) == "5000.0"


class Products(torch.utils.data.Dataset):
    """Products inside a data loader's worker."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        x = torch.from_numpy(operand("fp8", (128, 64), np.random.default_rng(index)))
        return matmul(x, x.T, "dlfloat16", chunk=16, threads=2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_workers():
    """The parent has used its threads before the fork; the child must not wait for them."""
    assert compiled_sums.MIN_PARALLEL_WORK < 128 * 128 * 64
    want = [Products()[i] for i in range(4)]
    loader = torch.utils.data.DataLoader(
        Products(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=120
    )
    assert all(torch.equal(got, one) for got, one in zip(loader, want, strict=True))


def test_threads_of_torch_are_left_alone():
    before = torch.get_num_threads()
    x = torch.randn(128, 128)
    matmul(x, x, "dlfloat16", threads=3)
    assert torch.get_num_threads() == before


def test_callers_in_many_threads():
    x = operand("fp8", (96, 96), np.random.default_rng(0))
    want, results = matmul(x, x, "dlfloat16"), [None] * 6

    def work(i: int) -> None:
        results[i] = matmul(x, x, "dlfloat16", threads=2)

    callers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all((got == want).all() for got in results)


def test_inside_torch_compile():
    x = torch.from_numpy(operand("fp8", (8, 40), np.random.default_rng(0)))
    torch._dynamo.reset()
    layer = torch.compile(lambda v: matmul(v * 2, v.T, "dlfloat16") + 1, backend="eager")
    assert torch.equal(layer(x), matmul(x * 2, x.T, "dlfloat16") + 1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_cuda():
    for a, b in made():
        for way in WAYS:
            there = matmul(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda(), **way).cpu()
            assert torch.equal(
                there.nan_to_num(nan=7.5), matmul(torch.from_numpy(a), torch.from_numpy(b), **way).nan_to_num(nan=7.5)
            )
    x = torch.randn(300, 20)
    assert torch.equal(sum_in(x.cuda(), "dlfloat16", 0).cpu(), sum_in(x, "dlfloat16", 0))
