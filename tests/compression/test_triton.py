"""AdaComp's choice by Triton: in its interpreter on every machine that has Triton, and on a GPU."""

import re
from importlib.util import find_spec

import pytest
import torch

from tests.compression import triton_cases as cases
from tests.interpreted import both, compiling, interpreter  # noqa: F401

test_select, test_select_on_a_gpu = both(cases.select, cases.SETTINGS)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed (the extra `gpu`)")
def test_the_kernel_compiles_for_a_gpu_and_fuses_nothing(tmp_path, monkeypatch):
    from lplab.compression import gpu_selection

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    x, assembly = torch.ones(1000), {}
    with compiling(assembly):
        gpu_selection.select(x, x, 1.5, 50, (False, True, True), torch.empty_like(x))
    assert not re.search(r"\bfma\.|(add|sub|mul)\.\w*\.?ftz", assembly["select"])
