"""The GPU's path compared with numpy's: in Triton's interpreter on the CPU, and on a GPU where there is one.

A case is a function of a name, a device and a number of inputs that raises an error where bits differ. It lies in a
module that the process of the interpreter imports. On the device "cpu" it runs in that process.
"""

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from lplab.formats import gpu

FEW, MANY = 600, 2**20  # inputs of each kind, in the interpreter and on a GPU


def interpret() -> None:
    """Let tensors of the CPU take the GPU's path; for a process in which ``TRITON_INTERPRET=1`` is set."""
    from lplab.arithmetic import gpu_sums
    from lplab.formats.gpu import launch

    assert launch.compiler.IS_INTERPRETED
    gpu.DEVICES = ("cpu",)
    # The interpreter needs a millisecond for each program, however long; and little more for few sums than for one.
    launch.BLOCK, gpu_sums.TILES = 2**13, {"float32": 16, "float64": 16}


@contextmanager
def launches() -> Iterator[list[str]]:
    """The names of the kernels that run inside."""
    from lplab.formats.gpu import launch

    names, run = [], launch.launch

    def counted(kernel, *arguments, **constants):
        names.append(kernel.__name__)
        run(kernel, *arguments, **constants)

    launch.launch = counted
    try:
        yield names
    finally:
        launch.launch = run


@contextmanager
def compiling(assembly: dict[str, str]) -> Iterator[None]:
    """Compile kernels for a GPU that need not be there, instead of running them: their PTX by name of the kernel."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.jit import mangle_type

    from lplab.formats.gpu import launch

    def compile_for_a_gpu(kernel, programs, *arguments, fuses=False, **constants):
        values = zip(kernel.arg_names, arguments, strict=False)  # constants come last
        types = {name: "i32" if isinstance(value, int) else mangle_type(value) for name, value in values}
        source = ASTSource(kernel, signature=types | dict.fromkeys(constants, "constexpr"), constexprs=constants)
        made = triton.compile(source, GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": fuses})
        assembly[kernel.__name__] = assembly.get(kernel.__name__, "") + made.asm["ptx"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "launch", compile_for_a_gpu)
        yield


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Callable]:
    """Runs a case in a process in which Triton interprets its kernels."""
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), interpret)
    with pool, pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRITON_INTERPRET", "1")
        environment.setenv("LPLAB_NO_NUMBA", "1")  # else a compiled loop takes the tensors of the CPU
        environment.setenv("PYTHONWARNINGS", "ignore")
        pool.submit(int).result()  # the process begins now, and keeps this environment
        environment.undo()
        yield lambda case, *arguments: pool.submit(case, *arguments).result()


def both(case: Callable[[str, str, int], None], names: Iterable[str]) -> tuple[Callable, Callable]:
    """The tests of a case for each name: in the interpreter and, with more inputs, on a GPU."""
    names = list(names)

    @pytest.mark.slow
    @pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed (the extra `gpu`)")
    @pytest.mark.parametrize("name", names)
    def test_interpreted(name: str, interpreter: Callable) -> None:
        interpreter(case, name, "cpu", FEW)

    @pytest.mark.cuda
    @pytest.mark.parametrize("name", names)
    def test_on_a_gpu(name: str) -> None:
        case(name, "cuda", MANY)

    return test_interpreted, test_on_a_gpu
