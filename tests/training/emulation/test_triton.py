"""Recipes whose rounding runs in Triton's interpreter train as on the CPU; test_devices.py has those of a GPU."""

from tests.interpreted import both, interpreter  # noqa: F401
from tests.training.emulation import triton_cases as cases

RECIPES = ["hfp8_2019", "int4_fp4_2020", "mxfp8_2025", "nvfp4_2025", "mxfp4_2025", "quartet_2025"]
test_training, _ = both(cases.training, RECIPES)
