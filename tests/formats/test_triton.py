"""The bits of the GPU's path: in Triton's interpreter on every machine that has Triton; on a GPU with real sizes."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec

import pytest

from lplab import formats as F
from tests import golden
from tests.formats import triton_cases as cases
from tests.kinds import EXAMPLES

interpreted = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed (the extra `gpu`)")
CODES = [*sorted(EXAMPLES & set(golden.ELEMENTWISE)), "float 4-3, fn, infinite", "float 10-20", "float 2-0", "uneven", "int16"]
FEW, MANY = 600, 2**22  # numbers of each kind of input


@pytest.fixture(scope="module")
def interpreter():
    """Runs a function of ``triton_cases`` in a process in which Triton interprets its kernels."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRITON_INTERPRET", "1")
        environment.setenv("LPLAB_NO_NUMBA", "1")  # else a compiled loop takes the tensors of the CPU
        environment.setenv("PYTHONWARNINGS", "ignore")
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), cases.interpret) as pool:
            yield lambda case, *arguments: pool.submit(case, *arguments).result()


def both(case, names):
    """The test of a case for each name: in the interpreter and, with more numbers, on a GPU."""

    @pytest.mark.slow
    @interpreted
    @pytest.mark.parametrize("name", names)
    def test_interpreted(name, interpreter):
        interpreter(case, name, "cpu", FEW)

    @pytest.mark.cuda
    @pytest.mark.parametrize("name", names)
    def test_on_a_gpu(name):
        case(name, "cuda", MANY)

    return test_interpreted, test_on_a_gpu


test_rounding, test_rounding_on_a_gpu = both(cases.rounding, golden.ELEMENTWISE)
test_codes, test_codes_on_a_gpu = both(cases.codes, CODES)
test_blocks, test_blocks_on_a_gpu = both(cases.blocks, golden.BLOCKED)
test_layouts, test_layouts_on_a_gpu = both(cases.layouts, ["e4m3fn", "int8", "lns8", "mxfp4", "nvfp4"])
test_stretches, test_stretches_on_a_gpu = both(cases.stretches, ["e4m3fn"])
test_gradients, test_gradients_on_a_gpu = both(cases.gradients, ["e4m3fn", "mxfp4"])


def test_every_format_is_compared():
    assert set(golden.ELEMENTWISE) | set(golden.BLOCKED) >= set(F.names())
