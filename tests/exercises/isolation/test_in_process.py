"""Answers in this process: the same outcome as in a child, an end to endless loops, and nothing left behind."""

import builtins
import decimal
import json
import random
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

from lplab.exercises import isolation
from lplab.exercises.checks.judge import judge
from lplab.exercises.grading.grading import grade
from lplab.exercises.isolation import Limits, Outcome, Stopped, in_process, run_answer, run_isolated
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.isolation.in_process import MAX_STEPS, run_in_process
from lplab.exercises.model import exercise_catalogue


def run(source: str, *calls: tuple, limits: Limits = isolation.DEFAULT, **options) -> Outcome:
    """Run the function ``f`` of the source, once without arguments if there are no calls."""
    return run_in_process(Answer(source, "f"), calls or [()], limits=limits, **options)


# ---- the same outcome ------------------------------------------------------------------------------------------------

MANY = '''
import random
import warnings
import numpy as np

class Strange(Exception):
    def __str__(self):
        return 1 / 0

def f(case, x):
    """All kinds of results."""
    print("case", case)
    if case == "in place":
        x[0] = 5
    if case == "raises":
        return 1 / (x[0] - x[0])
    if case == "strange":
        raise Strange
    if case == "numpy":
        return np.stack([])
    if case == "warns":
        return float(np.float32(1) / np.float32(0))
    if case == "generator":
        return (each for each in x)
    if case == "random":
        return [random.random(), float(np.random.random())]
    if case == "input":
        return input("more? ")
    if case == "nested":
        return {"a": ([each * 2 for each in x if each > 1], lambda: 1)}
    return sum(each for each in x), -0.0, None
'''
CASES = ("", "in place", "raises", "strange", "numpy", "warns", "generator", "random", "input", "nested")
SOURCES = {
    "many": (MANY, [(case, [1.0, 2.0]) for case in CASES]),
    "syntax": ("x = 1\ndef f(x)\n    return x", [(1,)]),
    "return outside": ("x = 1\nreturn x", [(1,)]),
    "null byte": ("\0", [(1,)]),
    "no function": ("def g(): pass", [(1,)]),
    "no function of that name": ("f = 3.5", [(1,)]),
    "fails when defined": ("y = [1 / each for each in (1, 0)]\ndef f(x): return x", [(1,)]),
    "not allowed": ("import os\ndef f(x): return x", [(1,)]),
    "not allowed later": ("def f(x):\n    import subprocess\n    return x", [(1,), (2,)]),
    "replaces numpy": ("import numpy as np\nnp.round = abs\ndef f(x): return x", [(1,)]),
    "replaces a builtin": ("import builtins\nbuiltins.abs = round\ndef f(x): return x", [(1,)]),
    "recursion": ("def f(x):\n    return f(x)", [(1,), (2,)]),
    "exits": ("def f(x):\n    raise SystemExit", [(1,)]),
    "prints too much": ("def f(x):\n    print('x' * 300_000)\n    return x", [(1,)]),
}
IMPORTS = "import math\nimport numpy as np\n\n"
BY_DEFAULT = ("many", "syntax", "not allowed later", "replaces numpy")


@pytest.mark.parametrize(
    "name", [name if name in BY_DEFAULT else pytest.param(name, marks=pytest.mark.slow) for name in SOURCES]
)
def test_the_outcome_is_that_of_a_child(name):
    source, calls = SOURCES[name]
    allowed = ("math", "numpy", "builtins") if "builtin" in name else ("math", "numpy")
    here, there = (
        replace(way(Answer(source, "f"), calls, limits=Limits(), allowed=allowed), seconds=0, fences=())
        for way in (run_in_process, run_isolated)
    )
    if there.stopped and there.stopped.reason in ("tampering", "printing"):  # noticed at once, or at the end
        here, there = here.stopped, there.stopped
    assert here == there


@pytest.mark.parametrize("name", ["01.2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("02.1", "08.1"))])
def test_a_verdict_has_the_same_words(name):
    exercise = exercise_catalogue.get(name)
    answer = Answer(
        "import math\nimport numpy as np\n\n" + exercise.mistakes[0].apply(exercise.solution), exercise.name
    )
    here, there = judge(exercise, answer, run=run_in_process), judge(exercise, answer)
    assert here.text == there.text and not here.passed and here.points == there.points


def test_a_class_with_private_names_and_a_docstring_is_counted_without_a_change():
    source = "class A:\n    __x = 3\n    def get(self):\n        'says it'\n        return self.__x\n"
    assert run(source + "def f(): return A().get(), A.get.__doc__").values == ((3, "says it"),)


# ---- what never ends, ends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "while True:\n        try:\n            x += 1\n        except: pass",
        "try:\n        while True: x += 1\n    except BaseException: return 5",
        "return [0 for _ in itertools.count()]",
        "return sum(0 for _ in itertools.count())",
        "return {0 for _ in itertools.count() for _ in itertools.count()}",
        "for _ in itertools.count(): x += 1",
        "return max(iter(lambda: 1, 0))",
        "return list(forever())",
    ],
)
def test_what_never_ends_is_stopped_by_its_steps(body, monkeypatch):
    monkeypatch.setattr(in_process, "MAX_STEPS", 20_000)
    forever = "def forever():\n    yield 1\n    yield from forever2()\ndef forever2():\n    while True: x = 1\n"
    outcome = run(f"import itertools\n{forever}def f(x):\n    if x < 3: return x\n    {body}", (1,), (3,), (2,))
    sentence = "stopped after 20,000 steps, in call 2 of 3: a loop that never ends, or far too much work"
    assert outcome.stopped == Stopped("time", sentence) and outcome.values == (1,)


def test_a_loop_outside_of_functions_is_stopped_before_the_first_call(monkeypatch):
    monkeypatch.setattr(in_process, "MAX_STEPS", 1000)
    outcome = run("x = 0\nwhile True:\n    x += 1\ndef f(): return x")
    assert outcome.stopped.reason == "time" and "after 1,000 steps, before the first call" in outcome.stopped.sentence


def test_slow_steps_are_stopped_by_the_clock():
    source = "import numpy as np\ndef f():\n    while True: np.sort(np.arange(3e5)[::-1])"
    outcome = run(source, limits=Limits(wall_seconds=0.2))
    assert "stopped after 0.2 s of computing, in call 1 of 1" in outcome.stopped.sentence
    assert outcome.seconds < 20


def test_solutions_need_few_steps(monkeypatch):
    exercise, taken = exercise_catalogue.get("01.2"), []
    step_limit = in_process.StepLimit
    monkeypatch.setattr(in_process, "StepLimit", lambda *args: taken.append(step_limit(*args)) or taken[-1])
    answer = Answer(IMPORTS + exercise.solution, exercise.name)
    assert judge(exercise, answer, run=run_in_process).passed
    assert 100 < taken[0].done < MAX_STEPS / 10


# ---- nothing is left behind ------------------------------------------------------------------------------------------

SPOILS = """
import builtins, decimal, functools, json, math, random, statistics, sys, warnings
import numpy as np
def f():
    np.round = np.sort = None
    np.linalg.norm = lambda *_: 7
    np.more = 1
    del np.float16
    math.floor = abs
    builtins.abs = builtins.len = round
    statistics.mean = max
    np.seterr(all="raise"); np.set_printoptions(precision=1)
    random.seed(5); np.random.seed(5)
    decimal.getcontext().prec = 3
    warnings.simplefilter("error"); warnings.showwarning = print
    return 1
"""


def test_what_an_answer_changes_does_not_harm_what_comes_after():
    names = ("round", "sort", "float16", "__dict__")
    before = [*(getattr(np, name) for name in names), np.linalg.norm, abs, len]
    settings = np.geterr(), np.get_printoptions(), decimal.getcontext().prec, sys.getrecursionlimit()
    random.seed(3)
    np.random.seed(3)
    filters, stdin, stdout = list(warnings.filters), sys.stdin, sys.stdout
    modules = ("builtins", "json", "sys", "numpy", "math")
    outcome = run(SPOILS, allowed=modules)
    assert outcome.stopped.reason == "tampering" and "your code replaced numpy." in outcome.stopped.sentence
    assert [*(getattr(np, name) for name in names), np.linalg.norm, abs, len] == before and not hasattr(np, "more")
    assert (np.geterr(), np.get_printoptions(), decimal.getcontext().prec, sys.getrecursionlimit()) == settings
    assert (
        random.random() == random.Random(3).random() and np.random.random() == np.random.RandomState(3).random_sample()
    )
    assert (warnings.filters, sys.stdin, sys.stdout) == (filters, stdin, stdout)
    assert not hasattr(builtins, "__step__") and "answer" not in sys.modules
    assert judge(
        exercise_catalogue.get("00.1"), Answer(exercise_catalogue.get("00.1").solution, "midpoint"), run=run_in_process
    ).passed


def test_what_a_program_has_under_the_name_of_the_module_stays(monkeypatch):
    monkeypatch.setitem(sys.modules, "answer", json)
    assert run("def f(): return 2").values == (2,) and sys.modules["answer"] is json


def test_an_interrupted_call_ends_the_run():
    outcome = run("def f(x):\n    if x: raise KeyboardInterrupt\n    return x", (0,), (1,), (0,))
    assert outcome.stopped == Stopped("exit", "stopped in call 2 of 3, as by Ctrl-C") and outcome.values == (0,)


# ---- who takes which way ---------------------------------------------------------------------------------------------


@pytest.fixture
def no_processes(monkeypatch):
    isolation.why_no_process.cache_clear()
    monkeypatch.setattr(sys, "platform", "emscripten")
    yield
    isolation.why_no_process.cache_clear()


def test_without_processes_notebooks_go_on_and_grading_refuses(no_processes, tmp_path):
    answer = Answer("def f(x): return x + 1", "f")
    outcome = run_answer(answer, [(1,)])
    assert outcome.values == (2,) and outcome.fences == ()
    with pytest.raises(RuntimeError, match="cannot run in a process of its own: Python has no processes in a browser"):
        run_isolated(answer, [(1,)])
    with pytest.raises(RuntimeError, match="behind a fence: Python has no processes in a browser"):
        grade(tmp_path)
    with pytest.raises(RuntimeError, match="no processes"):
        judge(exercise_catalogue.get("00.1"), Answer("def midpoint(low, high): return 1", "midpoint"))


def test_a_missing_package_is_named():
    code = (
        "import sys; sys.modules['psutil'] = None\n"
        "from lplab.exercises import isolation\nprint(isolation.why_no_process())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "psutil is not installed\n"


def test_where_processes_exist_a_child_is_asked(monkeypatch):
    asked = []
    monkeypatch.setattr(isolation, "run_isolated", lambda *args, **options: asked.append(options))
    run_answer(Answer("def f(): return 1", "f"), [()])
    assert len(asked) == 1
