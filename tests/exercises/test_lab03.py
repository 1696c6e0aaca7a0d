"""Lab 03: the answers of its questions, and the student's functions in its figures."""

import pytest

from lplab import widgets
from lplab.exercises import catalogue
from lplab.exercises.checks.variants import function_of
from lplab.exercises.lab03 import draw_scales, train_with
from lplab.exercises.lab03.largest_scale import largest_scale
from lplab.figures.range_fates import range_fates
from lplab.figures.window import Window
from lplab.recording_files import LOWEST, recorded


def unfinished(counts, lowest, zero_below, overflow_from):
    raise NotImplementedError


def always_none(counts, lowest, zero_below, overflow_from):
    return 0, 0.0


def test_thirty_percent_of_the_scores_gradients_vanish():
    assert catalogue.question("03.a").truth() == 29.8


def test_the_network_does_not_mind():
    question = catalogue.question("03.b")
    assert question.truth() == "as well as in float32" and question.truth() in question.choices


def test_the_largest_scales_are_drawn_once_the_function_works():
    assert "it is not written yet" in str(draw_scales(unfinished))
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
    fates = range_fates(found, Window(2.0**-25, 2.0**-24, 2.0**-14, -(2.0**16), 2.0**16), exponent)
    assert fates.lost == pytest.approx(lost) and fates.overflowed == 0


def test_the_training_is_a_live_run():
    run = train_with(function_of(catalogue.get("03.1")), steps=2, start=False)
    assert isinstance(run, widgets.LiveRun) and run.state == "ready"
