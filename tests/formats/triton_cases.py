"""Comparisons of the GPU's path with numpy's: tests run them in Triton's interpreter, and on a GPU where there is one.

Each function takes a device, "cpu" in the interpreter, and how many numbers of each kind of input there are at most.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from lplab import formats as F
from lplab.formats import gpu
from tests import golden

from . import probes

HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
DTYPES = ("float32", "float64", *HALVES)


def interpret() -> None:
    """Let tensors of the CPU take the GPU's path; for a process in which ``TRITON_INTERPRET=1`` is set."""
    from lplab.formats.gpu import launch

    assert launch.compiler.IS_INTERPRETED
    gpu.DEVICES = ("cpu",)
    launch.BLOCK = 2**13  # the interpreter needs a millisecond for each program, however long


@contextmanager
def launches() -> Iterator[list[str]]:
    """The names of the kernels that run inside."""
    from lplab.formats.gpu import launch

    names, run = [], launch._launch

    def counted(kernel, *arguments, **constants):
        names.append(kernel.__name__)
        run(kernel, *arguments, **constants)

    launch._launch = counted
    try:
        yield names
    finally:
        launch._launch = run


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


def elementwise(name: str, device: str, count: int) -> None:
    """A format in every rounding, for every type of numbers."""
    fmt = golden.ELEMENTWISE[name]
    x = np.concatenate([golden._thinned(part, count) for part in (probes.boundary(fmt, "float64"), numbers())])
    for dtype in DTYPES:
        on_device, plain = tensor(x, dtype, device)
        for rounding in golden.ROUNDINGS.values():
            with launches() as names:
                got = fmt.quantize(on_device, rounding, seed=3)
            # Triton looks up tables in float32, with the same result for the same number
            looks_up = not rounding.is_stochastic and dtype != "float64" and fmt.bits <= 8
            assert names == ["elementwise"] or not (names or looks_up or isinstance(fmt.rounding_spec, F.base.Grid))
            assert_same(got, fmt.quantize(plain, rounding, seed=3), plain)


def numbers() -> np.ndarray:
    """Special numbers, random patterns, numbers over all octaves."""
    with np.errstate(invalid="ignore"):
        return np.concatenate([probes.specials().astype(np.float64), probes.random_patterns().astype(np.float64)])
