"""Exercise 07.4: GradScale, the scale of one layer that follows its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal, sequence_text
from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import SameShape
from lplab.exercises.student_figures import NotReady, as_array, read_results, student_figure


def grad_scale(largest, first):
    """The scale of each step: largest[t] is max|dy| of one layer in step t, unscaled; first is the scale of step 0."""
    scales, scale = np.empty(len(largest)), first
    for t, value in enumerate(largest):
        scales[t] = scale
        m = scale * value
        if not m <= 64:
            scale = scale / 2
        elif 0 < m <= 32:
            scale = scale * 2
    return scales


RECORD, UP, DOWN = "        scales[t] = scale\n        m = scale * value\n", "elif 0 < m <= 32:", "if not m <= 64:"
BRANCHES = "        if not m <= 64:\n            scale = scale / 2\n        elif 0 < m <= 32:\n            scale = scale * 2\n"


def cases() -> list[Args]:
    """Edges of the window, both neighbours, rises, falls, jumps, zeros, overflows, and a training of random maxima."""
    edges = [b * (1 + d) for b in (16.0, 32.0, 64.0, 128.0) for d in (0.0, 1e-12, -1e-12)]
    constant = [(np.full(6, value), 1.0) for value in edges]
    rng = np.random.default_rng(2020)
    walks = [(np.exp2(np.cumsum(rng.normal(0, s, 80)) - 14), 2.0**k) for s, k in ((0.2, 0), (0.7, 18), (2.0, 14))]
    odd = [np.array([8.0, 0.0, 0.0, 8.0]), np.array([8.0, np.inf, 8.0, np.nan, 8.0]), np.zeros(5)]
    jumps = [np.array([1e-6] * 10 + [1e3] * 10), np.array([1e-5] * 30)]
    return [*constant, *walks, *((x, 1.0) for x in odd), *((x, 64.0) for x in jumps), (np.array([]), 2.0)]


def show(args: Args) -> str:
    """The maxima and the first scale."""
    return f"the array largest = {sequence_text(args[0]) if len(args[0]) else '()'}, first = {decimal(args[1])}"


def why(args: Args, expected: Any) -> str:
    """What the layer sees in each of the first steps."""
    largest, scales = np.asarray(args[0]), np.asarray(expected)
    if not len(largest):
        return "No step, no scale."
    seen = [f"{s:g} · {x:g} = {s * x:g}" for s, x in zip(scales[:3], largest[:3], strict=True)]
    return f"In turn the layer sees m = {', '.join(seen)}{', …' if len(largest) > 3 else ''}."


GRAD_SCALE = Exercise(
    id="07.4",
    version=2,
    title="GradScale",
    goal="Goal 3: give each layer the scale that it needs",
    minutes=15,
    difficulty=2,
    statement=r"""
        Write `grad_scale(largest, first)`. The array `largest` holds max|dy| of one layer, unscaled, in every step; `first` is the scale of step 0. Return the scale that is **in force** in each step, an array as long as `largest` (a list will do). In a step the layer looks at $m = \text{scale}\cdot\max|dy|$, before anything is clipped; only then the scale of the **next** step is decided:
        half of it if $m > 64$, twice as much if $m \le 32$, else the same. Two cases in which the paper is silent: if $m$ is 0 the scale stays, and an infinite or NaN gradient counts as too large.
    """,
    reference=grad_scale,
    form=SameShape(0, lists=True),
    show=show,
    why=why,
    examples=(
        Example((np.array([1.0, 1.0, 1.0]), 1.0), "m = 1, 2, 4: too small each time, so the scale doubles: 1, 2, 4."),
        Example((np.array([1000.0, 1000.0, 1000.0]), 1.0), "m = 1000, 500, 250: too large, so it halves. The scale in force at the first step is first itself."),
        Example((np.array([40.0, 40.0]), 1.0), "Between 32 and 64 all is well."),
        Example((np.array([64.0, 64.0]), 1.0), "64 itself is the largest size: nothing is too large."),
        Example((np.array([32.0, 32.0]), 1.0), "At 32 itself nothing would be lost at twice the scale, so it doubles."),
        Example((np.array([3e-5] * 24), 1.0), "As in the paper: from 1 the scale needs 21 steps to 2²¹, where m = 62.9, and stays."),
        Example((np.array([0.0, 0.0, 8.0]), 2.0), "A gradient that is all zero says nothing about the scale."),
        Example((np.array([40.0, np.nan, 40.0]), 1.0), "NaN is neither above 64 nor below 32; it counts as too large."),
    ),
    boundary=cases,
    mistakes=(
        mistake("64 itself counts as an overflow", DOWN, "if not m < 64:"),
        mistake("32 itself counts as large enough", UP, "elif 0 < m < 32:"),
        mistake("the scale is changed first and used in the same step", RECORD, "        m = scale * value\n", BRANCHES, BRANCHES + "        scales[t] = scale\n"),
        mistake("measured after clipping: an overflow is never seen", "m = scale * value", "m = min(scale * value, 64.0)"),
        mistake("measured without the scale", "m = scale * value", "m = value"),
        mistake("it only grows: there is no way back", "scale = scale / 2", "scale = scale"),
        mistake("it only shrinks, as a loss scale that never grows again", "scale = scale * 2", "scale = scale"),
        mistake("doubled and halved are exchanged", "scale = scale / 2", "scale = scale * 2.0", "            scale = scale * 2\n", "            scale = scale / 2.0\n"),
        mistake("straight to the fitting power of two, in one step", "            scale = scale * 2\n", "            scale = 2.0 ** np.floor(np.log2(64 / value))\n"),
        mistake("straight to the fitting power of two, up and down", "scale = scale / 2", "scale = 2.0 ** np.floor(np.log2(64 / value)) if value < np.inf else scale / 2", "            scale = scale * 2\n", "            scale = 2.0 ** np.floor(np.log2(64 / value))\n"),
        mistake("the scale itself becomes 64/max|dy|, no power of two", BRANCHES, "        if 0 < value < np.inf:\n            scale = 64 / value\n"),
        mistake("growth waits for ten quiet steps, as in a loss scaler", UP, "elif 0 < m <= 32 and t % 10 == 9:"),
        mistake("zero is small, too: the scale of a layer without a gradient grows without end", UP, "elif m <= 32:"),
        mistake("NaN is overlooked: every comparison with it is false", DOWN, "if m > 64:"),
        mistake("the window begins at 16: two octaves wide", UP, "elif 0 < m <= 16:"),
        mistake("the window ends at 32, the largest value of the odd phase", DOWN, "if not m <= 32:", UP, "elif 0 < m <= 16:"),
        mistake("by a factor of four, as from size to size", "scale = scale / 2", "scale = scale / 4", "scale = scale * 2", "scale = scale * 4"),
    ),
    hints=(
        "Follow largest = 1, 1, 1 from the scale 1 on paper. Step 0: in force 1, m = 1 ≤ 32, so the next one is 2. Step 1: in force 2. So the answer begins 1, 2, not 2, 4.",
        "One loop over the steps; first note the scale that is in force, then measure, then decide. `not m <= 64` is true for NaN, too, `m > 64` is not.",
        "Where does a wrong answer leave the right one? One step early: the scale was changed before it was noted. At a zero: 0 ≤ 32 is true, but there the scale stays. At NaN: no comparison with NaN is true, so which of the two questions must be asked with `not`?",
    ),
)


@student_figure("Here the scales of 21 layers as your {name} makes them will be drawn")
def draw_scales(function: Callable[..., Any]) -> Any:
    """A live figure of the scales of all layers of a recorded training, as a function lets them follow it.

    Args:
        function: takes max|dy| of each step, an array, and the first scale, and returns the scale of each step.
    """
    from lplab import figures
    from lplab.quantizers.gradscale import scales_of
    from lplab.recordings import gradient_maxima

    recorded = gradient_maxima()
    largest = {layer: recorded.of(layer).astype(np.float64) for layer in recorded.layers}
    library = {layer: scales_of(values) for layer, values in largest.items()}
    results = read_results(function, [(values, 1.0) for values in largest.values()], GRAD_SCALE.form, as_array)
    yours = dict(zip(largest, results, strict=True))
    for layer, values in largest.items():
        if np.shape(yours[layer]) != values.shape:
            count = np.size(yours[layer])
            raise NotReady(f"it returns {count} scales for {len(values)} steps; both must be of one length")
    return figures.layer_scales(library, yours)
