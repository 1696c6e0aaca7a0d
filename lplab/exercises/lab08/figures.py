"""The student's selection in a figure, beside the library's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.exercises.notebook import Text
from lplab.exercises.student_figures import results_of
from lplab.recordings.adacomp import adacomp_recording

LAYER, MOMENT = "convolution", 30
SHOWN = 200  # elements: four bins of 50


def draw_selection(function: Callable[..., Any]) -> Any:
    """A live figure of four bins of a real layer, with crosses where a function selects otherwise than the library.

    Args:
        function: takes residue, gradient and the length of a bin, and returns symbols −1, 0 and 1.
    """
    from lplab import figures, widgets  # drawn in a notebook only

    window = adacomp_recording().window(LAYER, MOMENT)
    r, g, sent, limit = (x[:SHOWN] for x in (window.residual, window.gradient, window.sent, window.limit))
    try:
        yours = np.asarray(results_of(function, [(r, g, window.bin)])[0], np.float64)
        if yours.shape != r.shape:
            raise ValueError(f"it returns an array of shape {yours.shape}; one of shape {r.shape} is needed")
        drawn = figures.adacomp_bins(r, g, sent, limit, window.scale, bin=window.bin, yours=yours)
    except (ValueError, TypeError) as problem:
        return Text(f"Here what your {function.__name__} sends of a real layer will be drawn (now: {problem}).")
    return widgets.LiveFigure(drawn)
