"""Rounding and codes by Triton: in its interpreter on every machine that has Triton, and on a GPU with real sizes."""

from lplab import formats as F
from tests import golden
from tests.formats import triton_cases as cases
from tests.interpreted import both, interpreter  # noqa: F401
from tests.kinds import EXAMPLES

CODES = [
    *sorted(EXAMPLES & set(golden.ELEMENTWISE)),
    "float 4-3, fn, infinite",
    "float 10-20",
    "float 2-0",
    "uneven",
    "int16",
]

test_rounding, test_rounding_on_a_gpu = both(cases.rounding, golden.ELEMENTWISE)
test_codes, test_codes_on_a_gpu = both(cases.codes, CODES)
test_blocks, test_blocks_on_a_gpu = both(cases.blocks, golden.BLOCKED)
test_layouts, test_layouts_on_a_gpu = both(cases.layouts, ["e4m3fn", "int8", "lns8", "mxfp4", "nvfp4"])
test_stretches, test_stretches_on_a_gpu = both(cases.stretches, ["e4m3fn"])
test_gradients, test_gradients_on_a_gpu = both(cases.gradients, ["e4m3fn", "mxfp4"])


def test_every_format_is_compared():
    assert set(golden.ELEMENTWISE) | set(golden.BLOCKED) >= set(F.names())
