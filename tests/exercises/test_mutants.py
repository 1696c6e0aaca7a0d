"""A known mistake is caught for what it stands for: each one runs, and a slip of its edit cannot pass for it."""

import builtins
import symtable
from functools import partial
from itertools import combinations

import numpy as np
import pytest

from lplab.exercises import catalogue
from lplab.exercises.checks.judge import _agrees
from lplab.exercises.checks.variants import _fresh, answers, function_of
from lplab.exercises.exercise import mutant, wrong

EXERCISES = [catalogue.get(name) for name in catalogue.names()]
STAND_READY = {*dir(builtins), "math", "np"}


def calls_of(exercise):
    """All calls of a check: examples, boundary set, properties."""
    return [
        *[example.args for example in exercise.examples],
        *exercise.boundary(),
        *[args for rule in exercise.properties for args in rule.calls()],
    ]


def raised_by(exercise, mistake, calls):
    """The exceptions that a mistake raises in these calls, and in being made."""
    found = set()
    try:
        function = function_of(exercise, mistake)
    except Exception as error:
        return {f"{type(error).__name__}: {error}"}
    for args in calls:
        try:
            with np.errstate(all="ignore"):
                function(*map(_fresh, args))
        except Exception as error:
            found.add(type(error).__name__)
    return found


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


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_every_mistake_runs(exercise):
    calls = calls_of(exercise)
    for mistake in exercise.mutants:
        assert raised_by(exercise, mistake, calls) == set(filter(None, [mistake.raises])), mistake.name


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_mistakes_and_legal_ways_use_no_unknown_names(exercise):
    assert not unknown_names(exercise.solution)
    for variant in (*exercise.mutants, *exercise.conventions):
        assert not unknown_names(variant.apply(exercise.solution)), variant.name


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_no_two_mistakes_give_the_same_answers(exercise):
    """Else which of both a student is told is up to the last bit of a rounding."""
    calls = calls_of(exercise)
    given = {m.name: answers(function_of(exercise, m), calls) for m in exercise.mutants if not m.equivalent}
    for (one, ours), (other, theirs) in combinations(given.items(), 2):
        assert not all(map(partial(_agrees, exercise), calls, ours, theirs)), f"{one} = {other}"


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        (
            wrong("forgets the helper that stands ready", "def chunked_dot(x, y, chunk):\n    return to_169(x @ y)"),
            {"NameError"},
        ),
        (mutant("misspelled", "total = 0.0", "total = 0,0"), {"TypeError"}),
        (mutant("a method that lists have", "len(x), chunk", "x.length(), chunk"), {"AttributeError"}),
    ],
)
def test_slips_are_noticed(slip, said):
    exercise = catalogue.get("05.1")
    assert raised_by(exercise, slip, calls_of(exercise)) == said


def test_unknown_names_are_found_where_no_call_comes():
    assert unknown_names(
        "def f(x):\n    def g():\n        return given(x)\n    return g() if x < 0 else np.abs(x)\n"
    ) == {"given"}
    assert (
        unknown_names("import math\ndef h(x):\n    return x\ndef f(x):\n    y = [h(z) for z in x]\n    return y\n")
        == set()
    )
