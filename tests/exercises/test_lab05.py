"""Lab 05: the answer of its question, and the student's function beside the library's."""

import math

import numpy as np

from lplab import widgets
from lplab.exercises.lab05 import draw_chunked
from lplab.exercises.model import exercise_catalogue


def exact_dot(x, y, chunk):
    return float(x @ y)


def to_169(x):
    m, e = math.frexp(x)
    return math.ldexp(round(m * 1024), e - 10)


def exact_total(x, y, chunk):
    total = 0.0
    for start in range(0, len(x), chunk):
        part = 0.0
        for i in range(start, min(start + chunk, len(x))):
            part = to_169(part + x[i] * y[i])
        total += part
    return total


def test_short_chunks_lie_on_the_lowest_line_if_the_total_is_exact_and_long_ones_stay():
    drawn = draw_chunked(exact_total)
    errors, library = (np.array(drawn.data[which].y) for which in (2, 0))
    assert errors[:6].tolist() == [1e-4] * 6, "as the lab says: 0.01 % or less"
    assert errors[-1] > 0.9 * library[-2], "two chunks: each has lost as much as before"
    one_chunk = drawn.data[1].y[-1]  # a circle: with one register, there is no total to round
    assert [round(100 * float(error)) for error in (errors[-1], one_chunk)] == [19, 49], "as the answer says"
    assert (errors[6:-1] < 0.01).all() and (library[6:-2] < 0.01).all(), "between them both registers lose little"
    above = errors[6:-1] > library[6:-2]
    assert above.any() and not above.all(), "and which is higher is chance"


def test_a_difference_that_is_not_rounded_is_a_known_mistake():
    assert "t − s is not rounded" in [mistake.name for mistake in exercise_catalogue.get("05.4").mistakes]


def test_a_students_function_is_drawn_once_it_works():
    drawn = draw_chunked(exact_dot)
    assert isinstance(drawn, widgets.LiveFigure) and "yours agrees at 0 of 15" in drawn.layout.meta["title"]
    assert len(drawn.data[1].x) == 0 and len(drawn.data[2].x) == 15


def test_the_sum_stops_at_4096():
    assert exercise_catalogue.question("05.a").truth() == 4096


def test_what_is_given_stands_above_stub_and_solution():
    exercise = exercise_catalogue.get("05.4")
    for text in (exercise.stub_source, exercise.solution):
        assert text.startswith("import math\n\n\ndef to_169(x):") and text.count("def ") == 2
