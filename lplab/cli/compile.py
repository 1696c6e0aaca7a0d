"""``lplab compile``: compile the inner loops before they are needed."""

import argparse
import importlib.util
import os
import time
from typing import Any

import numpy as np

from lplab.cli.command import BadInputError, add_command

SIZE = 2**16  # elements: enough for every format to take its compiled loop
ADDED = ("nearest_even", "stochastic")  # roundings of sums that the labs use
ACCUMULATORS = ("dlfloat16", "bf16")  # other formats of their widths have the same loops
EXPLORERS = ("ScaleExplorer", "SumExplorer")  # their sliders reach loops of their own: sizes of blocks, registers


def add_compile(commands: Any) -> None:
    """Add ``lplab compile``."""
    text = "compile the inner loops now (90 seconds of one core), so that no first use of a format waits for it"
    add_command(commands, run_compile, "compile", text, "lplab compile")


def run_compile(args: argparse.Namespace) -> int:
    """Round to every format, add in few bits, select, and move sliders, so that numba stores the loops; say how long.

    numba stores loops beside the modules, or in the user's cache folder. Loops that are there already are only read.
    """
    from lplab.formats import ROUNDINGS
    from lplab.formats.paths.kernel_selection import available

    if not available():
        raise BadInputError("there is nothing to compile without numba: pip install 'lplab[fast]'")
    from joblib import Parallel, delayed

    began = time.perf_counter()
    added = ((accumulator, chunk, mode) for accumulator in ACCUMULATORS for chunk in (None, 64) for mode in ADDED)
    work = [
        *(delayed(_add)(*each) for each in added),
        *(delayed(_round)(mode) for mode in ROUNDINGS),
        delayed(_select)(),
        *(delayed(_move)(name) for name in EXPLORERS if importlib.util.find_spec("anywidget")),
    ]
    Parallel(n_jobs=min(len(work), os.cpu_count() or 1))(work)
    print(f"The inner loops are compiled ({time.perf_counter() - began:.0f} s).")
    return 0


def _round(mode: str) -> None:
    from lplab import formats

    x = np.linspace(-2, 2, SIZE, dtype=np.float32)
    for name in formats.names():
        formats.get(name).quantize(x, rounding=mode)


def _add(accumulator: str, chunk: int | None, mode: str) -> None:
    from lplab import arithmetic

    a, b = (np.linspace(-1, 1, SIZE, dtype=np.float32).reshape(shape) for shape in ((64, -1), (-1, 64)))
    seed = 0 if mode == "stochastic" else None
    arithmetic.matmul(a, b, accumulator, chunk=chunk, rounding=mode, seed=seed)
    arithmetic.sum(a.ravel(), accumulator, chunk=chunk, rounding=mode, seed=seed)


def _select() -> None:
    from lplab.compression import AdaComp, adacomp, arrays

    x = np.linspace(-1, 1, SIZE, dtype=np.float32)
    selection = adacomp.adacomp_select(x, x, AdaComp(), bin=500)
    arrays.is_finite(x)
    total = np.empty_like(x)
    arrays.add_finite(x, x, total)
    arrays.add_finite(x, total, total)
    arrays.take_sent(total, selection.indices)


def _move(name: str) -> None:
    """Move every slider and list of an explorer to all its places, beginning at each preset."""
    from lplab import widgets

    explorer = getattr(widgets, name)()
    choices = {
        field: [option[1] if isinstance(option, tuple) else option for option in getattr(control, "options", ())]
        for field, control in explorer.controls.items()
    }
    presets = [*explorer.preset_fields.values()] or [{"preset": value} for value in choices["preset"]]
    for start in ({}, *presets):
        for field, values in choices.items():
            explorer.reset()
            explorer.set(**start)
            for value in values:
                explorer.set(**{field: value})
