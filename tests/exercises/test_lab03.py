"""Lab 03: the answers of its questions, and the student's functions in its figures."""

import numpy as np
import pytest

from lplab import widgets
from lplab.exercises.checks.variants import function_of
from lplab.exercises.lab03 import draw_scales, train_with
from lplab.exercises.lab03.largest_scale import largest_scale
from lplab.exercises.lab03.two_copies import spacing, two_copies, why
from lplab.exercises.model import exercise_catalogue
from lplab.figures.range_outcomes import range_outcomes
from lplab.figures.window import Window, window
from lplab.formats import get
from lplab.recordings.magnitudes import LOWEST, recorded


def always_none(counts, lowest, zero_below, overflow_from):
    return 0, 0.0


def test_thirty_percent_of_the_scores_gradients_vanish():
    assert exercise_catalogue.question("03.a").truth() == 29.8


def test_the_network_does_not_mind():
    question = exercise_catalogue.question("03.b")
    assert question.truth() == "as well as in float32" and question.truth() in question.choices


def test_the_largest_scales_are_drawn_once_the_function_works():
    assert "will be drawn" in str(draw_scales(lambda *given: 3))
    drawn = draw_scales(largest_scale)
    assert isinstance(drawn, widgets.LiveFigure)
    assert drawn.layout.meta["title"] == "Yours agrees at 441 of 441 scales"
    wrong = draw_scales(always_none)
    assert wrong.layout.meta["title"] == "Yours agrees at 0 of 441 scales" and wrong.layout.xaxis.range == (0, 1000)


@pytest.mark.parametrize("step", [0, 500, 1000])
def test_the_histogram_and_the_figure_agree(step):
    """The exercise's share is that of the explorer, in a window whose edges lie between bins."""
    found = recorded("transformer").magnitudes("head", "output_gradient_dx", step)
    exponent, lost = largest_scale(found.counts, LOWEST, -25, 16)
    fates = range_outcomes(found, Window(-(2.0**16), -(2.0**-25), 2.0**-25, 2.0**16, 2.0**-24, 2.0**-14), exponent)
    assert fates.lost == pytest.approx(lost) and fates.overflowed == 0


def test_the_training_is_a_live_run():
    run = train_with(function_of(exercise_catalogue.get("03.1")), steps=2, start=False)
    assert isinstance(run, widgets.LiveRun) and run.state == "ready"


SCORES, ROLE = "blocks.2.attention/matmul", "output_gradient_dx"


def length(step):
    """log2 of the 2-norm of the scores' gradients, each counted with the middle of its octave."""
    counts = recorded("transformer").magnitudes(SCORES, ROLE, step).counts
    middle = LOWEST + np.arange(len(counts)) + 0.5
    return round(float(np.log2(counts @ np.exp2(2 * middle))) / 2, 1)


def test_gradients_shrink_at_first_and_then_spread():
    """Lab 03 says so, with these numbers."""
    assert [length(step) for step in (0, 50, 1000)] == [-11.0, -12.7, -10.5]
    medians = []
    for step in (0, 50, 1000):
        counts = recorded("transformer").magnitudes(SCORES, ROLE, step).counts
        medians.append(LOWEST + int(np.searchsorted(np.cumsum(counts), counts.sum() / 2)))
    assert medians == [-21, -24, -24]


@pytest.mark.parametrize(("step", "scale"), [(0, 19), (1000, 22)])
def test_the_position_embedding_overflows_first(step, scale):
    recording, fp16 = recorded("transformer"), window(get("fp16"))

    def over(k):
        layers = recording.layers(ROLE)
        return {n for n in layers if range_outcomes(recording.magnitudes(n, ROLE, step), fp16, k).overflowed}

    assert not over(scale - 1) and "position_embedding" in over(scale)


def test_what_is_zero_is_the_mask():
    """16 passages x 4 heads of 64 x 64 scores: those above the diagonal, and first characters, alone in their row."""
    found = recorded("transformer").magnitudes(SCORES, ROLE, 1000)
    assert found.zeros == 16 * 4 * (64 * 63 // 2 + 1) and found.zeros + found.total == 16 * 4 * 64 * 64


def test_one_layer_could_use_256_times_the_scale():
    recording = recorded("transformer")
    found = [
        largest_scale(recording.magnitudes(n, ROLE, 1000).counts, LOWEST, -25, 16)[0] for n in recording.layers(ROLE)
    ]
    assert 2.0 ** (max(found) - min(found)) == 256


def test_the_first_block_loses_another_share():
    found = recorded("transformer").magnitudes("blocks.0.attention/matmul", ROLE, 1000)
    share = f"{100 * range_outcomes(found, window(get('fp16'))).lost:.1f} %"
    assert share in exercise_catalogue.question("03.a").because


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((1.0, 2.0**-10, 3, 11), "It arrives every time, and the first copy ends at"),
        ((1.0, 2.0**-12, 3, 11), "It is lost every time."),
        ((0.25, 0.5625 * 2.0**-5, 30, 4), "of a step, and the last 22 of 30 are lost."),
    ],
)
def test_the_course_of_the_first_copy_is_told(args, said):
    assert said in why(args, two_copies(*args))


@pytest.mark.parametrize(
    ("w", "update", "step"), [(1.0, 1, 2**-10), (1.0, -1, 2**-11), (-1.0, 1, 2**-11), (1.5, -1, 2**-10)]
)
def test_steps_are_half_as_long_below_a_power_of_two(w, update, step):
    assert spacing(w, update, 11) == step
