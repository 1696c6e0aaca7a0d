"""``python -m benchmarks [PART …]``: the parts by name, or all that need neither a browser nor many minutes."""

import sys

from benchmarks import arithmetic, compression, explorers, formats, gpu, grading, kernels, parallel, training

PARTS = {
    "formats": formats.main,
    "arithmetic": arithmetic.main,
    "compression": compression.main,
    "training": training.main,
    "parallel": parallel.main,
    "explorers": explorers.main,
    "grading": grading.main,
    "kernels": kernels.main,
    "gpu": gpu.main,
}
BY_NAME = {"explorers", "grading", "kernels", "gpu"}  # a browser, many minutes, many minutes, a GPU

chosen = [name for name in sys.argv[1:] if name in PARTS] or [name for name in PARTS if name not in BY_NAME]
sys.argv[1:] = [argument for argument in sys.argv[1:] if argument not in PARTS]
sys.exit(max([PARTS[name]() for name in chosen]))
