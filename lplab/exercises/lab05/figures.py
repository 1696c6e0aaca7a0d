"""The student's chunked dot product in a figure: its error for every chunk, beside the library's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab import arithmetic
from lplab.exercises.lab05.rounding import fp8_numbers
from lplab.exercises.notebook import Text
from lplab.exercises.student_figures import results_of

COUNT = 16_384
CHUNKS = tuple(2**k for k in range(15))


def draw_chunked(function: Callable[..., float]) -> Any:
    """A live figure of the errors of a dot product of two FP8 vectors, or a line that says what it waits for.

    Args:
        function: takes two vectors and the length of a chunk, and returns one number.
    """
    from lplab import figures, widgets  # drawn in a notebook only

    x, y = fp8_numbers(COUNT, 1), fp8_numbers(COUNT, 2)
    true = float(x @ y)
    try:
        results = np.array(results_of(function, [(x, y, chunk) for chunk in CHUNKS]), dtype=np.float64)
    except (ValueError, TypeError) as problem:
        return Text(f"Here your {function.__name__} will be drawn beside the library's (now: {problem}).")
    library = [float(arithmetic.dot(x, y, "dlfloat16", chunk=chunk)) for chunk in CHUNKS]
    errors, yours = (np.abs(np.array(sums) - true) / true for sums in (library, results))
    return widgets.LiveFigure(figures.chunk_error(CHUNKS, errors, yours, name=f"{COUNT:,} products of FP8"))
