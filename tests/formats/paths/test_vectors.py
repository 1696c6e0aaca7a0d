"""Loops that ask for wide vector registers have vector instructions: one attribute too many has cost them before."""

import gc
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numba")
from numba import njit  # noqa: E402
from numba.core.registry import CPUDispatcher  # noqa: E402
from torch import nn  # noqa: E402

import lplab  # noqa: E402
from lplab import compression as C  # noqa: E402
from lplab import formats as F  # noqa: E402
from lplab.arithmetic import matmul  # noqa: E402
from lplab.compression.adacomp import adacomp_select  # noqa: E402
from lplab.formats.paths import kernel_selection  # noqa: E402
from lplab.training import quantize_model  # noqa: E402

LIBRARY = str(Path(lplab.__file__).parent)
VECTOR = re.compile(r"<\d+ x (?:i32|i64|float|double)>")
COUNT = 4 * kernel_selection.MIN_COMPILED_SIZE
MUST_BE_THERE = {
    *("two_powers_loop", "sawb_loop", "clip_loop", "clip_mask_loop", "add_loop", "cell_loop"),
    *("output_loop", "gates_backward_loop", "select", "matmul_loop", "_add_loop", "_round", "_round_shifted_blocks"),
    "_round_scaled_blocks",
}


def load_loops():
    """Formats and blocks, sums, AdaComp, and steps of layers and of an LSTM: enough numbers for loops to be loaded."""
    x = torch.randn(COUNT)
    for name in ("e4m3fn", "bf16", "int8", "radix4_fp4_even", "e2m1", "mxfp8_e4m3", "nvfp4"):
        for rounding in ("nearest_even", "toward_zero", "stochastic"):
            F.get(name).quantize(x, rounding, seed=1)
    matmul(torch.randn(96, 64), torch.randn(64, 128), "dlfloat16")
    adacomp_select(np.zeros(COUNT, np.float32), x.numpy(), C.AdaComp(bin=500), 500)
    C.arrays._compiled(C.arrays._add_loop)(*(np.ones(9, np.float32) for _ in range(3)))

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.lstm, self.middle = nn.Linear(64, 64), nn.LSTM(64, 64), nn.Linear(64, 64)
            self.last = nn.Linear(64, 64)

        def forward(self, x):
            return self.last(self.middle(self.lstm(self.first(x).relu())[0]).relu())

    for recipe in ("int4_fp4_2020", "pact_sawb_2019"):
        model = quantize_model(Recurrent(), recipe)
        for _ in range(12):
            model(torch.randn(16, 32, 64)).square().sum().backward()


def loops_that_ask():
    """By name: the loaded loops of lplab that ask for wide vectors, one of those that are compiled for many formats."""
    gc.unfreeze()  # conftest.py hides what collecting the tests has loaded
    loaded = [found for found in gc.get_objects() if isinstance(found, CPUDispatcher) and found.signatures]
    gc.freeze()
    ours = [loop for loop in loaded if loop.py_func.__code__.co_filename.startswith(LIBRARY)]
    ours.sort(key=lambda loop: loop.py_func.__qualname__)
    asking = [loop for loop in ours if "use_wide_vectors" in inspect.getsource(loop.py_func)]
    return {loop.py_func.__qualname__.split(".")[0]: loop for loop in asking}


@pytest.mark.slow
def test_loops_that_ask_for_wide_registers_have_vector_instructions():
    load_loops()
    loops = loops_that_ask()
    assert loops.keys() >= MUST_BE_THERE
    scalar = []
    for name, loop in loops.items():
        again = njit(**loop.targetoptions)(loop.py_func)  # what comes from numba's store has no text
        again.compile(loop.signatures[0])
        if len(VECTOR.findall(again.inspect_llvm(loop.signatures[0]))) < 10:
            scalar.append(name)
    assert not scalar
