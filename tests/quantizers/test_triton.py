"""Transforms and the rounding of their results by Triton: in its interpreter on every machine that has it, on a GPU."""

from tests.interpreted import both, interpreter  # noqa: F401
from tests.quantizers import triton_cases as cases

test_transforms, test_transforms_on_a_gpu = both(cases.transforms, ["16 nvfp4", "16 mxfp4", "64 mxfp4", "2 mxfp8_e4m3"])
test_pre_scaled, test_pre_scaled_on_a_gpu = both(cases.pre_scaled, ["mxfp4", "mxfp8_e4m3"])
test_transposed, test_transposed_on_a_gpu = both(cases.transposed, ["nvfp4", "mxfp4"])
test_tools, test_tools_on_a_gpu = both(cases.tools, ["nvfp4"])
