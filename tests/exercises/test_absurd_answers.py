"""Results and sources beyond all measure are ordinary wrong answers, with their reason."""

import pytest

from lplab import exercises
from lplab.exercises.isolation.answers import Answer
from tests.kinds import one_in_three, tiered

HUGE = "10**400"  # no float is as large
BY_DEFAULT = ("01.2", "11.1")


def verdict(name, source):
    exercise = exercises.get(name)
    return exercises.judge(exercise, Answer(source.replace("NAME", exercise.name), exercise.name))


# The number is refused before an exercise sees it; its form says what it wanted. So one exercise of each form.
OF_EACH_FORM = {type(exercises.get(name).form): name for name in (*exercises.names(), *BY_DEFAULT)}.values()


@pytest.mark.parametrize("name", tiered(OF_EACH_FORM, lambda name: name in BY_DEFAULT))
def test_an_integer_that_no_float_holds_is_a_wrong_answer(name):
    for result in (HUGE, f"[1, ({HUGE}, 2)]"):
        found = verdict(name, f"def NAME(*args, **more):\n    return {result}\n")
        assert found.status == "failed" and not found.points
        assert "returns an integer of 1,329 bits: no float is as large" in found.text


@pytest.mark.parametrize(
    ("source", "message"),
    one_in_three(
        [
            ("def NAME(*args):\n    return " + "-" * 20_000 + "1\n", "Nested too deeply"),
            ("def NAME(*args):\n    return " + "(" * 2_000 + "1" + ")" * 2_000 + "\n", "too many nested parentheses"),
            ("def NAME(*args):\n" + "    x = 1\n" * 20_000 + "    return x\n", "examples right"),
            ("def NAME(*args):\n    return NAME(*args)\n", "RecursionError (maximum recursion depth exceeded)"),
            ("def NAME(*args):\n    return [0] * 10**12\n", "more than the 1,024 MB of memory allowed"),
        ]
    ),
    ids=["deep", "brackets", "long", "endless", "large"],
)
def test_a_source_beyond_measure_is_a_wrong_answer(source, message):
    found = verdict("01.2", source)
    assert found.status == "failed" and message in found.text
