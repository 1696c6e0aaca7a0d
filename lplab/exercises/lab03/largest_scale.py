"""Exercise 03.4: the largest loss scale that a histogram allows, and what is lost in spite of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import Numbers
from lplab.exercises.student_figures import read_results, student_figure


def largest_scale(counts, lowest, zero_below, overflow_from):
    """Exponent of the largest loss scale without overflow, and the share of gradients that still becomes zero."""
    filled = np.flatnonzero(counts)
    top = lowest + filled[-1] + 1
    exponent = overflow_from - top
    octave = lowest + np.arange(len(counts)) + exponent
    lost = counts[octave < zero_below].sum()
    return int(exponent), lost / counts.sum()


TOP, EXPONENT, LOST = "top = lowest + filled[-1] + 1", "exponent = overflow_from - top", "counts[octave < zero_below].sum()"
FP16, E5M2, E143 = (-25, 16), (-17, 16), (-14, 5)  # below 2^first zero, from 2^second on overflow


def histogram(seed: int, width: float, octaves: int) -> np.ndarray:
    """Counts of a bell over the octaves, from fixed seeds, with empty octaves at both ends."""
    rng = np.random.default_rng(seed)
    middle = rng.uniform(0.3, 0.7) * octaves
    places = np.rint(rng.normal(middle, width, 1000)).astype(int)
    return np.bincount(places[(places > 1) & (places < octaves - 3)], minlength=octaves)


def cases() -> list[Args]:
    """Narrow and wide histograms under three formats; single octaves, gaps, all of one size."""
    bells = [(seed, width) for seed, width in enumerate((1.0, 3.0, 6.0, 9.0, 14.0))]
    found: list[Args] = [
        (histogram(seed, width, 60), lowest, *edges) for seed, width in bells for lowest in (-50, -70, -20) for edges in (FP16, E5M2, E143)
    ]
    single = np.zeros(12, int)
    single[4] = 7
    gap = np.array([5, 0, 0, 3, 0, 0, 0, 1, 0])
    return [*found, (single, -30, *FP16), (single, 20, *FP16), (gap, -28, -20, -18), (gap, -28, -23, -18), (np.array([2, 6]), 0, 0, 4)]


def show(args: Args) -> str:
    """The filled part of the histogram."""
    counts, lowest, zero, over = args
    filled = np.flatnonzero(counts)
    shown = ", ".join(f"{counts[i]} from 2^{lowest + i}" for i in filled[:4])
    more = f", … {len(filled)} octaves, the last from 2^{lowest + filled[-1]}" if len(filled) > 4 else ""
    return f"counts: {shown}{more}; {len(counts)} octaves, lowest = {lowest}, zero_below = {zero}, overflow_from = {over}".replace("-", "−")


def why(args: Args, expected: Any) -> str:
    """Where the largest gradient lies, and where it may lie."""
    counts, lowest, _, over = args
    top = lowest + int(np.flatnonzero(counts)[-1]) + 1
    return f"All gradients lie below 2^{top}; they may reach up to 2^{over}.".replace("-", "−")


LARGEST = Exercise(
    id="03.4",
    version=2,
    title="The largest loss scale",
    goal="Goal 1: read from a histogram which gradients a format loses",
    minutes=10,
    difficulty=2,
    statement=r"""
        A histogram counts gradients by their size: `counts[i]` of them have magnitudes from $2^{lowest+i}$ up to $2^{lowest+i+1}$, that end not included. In a format, magnitudes below $2^{zero\_below}$ become zero, and magnitudes from $2^{overflow\_from}$ on overflow.

        Write `largest_scale(counts, lowest, zero_below, overflow_from)`. It returns two numbers: the exponent $k$ of the **largest** loss scale $2^k$ with which nothing overflows, and the **share** of all gradients that becomes zero in spite of this scale. Inside a bin you do not know where the gradients lie, so the whole highest bin that is not empty must fit. $k$ may be negative.
    """,
    reference=largest_scale,
    form=Numbers(count=2),
    tolerance=1e-13,  # of k, 1 at least: a share as a sum of 60 quotients, or as 1 minus another, is off by less than 1e-14
    show=show,
    why=why,
    examples=(
        Example((np.array([1, 2, 1]), -3, -25, 16), "Magnitudes end at 2⁰, the format at 2¹⁶: k = 16, and nothing is lost."),
        Example((np.array([1, 2, 1, 0, 0]), -3, -25, 16), "Two empty octaves on top change nothing."),
        Example((np.array([5, 0, 0, 0, 0, 0, 0, 0, 0, 5]), -40, -14, -6), "Ten octaves in a format of eight: the lowest lies below 2⁻¹⁴ after all, and half is lost."),
        Example((np.array([5, 0, 0, 0, 0, 0, 0, 5]), -40, -14, -6), "Eight octaves in a format of eight: they just fit."),
        Example((np.array([3, 1]), 20, -25, 16), "Gradients too large for the format: the scale is below 1."),
        Example((np.array([0, 0, 8]), -60, -25, 16), "All of one size: k = 73, as far as it goes."),
    ),
    boundary=cases,
    mistakes=(
        mistake("the lower end of the highest octave is made to fit, not the upper one", TOP, "top = lowest + filled[-1]"),
        mistake("empty octaves on top count, too", TOP, "top = lowest + len(counts)"),
        mistake("one octave is left free for safety", EXPONENT, "exponent = overflow_from - top - 1"),
        mistake("the most frequent magnitude is put to the end of the format, not the largest", TOP, "top = lowest + int(np.argmax(counts)) + 1"),
        mistake("the smallest gradient is made to survive, and the large ones overflow", EXPONENT, "exponent = zero_below - (lowest + filled[0])"),
        mistake("the scale is never below 1", EXPONENT, "exponent = max(overflow_from - top, 0)"),
        mistake("the scale 2**k is returned instead of its exponent k", "return int(exponent),", "return 2.0**exponent,"),
        mistake("the sign of the exponent", EXPONENT, "exponent = top - overflow_from"),
        mistake("the losses are counted without the scale", "np.arange(len(counts)) + exponent", "np.arange(len(counts))"),
        mistake("the scale works against the losses", "np.arange(len(counts)) + exponent", "np.arange(len(counts)) - exponent"),
        mistake("the octave that begins at the edge counts as lost", "octave < zero_below", "octave <= zero_below"),
        mistake("octaves that end at the edge count as kept", "octave < zero_below", "octave + 1 < zero_below"),
        mistake("the number of lost gradients, not the share", "lost / counts.sum()", "lost / 1.0"),
        mistake("octaves are counted instead of gradients", LOST, "np.count_nonzero(counts[octave < zero_below])", "lost / counts.sum()", "lost / len(filled)"),
        mistake("the share that survives", "lost / counts.sum()", "1 - lost / counts.sum()"),
    ),
    hints=(
        "For counts [1, 2, 1] and lowest −3 the octaves begin at 2⁻³, 2⁻², 2⁻¹, and the last one ends at 2⁰. Multiplied by 2^k everything moves k octaves up.",
        "np.flatnonzero(counts)[-1] is the highest octave that is not empty. Its upper end, lowest + i + 1, may move up to overflow_from. Afterwards an octave is lost if it begins below zero_below.",
        "The exponent k is overflow_from minus that upper end. With it, bin i begins at 2^(lowest + i + k): `np.arange(len(counts))` gives all i at once, and a comparison with zero_below chooses the bins that are lost.",
    ),
)


ROLE = "output_gradient_dx"


@student_figure("Here the largest scales of 21 layers will be drawn")
def draw_scales(function: Callable[..., Any]) -> Any:
    """A live figure of the largest loss scale of every layer over a recorded training, as a function reads them.

    Args:
        function: takes counts, the exponent of the lowest octave, and the two ends of a format, and returns the
            exponent of a scale, and a share.
    """
    from lplab import figures
    from lplab.recordings.magnitudes import LOWEST, recorded
    from lplab.widgets.explorers.range_explorer import label_of

    recording = recorded("transformer")
    layers = recording.layers(ROLE)
    calls = [
        (recording.magnitudes(layer, ROLE, step).counts, LOWEST, *FP16) for layer in layers for step in recording.steps
    ]
    exponents = read_results(function, calls, LARGEST.form, lambda result: float(result[0]))
    names = [label_of(layer) for layer in layers]  # as the explorer calls them
    library, yours = (
        dict(zip(names, np.exp2(each).reshape(len(layers), -1), strict=True))
        for each in ([float(largest_scale(*call)[0]) for call in calls], exponents)
    )
    return figures.layer_scales(library, yours, steps=recording.steps)
