"""Products by Triton: in its interpreter on every machine that has Triton, and on a GPU."""

from tests.arithmetic import triton_cases as cases
from tests.interpreted import both, interpreter  # noqa: F401

test_products, test_products_on_a_gpu = both(cases.products, cases.ACCUMULATORS)
test_layouts, test_layouts_on_a_gpu = both(cases.layouts, ["1-6-9 in chunks"])
