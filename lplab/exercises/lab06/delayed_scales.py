"""Exercise 06.2: the scales of delayed scaling, from what earlier steps have shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal, sequence_text
from lplab.exercises.lab06.delayed_ranges import LAYERS, LENGTHS, MARGINS, library_scales, recorded_amax
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShape
from lplab.exercises.student_figures import NotReady, as_array, read_results, student_figure
from lplab.formats import get


def delayed_scales(amax, length, largest, margin):
    """The scale of each step, from the largest magnitudes of up to `length` steps before it."""
    scales = np.zeros(len(amax))
    for t in range(len(amax)):
        seen = amax[max(0, t - length) : t] if t > 0 else amax[:1]
        scales[t] = max(seen) * 2.0**margin / largest
        if scales[t] == 0:
            scales[t] = scales[t - 1]
    return scales


SEEN, FIRST, SCALE = "amax[max(0, t - length) : t]", " if t > 0 else amax[:1]", "max(seen) * 2.0**margin / largest"
ZERO = "        if scales[t] == 0:\n            scales[t] = scales[t - 1]\n"
TOLERANCE = 1e-15  # relative: a product and a quotient, in either order, each off by at most 2^−53
SPIKE = np.array([1.0, 1.0, 1.0, 64.0, 1.0, 1.0, 1.0, 1.0, 1.0])


def scale_cases() -> list[Args]:
    """Spikes, falls, zeros and noise; short and long histories, formats and margins."""
    rng = np.random.default_rng(2019)
    noise = 2.0 ** rng.integers(-6, 7, 24)
    series = [
        SPIKE,
        SPIKE[::-1].copy(),
        np.array([3.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 5.0]),
        np.array([0.125]),
        np.arange(1.0, 12.0),
        noise,
    ]
    settings = ((1, 448.0, 0), (2, 448.0, 1), (3, 30.0, 0), (4, 57344.0, -1), (16, 127.0, 2))
    return [(amax, *setting) for amax in series for setting in settings]


def recorded_calls() -> list[Args]:
    """The largest gradients of three layers in 400 recorded steps."""
    return [(recorded_amax(layer), length, 448.0, 1) for layer in LAYERS for length in (1, 16)]


def library_agrees(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether every scale is the one of `quantizers.DelayedScaling` on recorded gradients, to the last bit or so."""
    for args, yours in zip(calls, results, strict=True):
        expected = library_scales(args[0], args[1], "e4m3fn", args[3])
        wrong = np.flatnonzero(~(np.abs(np.asarray(yours, np.float64) - expected) <= TOLERANCE * expected))
        if len(wrong):
            t = int(wrong[0])
            text = f"In step {t} of a recorded training yours is {decimal(float(yours[t]))}, expected {decimal(float(expected[t]))}"
            return Finding(f"{text} (history of {args[1]}).", args, yours)
    return None


def show_series(args: Args) -> str:
    """The arguments: short series in full."""
    amax = np.asarray(args[0])
    text = "[" + ", ".join(map(decimal, amax.tolist())) + "]" if amax.size <= 12 else sequence_text(amax)
    return f"amax = {text}, length = {args[1]}, largest = {decimal(args[2])}, margin = {args[3]}"


def why_scales(args: Args, expected: Any) -> str:
    """What the first steps have seen."""
    amax, length, _, _ = args
    seen = [f"step {t} has seen {sequence_text(amax[max(0, t - length) : t])}" for t in range(1, min(len(amax), 5))]
    return "; ".join([f"Step 0 takes its own {decimal(amax[0])}", *seen]) + ("; …" if len(amax) > 5 else "") + "."


DELAYED = Exercise(
    id="06.2",
    version=4,
    title="Delayed scaling",
    goal="Goal 2: choose a scale before the tensor is there",
    minutes=15,
    difficulty=2,
    statement=r"""
        In step $t$ a tensor has the largest magnitude `amax[t]`. The scale comes from the `length` steps before $t$:

        $$s_t=2^{\text{margin}}\cdot\max(\text{amax of these steps})\,/\,\text{largest}$$

        - `largest` is the largest number of the format.
        - Where fewer steps came before, take all that there are.
        - Step 0 has no history. Take `amax[0]` (not 0) as the maximum.
        - Where the whole history is 0, the scale stays as it was.

        Write `delayed_scales(amax, length, largest, margin)`. It returns the scales of all steps, as an array or a list.
    """,
    reference=delayed_scales,
    form=SameShape(0, lists=True),
    tolerance=TOLERANCE,
    show=show_series,
    why=why_scales,
    examples=(
        Example((np.array([4.0, 4.0, 4.0]), 16, 448.0, 0), "Nothing moves: 4 becomes the largest number, 448."),
        Example((SPIKE, 3, 1.0, 0), "The spike of step 3 is not known in step 3: there it is clipped. Steps 4, 5 and 6 remember it, step 7 has forgotten it."),
        Example((SPIKE, 1, 1.0, 0), "A history of one: the step before, and nothing else."),
        Example((np.array([1.0, 2.0, 4.0, 8.0, 16.0]), 3, 1.0, 0), "Before step 1 came one step, before step 2 two: fewer than three, so all of them count."),
        Example((np.array([8.0, 4.0, 2.0, 1.0]), 2, 1.0, 0), "Falling: the first step has its own amax, the second the first's; then the larger of the two before."),
        Example((np.array([1.0, 2.0, 4.0, 8.0]), 16, 1.0, 1), "Rising by an octave each step: with a margin of one octave nothing is clipped."),
        Example((np.array([2.0, 0.0, 0.0, 0.0, 6.0, 0.0]), 2, 1.0, 0), "Two zeros are all that is remembered: the scale stays, as a scale of 0 could not be divided by."),
        Example((np.array([448.0, 30.0]), 4, 448.0, -1), "A negative margin: half of the history's maximum is the end of the range."),
    ),
    boundary=scale_cases,
    properties=(Property("the scales are those of the library's delayed scaling on recorded gradients", recorded_calls, library_agrees),),
    mistakes=(
        mistake("immediate scaling: the step's own amax", SEEN + FIRST, "amax[t : t + 1]"),
        mistake("the present step is part of its history", SEEN + FIRST, "amax[max(0, t - length + 1) : t + 1]"),
        mistake("the history is one step longer", "max(0, t - length)", "max(0, t - length - 1)"),
        mistake("nothing is ever forgotten", "max(0, t - length)", "0"),
        mistake("the history begins only when it is full", SEEN + FIRST, "amax[t - length : t] if t >= length else amax[: max(1, t)][-1:]"),
        mistake("a start below 0 counts from the end: amax[t − length : t] is empty or wrong there", SEEN + FIRST, "amax[t - length : t] if len(amax[t - length : t]) else amax[:1]"),
        mistake("the latest step alone", SEEN, "amax[t - 1 : t]"),
        mistake("the mean of the history", "max(seen)", "np.mean(seen)"),
        mistake("the smallest of the history", "max(seen)", "min(seen)"),
        mistake("the margin takes room away", "2.0**margin", "2.0**-margin"),
        mistake("the margin counts factors instead of octaves", "2.0**margin", "(1 + margin)"),
        mistake("the scale multiplies before rounding: the inverse", SCALE, "largest / (max(seen) * 2.0**margin or 1)", "scales[t] == 0", "max(seen) == 0"),
        mistake("the scale is rounded up to a power of two", SCALE, "(2.0 ** np.ceil(np.log2(max(seen) * 2.0**margin / largest)) if max(seen) else 0)"),
        mistake("the first step has scale 1", ZERO, ZERO + "    scales[0] = 1.0\n"),
        mistake("zeros make the scale 0", ZERO, ""),
        mistake("zeros make the scale 1", "scales[t] = scales[t - 1]\n", "scales[t] = 1.0\n"),
        mistake("the margin is left out in the first step", ZERO, ZERO + "    scales[0] = amax[0] / largest\n"),
    ),
    hints=(
        "Write down for the series 1, 1, 1, 64, 1, 1 and a history of 3 which numbers step 3 has seen, and which step 4.",
        "amax[max(0, t − length) : t] are the steps before t; for t = 0 that is empty, so take amax[:1] there. The scale turns the maximum, with its margin, into the largest number.",
        "One loop over t with three parts: which steps are seen, the scale from their maximum, and what happens where that scale is 0. Try the series 2, 0, 0, 0, 6, 0 with a history of 2 by hand.",
    ),
)


@student_figure("Here your {name} will be drawn over 400 steps of a training, with sliders for the history and the margin")
def draw_delayed(function: Callable[..., Any], layer: str = LAYERS[0], format: str = "e4m3fn") -> Any:
    """A live figure with two sliders: what the student's delayed scales can hold in 400 recorded steps.

    Args:
        function: takes largest magnitudes, the length of the history, the largest number and the margin.
        layer: a layer of `lplab.recordings.gradient_maxima`.
        format: whose largest number counts.

    Returns:
        A `DelayedExplorer`.
    """
    from lplab.exercises.lab06.delayed_explorer import DelayedExplorer  # drawn in a notebook only

    amax, largest = recorded_amax(layer), get(format).max
    settings = list(product(LENGTHS, MARGINS))
    calls = [(amax, length, largest, margin) for length, margin in settings]
    ends = {}
    for setting, scales in zip(settings, read_results(function, calls, DELAYED.form, as_array), strict=True):
        if np.shape(scales) != amax.shape:
            raise NotReady(f"it returns {np.size(scales)} scales for {amax.size} steps")
        ends[setting] = scales * largest
    return DelayedExplorer(ends, layer, format)
