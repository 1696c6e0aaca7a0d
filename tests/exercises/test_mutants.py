"""Every known mistake is caught for its own reason: it runs, and a typing error in its edit is noticed."""

import builtins
import functools
import symtable
import warnings
from functools import partial
from itertools import combinations

import numpy as np
import pytest

from lplab.exercises.checks.judge import _agrees
from lplab.exercises.checks.variants import NoResult, _fresh, function_of
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.model.exercise import mistake, wrong
from tests.kinds import one_in_three

each_exercise = pytest.mark.parametrize("exercise", exercise_catalogue.names(), indirect=True)
STAND_READY = {*dir(builtins), "math", "np"}


@pytest.fixture
def exercise(request):
    return exercise_catalogue.get(request.param)


def calls_of(exercise):
    """All calls of a check: examples, boundary set, properties."""
    return [
        *[example.args for example in exercise.examples],
        *exercise.boundary(),
        *[args for rule in exercise.properties for args in rule.calls()],
    ]


def results(function, calls):
    """The result of each call: a value, or the exception that it raises."""
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        return [result(function, args) for args in calls]


def result(function, args):
    try:
        return function(*map(_fresh, args))
    except Exception as error:
        return error


@functools.cache
def results_of_mistakes(name):
    """The calls of an exercise, and the results of its mistakes in them, by name."""
    exercise = exercise_catalogue.get(name)
    calls = calls_of(exercise)
    return calls, {mistake.name: results(function_of(exercise, mistake), calls) for mistake in exercise.mistakes}


def raised_in(given):
    return {type(each).__name__ for each in given if isinstance(each, Exception)}


def unknown_names(source):
    """Names that a source uses and nothing defines, in branches that no call reaches, too."""
    module = symtable.symtable(source, "<mistake>", "exec")
    known = STAND_READY | {
        symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    tables, used = [module], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        used |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and symbol.is_global()}
    return used - known


@pytest.mark.parametrize("exercise", one_in_three(exercise_catalogue.names()), indirect=True)
def test_every_mistake_runs(exercise):
    _, given = results_of_mistakes(exercise.id)
    for variant in exercise.mistakes:
        assert raised_in(given[variant.name]) == set(filter(None, [variant.raises])), variant.name


@each_exercise
def test_mistakes_and_legal_ways_use_no_unknown_names(exercise):
    assert not unknown_names(exercise.solution)
    for variant in (*exercise.mistakes, *exercise.conventions):
        assert not unknown_names(variant.apply(exercise.solution)), variant.name


@pytest.mark.parametrize("exercise", one_in_three(exercise_catalogue.names()), indirect=True)
def test_no_two_mistakes_give_the_same_answers(exercise):
    """Otherwise the last bit of a rounding decides which of the two is named."""
    calls, given = results_of_mistakes(exercise.id)
    answers = {
        variant.name: [NoResult() if isinstance(each, Exception) else each for each in given[variant.name]]
        for variant in exercise.mistakes
        if not variant.equivalent
    }
    for (one, ours), (other, theirs) in combinations(answers.items(), 2):
        assert not all(map(partial(_agrees, exercise), calls, ours, theirs)), f"{one} = {other}"


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        (
            wrong("forgets the helper that stands ready", "def chunked_dot(x, y, chunk):\n    return to_169(x @ y)"),
            {"NameError"},
        ),
        (mistake("misspelled", "total = 0.0", "total = 0,0"), {"TypeError"}),
        (mistake("a method that lists have", "len(x), chunk", "x.length(), chunk"), {"AttributeError"}),
    ],
)
def test_slips_are_noticed(slip, said):
    exercise = exercise_catalogue.get("05.1")
    assert raised_in(results(function_of(exercise, slip), calls_of(exercise))) == said


def test_unknown_names_are_found_where_no_call_comes():
    assert unknown_names(
        "def f(x):\n    def g():\n        return given(x)\n    return g() if x < 0 else np.abs(x)\n"
    ) == {"given"}
    assert (
        unknown_names("import math\ndef h(x):\n    return x\ndef f(x):\n    y = [h(z) for z in x]\n    return y\n")
        == set()
    )
