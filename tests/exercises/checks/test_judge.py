"""The stages of a check, their order and messages, on small exercises made for the tests."""

import dataclasses
import math

import numpy as np
import pytest

from lplab.exercises.checks.close import close_to
from lplab.exercises.checks.compare import same
from lplab.exercises.checks.judge import judge
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model.exercise import Example, Exercise, Finding, Property, Variant, mistake
from lplab.exercises.model.forms import Number, Numbers, SameShape


def halve(x):
    return x / 2


def nothing_negative(calls, results):
    worst = min(results)
    return Finding(f"{worst} is negative.") if worst < 0 else None


HALVE = Exercise(
    id="99.1",
    version=3,
    title="Halve",
    goal="Goal 1: halve",
    minutes=1,
    difficulty=1,
    statement="Halve a number.",
    stub='def halve(x):\n    """Half of x."""\n    raise NotImplementedError',
    reference=halve,
    form=Number(),
    examples=(Example((2.0,), "Half of 2 is 1."), Example((-3.0,), "Half of −3 is −1.5.")),
    boundary=lambda: [(0.0,), (-0.0,), (5e-324,), (math.inf,), (math.nan,), (7.0,), (9.0,)],
    properties=(Property("positive stays positive", lambda: [(100.0,), (101.0,)], nothing_negative),),
    mistakes=(mistake("the number itself", "x / 2", "x"), mistake("without remainder", "x / 2", "x // 2")),
    hints=("Divide.",),
    why=lambda args, expected: "Because.",
    kind=lambda args: "odd numbers" if args[0] % 2 == 1 else "",
)


def verdict_on(source, exercise=HALVE, **limits):
    return judge(exercise, Answer(source, exercise.name), **limits)


def halving(expression):
    return f"import math\nimport numpy as np\n\ndef halve(x):\n    return {expression}\n"


def test_a_pass_says_what_was_proved():
    verdict = verdict_on(halving("x * 0.5"))
    assert verdict.passed and verdict.points == verdict.most_points == 6 and verdict.right == verdict.total == 9
    assert verdict.lines[0] == "Exercise 99.1: passes all checks."
    assert "2 named examples; 7 harder cases, chosen where mistakes show; positive stays positive" in verdict.text
    assert repr(verdict) == str(verdict) == verdict.text


@pytest.mark.parametrize(
    "source",
    [
        HALVE.stub,
        'def halve(x):\n    "my own words"\n    raise NotImplementedError  # later',
        "def halve(x):\n    pass",
        "def halve(x):\n    ...",
        "def halve(x):\n    y = x\n    raise NotImplementedError('soon')",
    ],
)
def test_what_is_not_written_yet_is_met_kindly(source):
    verdict = verdict_on(source)
    assert verdict.status == "not yet" and verdict.ring == "" and verdict.points == 0
    assert verdict.lines[0].startswith("Exercise 99.1: not yet.")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("None", "returns None: a return statement is missing"),
        ("[x]", "returns a list of 1: return one number"),
        ("'1'", "returns a str ('1'): return one number"),
        ("x > 1", "returns a bool (True): return one number"),
        ("np.zeros(3)", "returns an array of shape (3,) and dtype float64"),
        ("(x for _ in 'a')", "returns a generator"),
        ("x / 0", "raises ZeroDivisionError (float division by zero) at `return x / 0`"),
        ("y", "raises NameError (name 'y' is not defined) at `return y`"),
        ("1j * x", "returns a complex"),
        ("halve(x)", "RecursionError"),
        ("exit()", "At `return exit()`: "),
        ("__import__('socket')", "socket"),
        ("__import__('lplab.exercises')", "lplab"),
    ],
)
def test_a_wrong_form_is_one_clear_line(expression, said):
    verdict = verdict_on(halving(expression))
    assert verdict.status == "failed" and verdict.ring == "form" and verdict.points == 0
    assert said in verdict.text and "Traceback" not in verdict.text
    assert all("\n" not in text for text in verdict.lines)


def test_numbers_of_every_make_are_welcome():
    for expression in ("np.float32(x) / 2", "np.array(x / 2)", "np.float64(x) / 2"):
        source = halving(f"{expression} if abs(x) > 1e-30 else x / 2")
        assert verdict_on(source).passed, expression
    assert verdict_on(halving("0 if x == 0 and math.copysign(1, x) > 0 else x / 2")).passed


def test_only_the_first_failing_stage_is_reported():
    examples = verdict_on(halving("x"))
    assert examples.ring == "named examples" and examples.points == 0
    assert examples.lines[:4] == (
        "Exercise 99.1: 0 of 2 examples right.",
        "First example missed: x = 2. Yours 2, expected 1.",
        "Half of 2 is 1.",
        "Your answers coincide with a known mistake: the number itself.",
    )
    boundary = verdict_on(halving("x / 2 if x < 6 or x > 50 else 4"))
    assert boundary.ring == "boundary set" and boundary.points == 3 and (boundary.right, boundary.total) == (4, 7)
    assert "Smallest wrong one: x = 7. Yours 4, expected 3.5." in boundary.text and "Because." in boundary.text
    properties = verdict_on(halving("x / 2 if x != 100 else -1.0"))
    assert properties.ring == "properties" and properties.points == 4
    assert (
        "one rule does not hold: positive stays positive" in properties.lines[0]
        and "-1.0 is negative" in properties.text
    )


REPAIR = dataclasses.replace(HALVE, is_repair=True, stub="def halve(x):\n    return x / 3", examples=HALVE.examples * 3)


@pytest.mark.parametrize(
    ("source", "points"),
    [
        (halving("x / 2 if x != -3 else 0.0"), 2.0),  # 1 of 2 examples, and 7 of 7 values: 6 × 1/2 × (1 + 1) / 3 = 2
        (halving("x / 2 if x > 6 or x == 2 else 1 / 0"), 1.0),  # 1 of 2, and 3 of 7: an exception costs its call alone
        (halving("x / 2 if x not in (7, 9) else [x]"), 3.0),  # so does a result of the wrong form
        (halving("x / 2 if x not in (7, 9) else None"), 3.0),
        ("def halve(x):\n    if x == 7:\n        raise SystemExit\n    return x / 2", 2.0),  # the rest was never called
        ("import os.path, socket\n" + halving("x / 2"), 0.0),  # nothing was called
        (halving("x / 2") + ")", 0.0),
    ],
)
def test_an_answer_that_fails_earns_by_what_it_has_right(source, points):
    verdict = verdict_on(source)
    assert verdict.status == "failed" and verdict.points == points, verdict.text


def test_a_function_to_be_repaired_earns_nothing_as_it_is():
    assert verdict_on("def halve(x):\n    # I looked at it\n    return x / 3", REPAIR).points == 0
    assert verdict_on("def halve(x):\n    return x / 3 if x < 7 else x / 2", REPAIR).points == 0
    assert verdict_on("def halve(x):\n    return x / 3 if x < 0 else x / 2", REPAIR).points > 0


def test_what_all_misses_share_is_said():
    verdict = verdict_on(halving("x / 2 if x not in (7, 9) else 0.0"))
    assert "Both misses are odd numbers." in verdict.text


def test_the_sign_of_zero_counts_unless_told_otherwise():
    source = halving("x / 2 if x else 0.0")
    assert "x = −0. Yours 0, expected −0." in verdict_on(source).text
    assert verdict_on(source, dataclasses.replace(HALVE, signed_zero=False)).passed


def test_an_endless_loop_for_one_argument_is_named_after_the_stages_before_it():
    source = "def halve(x):\n    while x == 7:\n        pass\n    return x / 2 if x > 0 else x"
    from lplab.exercises.isolation import Limits

    first = verdict_on(source, limits=Limits(cpu_seconds=1))
    assert first.ring == "named examples", first.text
    second = verdict_on(source.replace(" if x > 0 else x", ""), limits=Limits(cpu_seconds=1))
    assert second.ring == "form" and "x = 7" in second.text, second.text


def test_a_changed_input_is_noticed():
    exercise = dataclasses.replace(
        HALVE,
        form=SameShape(0),
        elements=0,
        examples=(Example((np.array([2.0, 4.0]),), "Two."),),
        boundary=tuple,
        properties=(),
    )
    verdict = verdict_on("def halve(x):\n    x /= 2\n    return x", exercise)
    assert verdict.ring == "form" and "changes its input in place" in verdict.text
    assert verdict_on("def halve(x):\n    return x / 2", exercise).passed


def test_a_changed_input_is_noticed_in_later_stages_too():
    exercise = dataclasses.replace(
        HALVE,
        form=SameShape(0),
        elements=0,
        examples=(Example((np.array([2.0, 4.0]),), "Two."),),
        boundary=lambda: [(np.array([2.0, 4.0, 8.0]),)],
        properties=(),
    )
    answer = "def halve(x):\n    if x.size == 2:\n        return x / 2\n    x /= 2\n    return x"
    assert "changes its input in place" in verdict_on(answer, exercise).text


def test_a_tolerance_is_a_share_of_what_is_expected():
    assert same(5.5, 8.0, tolerance=0.5) and not same(10.0, 5.5, tolerance=0.5)


def test_elements_are_counted_and_the_smallest_miss_is_one_of_them():
    exercise = dataclasses.replace(
        HALVE, form=SameShape(0), elements=0, examples=(Example((np.array([2.0]),), "Two."),),
        boundary=lambda: [(np.array([[8.0, -3.0], [0.5, 6.0]]),)], properties=(),
    )  # fmt: skip
    verdict = verdict_on("def halve(x):\n    return x / 2 * (x != -3)", exercise)
    assert (verdict.right, verdict.total) == (3, 4) and "x = −3. Yours −0, expected −1.5." in verdict.text


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("np.zeros(3)", "return one of shape (2,), like its input"),
        ("[1.0, 2.0]", "return a numpy array of shape (2,)"),
        ("x.astype(int)", "return floating-point numbers"),
        ("x > 0", "return floating-point numbers"),
        ("x.sum()", "return a numpy array of shape (2,)"),
    ],
)
def test_arrays_of_the_wrong_form(expression, said):
    exercise = dataclasses.replace(
        HALVE, form=SameShape(0), elements=0, examples=(Example((np.array([2.0, 4.0]),), "Two."),)
    )
    assert said in verdict_on(halving(expression), exercise).text


def test_both_legal_ways_pass_and_a_mixture_does_not():
    ways = (Variant("half of it"), mistake("half of it, rounded down", "x / 2", "x // 2"))
    exercise = dataclasses.replace(
        HALVE, conventions=ways, mistakes=(mistake("x", "x / 2", "x"),), boundary=lambda: [(7.0,), (9.0,)]
    )
    assert verdict_on(halving("x / 2"), exercise).convention == "half of it"
    down = verdict_on(halving("x // 2"), exercise)
    assert (
        down.passed and down.convention == "half of it, rounded down" and "Yours: half of it, rounded down" in down.text
    )
    mixed = verdict_on(halving("x // 2 if x < 8 else x / 2"), exercise)
    assert not mixed.passed and "Compared with the legal way nearest to yours" in mixed.text


def test_many_right_answers_are_judged_by_their_own_rule():
    def pair():
        return 1, 2

    exercise = dataclasses.replace(
        HALVE, stub="def pair():\n    raise NotImplementedError", reference=pair, form=Numbers(count=2), properties=(),
        boundary=tuple, examples=(Example((), "Any two."),), mistakes=(),
        accept=lambda args, result: "" if result[0] < result[1] else f"{result[0]} is not below {result[1]}.",
    )  # fmt: skip
    assert verdict_on("def pair():\n    return [3, 4]", exercise).passed
    wrong = verdict_on("def pair():\n    return 5, 4", exercise)
    assert wrong.ring == "named examples" and "5 is not below 4." in wrong.text


def test_an_exact_zero_is_close_enough_and_a_tiny_number_is_not_zero():
    accept = close_to(lambda x: (0.0,), ("bill",))
    assert accept((1.0,), (0.0,)) == ""
    assert accept((1.0,), (1e-300,)) == "The bill is 1e−300, expected 0."


def test_what_was_printed_is_shown_shortened():
    verdict = verdict_on("def halve(x):\n    print('hello', x)\n    return x")
    assert "Your code printed (in all cases together): hello 2.0" in verdict.text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "1.2"}, "lab and number"),
        ({"difficulty": 4}, "difficulty is 1, 2 or 3"),
        ({"hints": ()}, "one to three hints"),
        ({"stub": "def other(x): pass"}, "must define halve"),
        ({"is_repair": True, "stub": ""}, "the function to be repaired is missing"),
        ({"points": 7}, "multiple of 3"),
    ],
)
def test_an_exercise_is_validated_when_it_is_made(change, said):
    with pytest.raises(ValueError, match=said):
        dataclasses.replace(HALVE, **change)


def third(
    x,  # a number
    sign=-1,
):
    """A third of x.

    With another sign, if asked for.
    """
    return sign * x / 3


def test_a_stub_is_made_from_signature_and_docstring_of_the_reference():
    exercise = dataclasses.replace(HALVE, stub="", reference=third, mistakes=())
    assert exercise.stub_source == (
        'def third(\n    x,  # a number\n    sign=-1,\n):\n    """A third of x.\n\n'
        '    With another sign, if asked for.\n    """\n    raise NotImplementedError\n'
    )
    assert exercise.cell == exercise.stub_source + '\n\ncheck("99.1", third)'
    assert verdict_on(exercise.stub_source, exercise).status == "not yet"
    with pytest.raises(
        ValueError, match=r"exercise 99\.1: its reference needs a docstring, as its stub is made from it"
    ):
        dataclasses.replace(HALVE, stub="").stub_source  # noqa: B018


def test_an_edit_that_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match="must occur once"):
        mistake("nothing", "no such text", "x").apply("def halve(x):\n    return x / 2\n")


def test_a_mistake_that_explains_the_misses_but_differs_elsewhere_is_not_named():
    often = dataclasses.replace(HALVE, mistakes=(mistake("the sign is lost", "x / 2", "abs(x) / 2"),))
    only_minus_three = halving("x / 2 if x != -3 else 1.5")
    assert "the sign is lost" in verdict_on(halving("abs(x) / 2"), often).misconception
    assert verdict_on(only_minus_three, often).misconception == ""  # −0 is right here, the mistake loses its sign, too
    many = dataclasses.replace(often, boundary=lambda: [(float(x),) for x in range(100)] + [(-5.0,)], properties=())
    verdict = verdict_on(halving("abs(x) / 2 if x != -5 else x / 2"), many)
    assert "Where you are wrong, your answers are those of a known mistake: the sign is lost." in verdict.text


def test_code_that_cannot_be_read_has_no_convention():
    ways = (Variant("half of it"), mistake("half of it, rounded down", "x / 2", "x // 2"))
    exercise = dataclasses.replace(HALVE, conventions=ways)
    verdict = verdict_on("def halve(x)\n    return x", exercise)
    assert verdict.ring == "form" and verdict.convention == "" and "expected ':'" in verdict.text


def test_an_argument_that_the_check_does_not_give_is_explained():
    from lplab import exercises

    duel = exercises.get("01.4")
    assert "the check calls it without arguments" in verdict_on("def duel(x):\n    return 1, x", duel).text


def test_arrays_that_are_compared_as_a_whole_count_as_one():
    """Otherwise the message on an answer that is wrong everywhere would call most of it right."""
    whole = dataclasses.replace(
        HALVE,
        form=SameShape(0),
        examples=(Example((np.array([2.0, 4.0]),), "Halves."), Example((np.array([6.0, 8.0, 1.0]),), "Halves.")),
        boundary=lambda: [],
        properties=(),
        kind=lambda args: "",
    )
    verdict = verdict_on(halving("x"), whole)
    assert (verdict.right, verdict.total) == (0, 2) and verdict.lines[0] == "Exercise 99.1: 0 of 2 examples right."
    each = dataclasses.replace(whole, elements=0)
    verdict = verdict_on(halving("np.where(x > 5, x, x / 2)"), each)
    assert (verdict.right, verdict.total) == (3, 5)
