"""``python -m benchmarks [PART …]``: the parts by name, or all of them. A new part is a new row."""

import sys

from benchmarks import arithmetic, compression, formats, training

PARTS = {
    "formats": formats.main,
    "arithmetic": arithmetic.main,
    "compression": compression.main,
    "training": training.main,
}

chosen = [name for name in sys.argv[1:] if name in PARTS] or list(PARTS)
sys.argv[1:] = [argument for argument in sys.argv[1:] if argument not in PARTS]
sys.exit(max([PARTS[name]() for name in chosen]))
