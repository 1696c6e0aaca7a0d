"""Rounding and codes by Triton: in its interpreter on every machine that has Triton, and on a GPU with real sizes."""

import re
from importlib.util import find_spec

import pytest
import torch

from lplab import formats as F
from tests import golden
from tests.formats import triton_cases as cases
from tests.interpreted import both, compiling, interpreter  # noqa: F401
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
test_codes_of_blocks, test_codes_of_blocks_on_a_gpu = both(
    cases.codes_of_blocks,
    [
        *("mxfp8_e4m3", "mxfp6_e2m3", "mxfp4", "mxint8", "nvfp4", "e4m3fn in tiles of 3 × 5, rceil"),
        *("nvfp4 in tiles of 16 × 16", "e4m3fn, scales of float32"),
    ],
)
test_layouts, test_layouts_on_a_gpu = both(cases.layouts, ["e4m3fn", "int8", "lns8", "mxfp4", "nvfp4"])
test_stretches, test_stretches_on_a_gpu = both(cases.stretches, ["e4m3fn"])
test_phases, test_phases_on_a_gpu = both(cases.phases, ["nearest_away", "toward_zero"])
test_gradients, test_gradients_on_a_gpu = both(cases.gradients, ["e4m3fn", "mxfp4"])


def test_every_format_is_compared():
    assert set(golden.ELEMENTWISE) | set(golden.BLOCKED) >= set(F.names())


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed (the extra `gpu`)")
def test_kernels_compile_for_a_gpu_with_no_operation_that_rounds_otherwise(tmp_path, monkeypatch):
    """Whether or not a GPU is here: no product is fused with an addition, no quotient is approximate."""
    from lplab.formats.gpu import dispatch

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    assembly = {}
    with compiling(assembly):
        for name, mode in [("e4m3fn", "nearest_even"), ("bf16", "stochastic"), ("radix4_fp4_even", "nearest_even")]:
            dispatch.encode(F.get(name), torch.ones(8), F.Rounding(), 0)
            dispatch.quantize(F.get(name).rounding_spec, F.Rounding(mode), torch.ones(8), torch.ones(8))
        dispatch.decode(F.get("e4m3fn"), torch.ones(8, dtype=torch.uint8))
        fmt = F.IntFormat(8, scale=0.3)
        dispatch.quantize(fmt.rounding_spec, F.Rounding("up"), torch.ones(8).double(), torch.ones(8).double())
        for name in ("mxfp4", "nvfp4"):
            fmt, x, how = F.get(name), torch.ones(3, 40).bfloat16(), F.Rounding("stochastic")
            dispatch.quantize(fmt.rounding_spec, how, x, x, axis=0)
            for size, factor in ((16, 1.0), (64, 0.75)):
                dispatch.quantize_transformed(fmt.rounding_spec, how, (1.0, -1.0) * (size // 2), x, 0, 0, factor)
            codes = dispatch.encode_blocks(fmt.element, fmt.scale, fmt.rounding_spec, x, how, 0, 1)
            dispatch.decode_blocks(fmt.element, fmt.scale, fmt.rounding_spec, *codes[:3], 1)
    kernels = {"elementwise", "encoded", "decoded", "power_of_two_blocks", "largest_of_blocks", "rounded_scale_blocks"}
    kernels |= {"encoded_power_of_two_blocks", "encoded_rounded_scale_blocks", "decoded_blocks"}
    assert assembly.keys() == kernels
    for name, text in assembly.items():
        assert not re.search(r"\bfma\.|\.approx|\.full|(add|sub|mul|div)\.\w*\.?ftz", text), name
    assert "div.rn.f32" in assembly["power_of_two_blocks"] and "div.rn.f32" in assembly["rounded_scale_blocks"]
    assert "div.rn.f64" in assembly["elementwise"]
