"""Student figures: what each says of a result that cannot be drawn, and what the decorator does and does not catch."""

from xml.etree import ElementTree

import pytest

from lplab.exercises import (
    draw_rounding,
    lab03,
    lab05,
    lab06,
    lab07,
    lab08,
    lab09,
    lab10,
    lab11,
    lab12,
    lab13,
    lab14,
    lab15,
    lab16,
)
from lplab.exercises.lab04 import layer_trial
from lplab.exercises.model.forms import Number, Numbers
from lplab.exercises.notebook import Text
from lplab.exercises.student_figures import NotReady, as_array, read_results, student_figure


def nothing_in_it(*given):
    return {}


def unwritten(*given):
    raise NotImplementedError


def draw_e4m3fn(function):
    return draw_rounding(function, "e4m3fn")


@pytest.mark.parametrize(
    ("draw", "waiting", "missing"),
    [
        (draw_e4m3fn, "Here your nothing_in_it will be drawn on the staircase of e4m3fn", "one number"),
        (lab03.draw_scales, "Here the largest scales of 21 layers will be drawn", "2 numbers"),
        (lab05.draw_chunked, "Here your nothing_in_it will be drawn beside the library's", "one number"),
        (lab06.draw_biases, "Here your nothing_in_it will place the window of 1-4-3 over 19 tensors", "2 numbers"),
        (lab06.draw_delayed, "will be drawn over 400 steps of a training", "a numpy array of shape (400,)"),
        (lab06.draw_retuned, "Here your nothing_in_it will tune a rounded network", "two arrays of shape (2,)"),
        (lab07.draw_phases, "Here both phases as your nothing_in_it makes them will be drawn", "two arrays of shape"),
        (lab07.draw_scales, "Here the scales of 21 layers as your nothing_in_it makes them", "a numpy array of shape"),
        (lab08.draw_ring, "Here the messages of your nothing_in_it will be run", "a list of rows (step, sender,"),
        (lab08.draw_buckets, "Here your nothing_in_it will be drawn beside the library's", "one number"),
        (lab09.draw_selection, "Here what your nothing_in_it sends of a real layer will be drawn", "a numpy array of"),
        (lab10.draw_choice, "Here the sum that your nothing_in_it leads to", "a numpy array of shape (1, 1280)"),
        (
            lab10.draw_similarity,
            "Here both distances as your nothing_in_it finds them",
            "60 rows, each with two numbers",
        ),
        (lab11.draw_cycles, "Here your nothing_in_it will be drawn beside the library's", "one number"),
        (lab11.draw_sustained, "Here your nothing_in_it will be drawn beside the library's", "2 numbers"),
        (
            lab13.draw_scales,
            "Here your nothing_in_it will round the blocks of a real gradient",
            "a numpy array of shape",
        ),
        (lab13.draw_tiles, "Here your nothing_in_it will round a trained weight", "a numpy array of shape (64, 256)"),
        (lab14.draw_pair, "Here the error of dW in five layers as your nothing_in_it makes it", "a numpy array of"),
        (lab14.draw_two_weights, "Here the layers whose two weights differ under your nothing_in_it", "two arrays of"),
        (lab14.draw_slopes, "Here the slope of three roundings of a real gradient as your nothing_in_it", "2 numbers"),
        (lab15.draw_columns, "Here the error of real rows, column by column, as your nothing_in_it", "a numpy array"),
        (lab15.draw_alphas, "Here the error of two layers in eight bits, as your nothing_in_it", "x of shape"),
        (lab15.draw_axes, "Here the error of nine heads' attention, with your nothing_in_it", "keys of shape"),
        (lab15.draw_rotation, "Here the error of a layer that reads a rotated stream, as your", "embedding"),
        (lab15.draw_file_bits, "Here the bits per weight of a language model's file, as your", "2 numbers"),
        (lab15.draw_ternary, "Here the error of five layers in three levels, as your nothing_in_it", "a scale and an"),
        (lab15.draw_growth, "Here the exponents of our own trainings, as your nothing_in_it", "3 numbers"),
        (lab16.draw_meetings, "Here four learners that meet by your nothing_in_it", "weights of shape"),
        (lab16.draw_rounds, "Here what arrives after several rounds of your nothing_in_it", "sent of shape"),
        (lab16.draw_message_bits, "Here the bits of a chunk's message, as your nothing_in_it counts them", "4 numbers"),
        (lab16.draw_means, "Here the length of real steps, as your nothing_in_it averages them", "two arrays of"),
    ],
)
def test_what_is_missing_is_told_for_an_empty_dict_and_for_nothing(draw, waiting, missing):
    shown = draw(nothing_in_it)
    assert isinstance(shown, Text)
    assert waiting in str(shown) and f"(now: it returns a dict: return {missing}" in str(shown)
    assert "(now: it is not written yet" in str(draw(unwritten))


def test_where_the_librarys_curves_are_drawn_alone_the_figure_says_what_is_missing():
    subtitle = lab12.draw_gemm_energy(nothing_in_it).layout.meta["subtitle"]
    assert "(yours is not drawn: it returns a dict: return 2 numbers)" in subtitle


def test_a_choice_of_layers_that_is_a_dict_is_told_what_is_missing():
    trial = layer_trial.Trial(names=("a", "b"), products=(1, 2), harm=(3, 4))
    assert [name for name, _ in layer_trial._choices(trial, nothing_in_it)][-1] == layer_trial.TABLE
    assert layer_trial._problem(trial, nothing_in_it).startswith("Your nothing_in_it is not drawn: it returns a dict")


def test_what_cannot_be_read_is_said_in_words():
    for result, said in [
        (lambda x: ("a", 1), "it returns a str ('a') among its values: return 2 numbers"),
        (lambda x: (float("inf"), 1), "cannot convert float infinity to integer"),
        (lambda x: None, "it returns no number yet"),
        (lambda x: x / 0, "it raises ZeroDivisionError: float division by zero"),
    ]:
        with pytest.raises(NotReady) as caught:
            read_results(result, [(1.5,)], Numbers(count=2), lambda pair: int(pair[0]))
        assert str(caught.value) == said


def test_a_function_that_cannot_be_sent_is_not_ready():
    with pytest.raises(NotReady):
        read_results([].append, [(1.5,)], Number(), as_array)


def test_errors_of_the_library_are_not_taken_for_the_students():
    @student_figure("Here your {name} will be drawn")
    def draw(function, fmt="e4m3fn"):
        """Fail."""
        raise ValueError(f"there is no format {fmt}")

    with pytest.raises(ValueError, match="there is no format e9m9"):
        draw(nothing_in_it, fmt="e9m9")
    assert draw.__doc__ == "Fail." and draw.__name__ == "draw"
    with pytest.raises(ValueError, match="format"):
        draw_rounding(nothing_in_it, "no such format")


def test_the_sentence_names_the_function_and_the_arguments():
    @student_figure("Here your {name} will be drawn in {bits} bits")
    def draw(function, bits=8):
        raise NotReady("it is not written yet")

    said = "Here your nothing_in_it will be drawn in 4 bits (now: it is not written yet)."
    assert str(draw(nothing_in_it, bits=4)) == said


def test_what_a_figure_waits_for_breaks_between_words_in_a_notebook():
    text = "it is < 1 & not\nwritten yet"
    assert ElementTree.fromstring(Text(text)._repr_html_()).text == text
    assert "word-break:normal" in Text("")._repr_html_()
