"""Figures of lab 15: a written text above its loss, errors of outputs, the magnitudes of a residual stream."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures.written_text import LETTERS, LINES, lines_of

LOSSES = {"split": 5.5, "smooth": 6.0, "rotate": 30.0}


def trace(fig, name):
    return next(each for each in fig.data if each.name == name)


def test_the_text_the_marks_and_the_alt_text_say_the_same():
    fig = figures.written_text("Paris & <b>more</b>.", LOSSES, "smooth", unrounded=5.4, limits=(5, 16))
    assert trace(fig, "what the model writes").text[0] == "Paris &amp; &lt;b&gt;more&lt;/b&gt;."
    assert trace(fig, "this recipe").x.tolist() == [6.0] and trace(fig, "other recipes").x.tolist() == [5.5, 16.0]
    assert trace(fig, "other recipes").customdata.tolist() == [5.5, 30.0], "the box has the loss itself"
    assert "Paris & <b>more</b>." in fig.layout.meta["alt"] and "rotate 30.00" in fig.layout.meta["alt"]
    assert set(trace(fig, "unrounded").x) == {5.4}


def test_marks_of_equal_losses_stand_below_one_another_and_the_chosen_one_is_named():
    fig = figures.written_text(
        "", {"smooth": 5.68, "rotate": 5.68, "worst": 30.0}, "worst", unrounded=5.4, limits=(5, 16)
    )
    (first, second), (chosen,) = trace(fig, "other recipes").y, trace(fig, "this recipe").y
    assert first > second > chosen
    name = trace(fig, "name")
    assert name.text[0].strip() == "worst" and (name.y[0], name.textposition) == (chosen, "middle left")


def test_long_texts_end_in_an_ellipsis_and_fit_a_phone():
    lines = lines_of("Supercalifragilistic " * 60)
    assert len(lines) == LINES and lines[-1].endswith("…") and max(map(len, lines)) <= LETTERS
    assert lines_of("x" * 100)[0] == "x" * LETTERS, "one long word is cut"


def test_a_recipe_without_a_loss_is_refused():
    with pytest.raises(ValueError, match="one for 'other'"):
        figures.written_text("", LOSSES, "other", unrounded=5.4, limits=(5, 16))
    with pytest.raises(ValueError, match="finite losses"):
        figures.written_text("", {"a": float("nan")}, "a", unrounded=5.4, limits=(5, 16))


def test_errors_stand_at_their_numbers_and_the_chosen_way_is_marked():
    fig = figures.output_errors({"nearest": 0.2, "GPTQ": 0.05}, "GPTQ", what="the output")
    points = trace(fig, "error")
    assert points.x.tolist() == [0.2, 0.05] and points.marker.symbol.tolist() == ["circle", "diamond"]
    assert trace(fig, "errors").text.tolist() == ["   20.0 %", "   5.0 %"]
    low, high = fig.layout.xaxis.range
    assert 10**low < 0.05 and 10**high > 0.2 and list(fig.layout.xaxis.ticktext) == ["1 %", "10 %", "100 %"]
    assert fig.layout.meta["alt"] == "Error of the output. nearest 20.0 %; GPTQ 5.0 %."


@pytest.mark.parametrize("errors", [{}, {"a": 0.0}, {"a": float("inf")}])
def test_no_error_and_errors_that_a_logarithm_cannot_show_are_refused(errors):
    with pytest.raises(ValueError, match="row|above 0"):
        figures.output_errors(errors, "a", what="the output")


def test_the_stream_names_the_channel_of_its_largest_number():
    first = np.ones((4, 3))
    first[2, 1] = 21_931
    fig = figures.stream_magnitudes(first, np.full((4, 3), 5.0), np.full(4, 1.68))
    assert [each.name for each in fig.data] == ["first token", "other tokens", "median of all"]
    assert fig.data[0].y.tolist() == [1, 1, 21_931, 1] and fig.data[0].text[2] == ", channel 1"
    assert "before block 2: channel 1 of the first token has 21,900, the median there is 1.68" in fig.layout.meta["alt"]
    with pytest.raises(ValueError, match="4 rows"):
        figures.stream_magnitudes(first[:2], first, np.ones(4))
    with pytest.raises(ValueError, match="above 0"):
        figures.stream_magnitudes(0 * first, first, np.ones(4))
