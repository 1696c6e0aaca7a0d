"""The student's functions in figures: a loss scale in a real training, and the largest scale of every layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.exercises.notebook import Text
from lplab.exercises.student_figures import results_of

ROLE = "output_gradient_dx"
FP16 = -25, 16  # below 2^−25 zero, from 2^16 on overflow


def train_with(rule: Callable[..., Any], **run: Any) -> Any:
    """A live training in emulated float16 that a rule for the loss scale drives; see `lplab.widgets.train_with_scale`.

    Args:
        rule: function of (scale, good_steps, finite, interval) that returns the next scale and the next count.
        **run: ``steps``, ``interval``, ``start``.
    """
    from lplab import widgets  # shown in a notebook only

    return widgets.train_with_scale(rule, **run)


def draw_scales(function: Callable[..., Any]) -> Any:
    """A live figure of the largest loss scale of every layer over a recorded training, as a function reads them.

    Args:
        function: takes counts, the exponent of the lowest octave, and the two ends of a format, and returns the
            exponent of a scale, and a share.
    """
    from lplab import figures, widgets
    from lplab.exercises.lab03.largest_scale import largest_scale
    from lplab.recordings.magnitudes import LOWEST, recorded
    from lplab.widgets.explorers.range_explorer import label_of

    recording = recorded("transformer")
    layers = recording.layers(ROLE)
    calls = [
        (recording.magnitudes(layer, ROLE, step).counts, LOWEST, *FP16) for layer in layers for step in recording.steps
    ]
    try:
        exponents = np.array([result[0] for result in results_of(function, calls)], np.float64)
        scales = np.exp2(exponents).reshape(len(layers), -1)
        names = [label_of(layer) for layer in layers]  # as the explorer calls them
        yours = dict(zip(names, scales, strict=True))
        known = np.exp2([float(largest_scale(*call)[0]) for call in calls]).reshape(len(layers), -1)
        drawn = figures.layer_scales(dict(zip(names, known, strict=True)), yours, steps=recording.steps)
    except (ValueError, TypeError, IndexError) as problem:
        return Text(f"Here the largest scales of {len(layers)} layers will be drawn (now: {problem}).")
    return widgets.LiveFigure(drawn)
