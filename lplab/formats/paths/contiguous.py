"""Round contiguous numpy memory: with a compiled loop where one serves, else with whole-array operations.

The choice never changes a bit of the result. ``LPLAB_NO_NUMBA=1`` switches the compiled loops off.
"""

from __future__ import annotations

import numpy as np

from lplab.formats import counter_rng
from lplab.formats.paths import array_kernels, block_rounding, kernel_selection
from lplab.formats.rounding import Rounding
from lplab.formats.rounding_spec import BlockSpec, Grid, Table

ELEMENTS_PER_STEP = 2**15  # what whole-array operations work on at a time stays in the processor's cache
ELEMENTS_PER_KEY = 2**32  # elements that share a pair of random keys


def round_flat(x: np.ndarray, out: np.ndarray, spec: Grid | Table, rounding: Rounding, seed: int) -> None:
    """Round a flat array into another one (or into itself)."""
    for start in range(0, x.size, ELEMENTS_PER_KEY):
        part = slice(start, start + ELEMENTS_PER_KEY)
        key = counter_rng.keys(seed, start // ELEMENTS_PER_KEY)
        if not kernel_selection.quantize(x[part], out[part], spec, rounding, key):
            _by_arrays(x[part], out[part], spec, rounding, key)


def _by_arrays(x: np.ndarray, out: np.ndarray, spec: Grid | Table, rounding: Rounding, key: tuple[int, int]) -> None:
    for first in range(0, x.size, ELEMENTS_PER_STEP):
        part = x[first : first + ELEMENTS_PER_STEP]
        draws = None
        if rounding.is_stochastic:
            draws = counter_rng.random_bits(np, key, first, part.size, rounding.random_bits)
        out[first : first + ELEMENTS_PER_STEP] = array_kernels.quantize(np, part, spec, rounding, draws)


def round_rows(rows: np.ndarray, out: np.ndarray, spec: BlockSpec, rounding: Rounding, seed: int) -> None:
    """Round the blocks of [rows, length] into another array (or into themselves)."""
    if not kernel_selection.quantize_blocks(rows, out, spec, rounding, seed):
        out[...] = block_rounding.quantize(np, rows, spec, rounding, seed)
