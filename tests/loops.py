"""Compile the inner loops of the default tier beforehand: python -m tests.loops.

start.py calls it when it sets up the tests, after ``lplab compile``: a fresh clone spends a minute and a half of a core
on these loops, which are those of formats and sums that no lab has. Loops that are there already are only read.
"""

import os

import numpy as np
from joblib import Parallel, delayed

from lplab import formats as F
from lplab.arithmetic import Accumulator
from lplab.formats.paths import kernel_selection
from tests.arithmetic.operands import KINDS, operand
from tests.arithmetic.test_paths import EVERY_WAY, compiled
from tests.formats.paths.test_paths import DETERMINISTIC, EXOTIC, STOCHASTIC, by_kernel
from tests.formats.probes import ELEMENTWISE

FEW, MANY = ((3, 13), (13, 2)), ((96, 64), (64, 128))  # shapes of operands with few columns, and many
NARROW = [Accumulator(name, chunk=16) for name in ("dlfloat16", "fp16", "e5m2", "bf16")]


def round_to_every_format(rounding: F.Rounding) -> None:
    """The exotic formats, too, in both words."""
    for name in (*ELEMENTWISE, *EXOTIC):
        fmt = EXOTIC[name] if name in EXOTIC else F.get(name)
        for word in (np.float32, np.float64):
            by_kernel(np.ones(kernel_selection.MIN_COMPILED_SIZE, word), fmt, rounding)


def multiply(accumulator: Accumulator, shapes: tuple[tuple[int, int], tuple[int, int]], kinds: tuple[str, ...]) -> None:
    """Operands of several kinds: each may need another loop."""
    rng = np.random.default_rng(0)
    for kind in kinds:
        a, b = (operand(kind, shape, rng) for shape in shapes)
        compiled(a, b, accumulator)


def main() -> None:
    """Compile on all cores, if there is a compiler."""
    if not kernel_selection.available():
        return
    rounded = (delayed(round_to_every_format)(mode) for mode in DETERMINISTIC + STOCHASTIC[2::6])
    added = (delayed(multiply)(way, FEW, ("spread", "patterns")) for way in EVERY_WAY)
    narrow = (delayed(multiply)(accumulator, shapes, KINDS) for accumulator in NARROW for shapes in (FEW, MANY))
    Parallel(n_jobs=os.cpu_count())([*rounded, *added, *narrow])


if __name__ == "__main__":
    main()
