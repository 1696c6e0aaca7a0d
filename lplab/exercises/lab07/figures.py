"""The student's two phases and GradScale in figures, beside the library's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.exercises.notebook import Text
from lplab.exercises.student_figures import results_of

POINTS = np.exp2(np.linspace(-8.4, 6.4, 75))


def draw_phases(function: Callable[..., Any]) -> Any:
    """A live figure of both phases and of what a function makes of them, or a line that says what it waits for.

    Args:
        function: takes an array and a scale, and returns two arrays: for dx and for dW.
    """
    from lplab import figures, widgets  # drawn in a notebook only

    try:
        for_dx, for_dw = results_of(function, [(POINTS, 1.0)])[0]
        drawn = figures.phases((POINTS, for_dx, for_dw))
    except (ValueError, TypeError) as problem:
        return _waits(function, "both phases", problem)
    return widgets.LiveFigure(drawn)


def draw_scales(function: Callable[..., Any]) -> Any:
    """A live figure of the scales of all layers of a recorded training, as a function lets them follow it.

    Args:
        function: takes max|dy| of each step, an array, and the first scale, and returns the scale of each step.
    """
    from lplab import figures, widgets
    from lplab.quantizers.gradscale import scales_of
    from lplab.recordings import gradient_maxima

    recorded = gradient_maxima()
    largest = {layer: recorded.of(layer).astype(np.float64) for layer in recorded.layers}
    library = {layer: scales_of(values) for layer, values in largest.items()}
    try:
        results = results_of(function, [(values, 1.0) for values in largest.values()])
        yours = dict(zip(largest, (np.asarray(scales, np.float64) for scales in results), strict=True))
        drawn = figures.layer_scales(library, yours)
    except (ValueError, TypeError) as problem:
        return _waits(function, "the scales of 21 layers", problem)
    return widgets.LiveFigure(drawn)


def _waits(function: Callable[..., Any], what: str, problem: Exception) -> Text:
    return Text(f"Here {what} as your {function.__name__} makes them will be drawn (now: {problem}).")
