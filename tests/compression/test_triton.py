"""AdaComp's choice by Triton: in its interpreter on every machine that has Triton, and on a GPU."""

from tests.compression import triton_cases as cases
from tests.interpreted import both, interpreter  # noqa: F401

test_select, test_select_on_a_gpu = both(cases.select, cases.SETTINGS)
