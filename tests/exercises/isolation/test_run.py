"""Calls in a child process: results, locations of exceptions, allowed imports, reproducibility."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

from lplab.exercises.isolation import Limits, Outcome, Raised, Seeded, Stopped, Unusable, child, run_isolated
from lplab.exercises.isolation.answers import Answer


def run(source: str, *calls: tuple, **options) -> Outcome:
    """Run the function ``f`` of the source, once without arguments if there are no calls."""
    return run_isolated(Answer(source, "f"), calls or [()], **options)


# ---- values ----------------------------------------------------------------------------------------------------------


def test_each_call_gives_its_value_in_order():
    outcome = run("import numpy as np\ndef f(x):\n    return np.float16(x) * 2", *[(x / 8,) for x in range(1300)])
    assert outcome.values == tuple(np.float16(x / 8) * 2 for x in range(1300))
    assert {type(value) for value in outcome.values} == {np.float16}
    assert (outcome.stopped, outcome.changed, outcome.printed) == (None, (), "")


def test_arguments_and_values_keep_every_bit():
    array = np.array([[-0.0, np.nan], [np.inf, 1e-45]], dtype=np.float32)
    (values,) = run("def f(*values): return values", (-0.0, array, None, True, 10**30, "e4m3", {"a": [1]})).values
    assert np.signbit(values[0])
    assert values[1].tobytes() == array.tobytes() and values[1].dtype == np.float32
    assert values[2:] == (None, True, 10**30, "e4m3", {"a": [1]})


def test_changes_in_place_are_noticed_and_stay_in_the_call():
    array = np.array([1.0, np.nan])
    outcome = run("def f(x, y):\n    if y: x[0] = 5\n    return x", (array, False), (array, True), ([1], True))
    assert outcome.changed == (1, 2)
    assert outcome.values[1][0] == 5 and array[0] == 1


def test_a_seeded_generator_may_draw():
    outcome = run("def f(rng): return rng.random()", (Seeded(3),), (Seeded(3),), (Seeded(4),))
    expected = [np.random.default_rng(seed).random() for seed in (3, 3, 4)]
    assert list(outcome.values) == expected and outcome.changed == ()


def test_a_list_of_the_word_seeded_is_no_generator():
    assert run("def f(x): x.append(1)", (["seeded"],)).changed == (0,)


@pytest.mark.parametrize(("body", "sentence"), [
    ("yield 1", "a generator: use return in place of yield"),
    ("return f", "a function: call it, with round brackets, to get its value"),
    ("return [1] * 20_000_000", "a list of 20,000,000 parts: at most 1,000,000 are read"),
    ("return ['x' * 100] * 400_000", "a list of more than 16 MB"),
    ("import numpy; return numpy.ones(12_500_000)", "an array of 100 MB: at most 16 MB are read"),
])  # fmt: skip
def test_a_value_that_cannot_come_back_is_described(body, sentence):
    outcome = run(f"def f(): {body}")
    assert outcome.values == (Unusable(sentence),) and outcome.stopped is None


def test_a_coroutine_is_described_and_nothing_is_printed():
    outcome = run("async def f(): return 1")
    assert outcome.values == (Unusable("a coroutine: write def in place of async def"),)
    assert outcome.printed == ""


def test_an_argument_that_cannot_be_sent_is_the_callers_mistake():
    with pytest.raises(ValueError, match="call 2 has an argument that cannot be sent: a set"):
        run("def f(x): return x", (1,), ({1},))


# ---- exceptions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "expected"), [
    ("def f(x):\n    y = 1\n    return y / x", Raised("ZeroDivisionError", "division by zero", 3, "return y / x")),
    ("def f(x): return missing", Raised("NameError", "name 'missing' is not defined", 1, "def f(x): return missing")),
    ("def f(x):\n  return f(x)", Raised("RecursionError", "maximum recursion depth exceeded", 2, "return f(x)")),
    ("def f(x):\n  raise NotImplementedError", Raised("NotImplementedError", "", 2, "raise NotImplementedError")),
    ("def f(x): return input()", Raised("EOFError", "EOF when reading a line", 1, "def f(x): return input()")),
    ("def f(x): raise KeyboardInterrupt", Raised("KeyboardInterrupt", "", 1, "def f(x): raise KeyboardInterrupt")),
    ("def f(): pass", Raised("TypeError", "f() takes 0 positional arguments but 1 was given", None, "")),
    ("class E(Exception):\n  def __str__(self): return 1 / 0\ndef f(x):\n  raise E",
     Raised("E", "(its message cannot be read)", 4, "raise E")),
])  # fmt: skip
def test_an_exception_tells_where(source, expected):
    outcome = run(source, (0,))
    assert outcome.values == (expected,) and outcome.stopped is None


def test_an_exception_inside_numpy_tells_the_students_line():
    outcome = run("import numpy as np\ndef f():\n    a = 1\n    return np.stack([])")
    assert (outcome.values[0].type, outcome.values[0].line) == ("ValueError", 4)


def test_the_next_call_goes_on_after_an_exception():
    assert run("def f(x): return 1 / x", (0,), (2,)).values[1] == 0.5


@pytest.mark.parametrize(("source", "stopped"), [
    ("x = 1\ndef f(x)\n    return x", Stopped("syntax", "at `def f(x)`: expected ':'")),
    ("\0", Stopped("syntax", "source code string cannot contain null bytes")),
    ("(" * 5000, Stopped("syntax", f"at `{'(' * 100}`: too many nested parentheses")),
    ("def g(): pass", Stopped("definition", "there is no function `f` in your code")),
    ("f = 3.5", Stopped("definition", "`f` is no function but of type float")),
    ("y = 1 / 0", Stopped("definition", "at `y = 1 / 0`: ZeroDivisionError: division by zero")),
])  # fmt: skip
def test_source_that_does_not_make_a_function(source, stopped):
    outcome = run(source)
    assert outcome.stopped == stopped and outcome.values == ()


# ---- printing --------------------------------------------------------------------------------------------------------


def test_what_is_printed_is_kept_in_order():
    source = "import sys\nprint('first')\ndef f():\n    print('é', file=sys.stderr)\n    print('last', end='')"
    assert run(source, allowed=["sys"]).printed == "first\né\nlast"


def test_warnings_are_printed_and_break_nothing():
    outcome = run("import numpy as np\ndef f(x):\n    return np.float32(1) / np.float32(x)", (0,), (0,))
    assert outcome.values == (np.inf, np.inf)
    assert outcome.printed == "<answer>:3: RuntimeWarning: divide by zero encountered in scalar divide\n"


def test_warnings_of_libraries_name_no_path_of_this_machine():
    outcome = run("import numpy as np\ndef f(x):\n    return float(np.float16([x, x]).sum())", (60000,))
    assert outcome.values == (np.inf,)
    assert outcome.printed == "RuntimeWarning: overflow encountered in reduce\n"


def test_only_the_beginning_of_what_is_printed_is_kept():
    assert run("def f(): print('x' * 5000)").printed == "x" * 2000


# ---- imports ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [
    "import math, numpy, random, functools, itertools, fractions, dataclasses, collections.abc",
    "from numpy.lib.stride_tricks import sliding_window_view",
    "from __future__ import annotations",
    "import numpy as np; np.testing, np.fft, np.polynomial, np.random, np.linalg",  # numpy loads some when asked
])  # fmt: skip
def test_harmless_modules_may_be_imported(line):
    assert run(f"{line}\ndef f(): return 1").values == (1,)


@pytest.mark.parametrize(("line", "name"), [
    ("import requests", "requests"),
    ("import numpy, os.path", "os.path"),
    ("import inspect", "inspect"),
    ("from lplab import exercises", "lplab"),
    ("from lplab.exercises.isolation import run_isolated", "lplab.exercises.isolation"),
    ("from . import isolation", "."),
    ("exec('import subprocess', {})", "subprocess"),
    ("__import__('sys')", "sys"),
    ("import numpyy", "numpyy"),
])  # fmt: skip
@pytest.mark.parametrize("place", ["{line}\ndef f(): return 1", "def f():\n    {line}"])
def test_other_imports_are_refused(line, name, place):
    sentence = f"importing {name} is not for this exercise; it needs only math and numpy"
    assert run(place.format(line=line)).stopped == Stopped("import", sentence)


def test_an_exercise_may_need_no_numpy():
    sentence = "importing numpy is not for this exercise; it needs only math"
    assert run("import numpy\ndef f(): return 1", allowed=["math"]).stopped == Stopped("import", sentence)


def test_a_refused_import_can_be_caught_like_a_missing_module():
    source = "try:\n    import numba\nexcept ImportError:\n    numba = None\ndef f(): return numba"
    assert run(source).values == (None,)


def test_an_exercise_may_allow_one_module_of_lplab_alone():
    allowed = ["numpy", "lplab.formats"]
    source = "from lplab import formats\ndef f(x): return formats.get('e4m3fn').quantize(x)"
    assert run(source, (0.3,), allowed=allowed).values == (0.3125,)
    assert run("import lplab.exercises\ndef f(): return 1", allowed=allowed).stopped.reason == "import"


def test_the_reference_is_in_no_module_of_the_child():
    source = "import sys\ndef f(): return [name for name in sys.modules if 'lplab' in name]"
    assert run(source, allowed=["sys"]).values == (["lplab_guards", "lplab_wire"],)


def test_the_files_of_the_exercises_cannot_be_opened():
    source = """
def f(path):
    try:
        return open(path).read()
    except ImportError as error:
        return str(error)
"""
    paths = [(str(path),) for path in Path(child.__file__).parent.rglob("*.py")]
    sentence = "your code opens a file of the exercises; an answer only computes"
    assert run(source, *paths).values == (sentence,) * len(paths)
    assert run(f"def f(): return open({paths[0][0]!r})").stopped == Stopped("tampering", sentence)


def test_the_source_of_the_child_cannot_be_had_through_inspect():
    source = "import inspect, sys\ndef f(): return inspect.getsource(sys.modules['__main__'].call)"
    assert run(source, allowed=["inspect", "sys"]).stopped.reason == "tampering"


@pytest.mark.parametrize("name", ["child", "guards", "landlock", "seccomp", "wire"])
def test_the_child_needs_the_standard_library_and_numpy_alone(name):
    tree = ast.parse(Path(child.__file__).with_name(f"{name}.py").read_text("utf-8"))
    imports = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imports |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imports} <= sys.stdlib_module_names | {"numpy"}


# ---- the same again --------------------------------------------------------------------------------------------------


def test_chance_and_hashes_repeat_themselves():
    source = (
        "import random, numpy as np\ndef f(): return random.random(), np.random.rand(), hash('e4m3'), str({*'abcdef'})"
    )
    assert run(source).values == run(source).values


def test_nothing_of_the_environment_is_passed_on(monkeypatch):
    monkeypatch.setenv("LPLAB_TOKEN", "secret")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    outcome = run("import os\ndef f(): return sorted(os.environ)", allowed=["os"])
    assert not {"LPLAB_TOKEN", "PYTHONWARNINGS", "HOME"} & set(outcome.values[0])


def test_the_child_works_in_an_empty_folder_that_goes_away():
    source = "import os\ndef f():\n    open('note.txt', 'w').close()\n    return os.getcwd(), os.listdir()"
    ((folder, names),) = run(source, allowed=["os"]).values
    assert names == ["note.txt"] and not Path(folder).exists()


@pytest.mark.parametrize("name", ["cpu_seconds", "wall_seconds", "memory_mb", "printed_kb"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_limits_are_above_zero(name, value):
    with pytest.raises(ValueError, match=f"{name} must be above zero"):
        Limits(**{name: value})
