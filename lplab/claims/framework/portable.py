"""How every processor of a kind gives the same numbers: which instructions the libraries below lplab may use.

PyTorch, its matrix library (MKL), numpy and OpenBLAS choose their loops by the processor. Loops differ in the order in
which they add, so their results differ in the last bits. A training of some hundred steps then ends as differently as
with another seed. Here all of them are held to loops that every x86-64 processor with AVX2 has, from Intel or AMD, and
oneDNN, which chooses by the sizes of caches, too, is left out. Convolutions take about 1.6 times as long then.

One loop cannot be chosen: the square roots of Adam, in float32. MKL begins them with an approximation of the processor,
which is not the same on all processors. They are taken in float64 and rounded.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING
from unittest.mock import patch

if TYPE_CHECKING:
    from torch import Tensor

ACTIVE = "LPLAB_PORTABLE"  # holds NAME in a process that was started with the settings
NAME = "AVX2"
_SETTINGS = {
    "ATEN_CPU_CAPABILITY": "avx2",  # PyTorch's own loops
    "MKL_CBWR": "COMPATIBLE",  # MKL: the same on processors of other makers
    "OPENBLAS_CORETYPE": "Haswell",  # numpy's matrix products
}


def settings() -> dict[str, str]:
    """Variables of the environment that a process needs from its start; none where the processor is no x86-64.

    >>> settings().get(ACTIVE, NAME)
    'AVX2'
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return {}
    from numpy._core._multiarray_umath import __cpu_dispatch__ as loops  # type: ignore[import-not-found,unused-ignore]

    wider = ",".join(name for name in loops if "512" in name or name.endswith("V4"))
    return {**_SETTINGS, "NPY_DISABLE_CPU_FEATURES": wider, ACTIVE: NAME}


def instructions(environment: Mapping[str, str] = os.environ) -> str:
    """Which instructions this process takes: "AVX2" with the settings, else "of the processor".

    >>> instructions({}), instructions({"LPLAB_PORTABLE": "AVX2"})
    ('of the processor', 'AVX2')
    """
    return environment.get(ACTIVE) or "of the processor"


def run_again(arguments: Sequence[str], program: Sequence[str] = ("-m", "lplab")) -> int | None:
    """Run ``lplab`` with these arguments in a process with the settings; None if this one has them, or none exist.

    Where the system can, the new process takes the place of this one, and the function does not return.

    Args:
        arguments: of the command line.
        program: what Python runs, in place of ``lplab``: the path of a script.

    Returns:
        The other process's exit status.
    """
    wanted = settings()
    if not wanted or instructions() == NAME:
        return None
    command, environment = [sys.executable, *program, *arguments], {**os.environ, **wanted}
    if os.name == "nt":  # where a process that replaces itself has another number, and nobody waits for it
        return subprocess.run(command, env=environment).returncode
    sys.stdout.flush()
    os.execve(command[0], command, environment)  # the same process: who stops it, stops the measurement


@contextmanager
def portable_arithmetic() -> Iterator[None]:
    """Within the block, if this process has the settings: no oneDNN, and square roots of Adam that are rounded right.

    PyTorch takes its own convolutions and LSTM there.
    """
    if instructions() != NAME or find_spec("torch") is None:
        yield
        return
    import torch

    with ExitStack() as stack:
        with warnings.catch_warnings():  # PyTorch warns here of a setting for Intel's GPUs, which we leave as it is
            warnings.filterwarnings("ignore", "TF32 acceleration on top of oneDNN")
            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        # PyTorch's Adam takes either, all parameters at once or one by one
        stack.enter_context(patch.object(torch, "_foreach_sqrt", lambda tensors: [*map(_square_root, tensors)]))
        stack.enter_context(patch.object(torch.Tensor, "sqrt", _square_root))
        yield


def _square_root(x: Tensor) -> Tensor:
    """The correctly rounded square root of each element of a tensor of float32.

    The root of a number of 24 bits is at least 2⁻⁵⁰ away from the middle between two such numbers (for roots from 1
    to 2), because the square of the middle has 50 bits and is another number. In float64 MKL's root is less than 2⁻⁵²
    off, so that rounding it cannot go to the wrong side.
    """
    import torch

    return torch.sqrt(x.double()).to(x.dtype)
