"""What passes in the lab passes in the marks: answers with helper cells, by kernel, by report and by notebook."""

import ast
import asyncio
import builtins
import contextlib
import functools
import gc
import io
import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from lplab.exercises import notebook as live
from lplab.exercises.checks.judge import judge
from lplab.exercises.grading.grading import grade
from lplab.exercises.grading.report_file import digest
from lplab.exercises.grading.submissions import read_submission
from lplab.exercises.isolation import Limits
from lplab.exercises.isolation.in_process import run_in_process
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.progress.records import ProgressState
from tests.exercises.in_process import judge_here
from tests.kinds import tiered

FILL = "def fill(d):\n    d['k'] = 2\nt = {}\n"
WAYS = {  # cells that make something, and the expression of it that an answer uses, which is 2
    "a loop": (["t = {}\nfor i in range(3):\n    t[i] = i"], "t[2]"),
    "a loop in a loop": (["t = {}\nfor i in range(3):\n    for j in range(3):\n        t[i, j] = i + j"], "t[1, 1]"),
    "a while": (["k = 0\nwhile k < 2:\n    k += 1"], "k"),
    "a loop that prints": (["t = []\nfor i in range(3):\n    t.append(i)\n    print('step', i)"], "t[2]"),
    "a loop that is timed": ([
        "import time\nt = {}\nfor i in range(3):\n    start = time.time()\n    t[i] = i",
    ], "t[2]"),
    "a loop that draws": ([
        "from lplab import figures\nt = [1]\nfor i in (2, 3):\n    t.append(i)\n    figures.DataTable({'t': t})",
    ], "t[1]"),
    "what a loop leaves": (["for k in range(3):\n    pass"], "k"),
    "append": (["t = []\nt.append(2)"], "t[0]"),
    "list methods": (["t = [2, 1]\nt.sort()\nt.insert(0, 5)\nt.extend([7])\nt.pop()\nt.reverse()"], "t[0]"),
    "list +=": (["t = []", "t += [2]"], "t[0]"),
    "dict methods": (["t = {}\nt.setdefault('k', 1)\nt.update(k=2)\nt |= {'m': 3}"], "t['k']"),
    "del": (["t = [1, 2]\ndel t[0]\nmax = 3\ndel max"], "max(t)"),
    "k += 1": (["k = 1", "k += 1"], "k"),
    "swap": (["a, *b = 2, 1\na, b = b, a"], "b"),
    "one list, two names": (["a = b = []\nc = a\nc.append(2)"], "b[0]"),
    "a row of a table": (["t = {'row': []}\nrow = t['row']\nrow.append(2)"], "t['row'][0]"),
    "tables in a loop": (["t, u = {}, {}\nfor one in (t, u):\n    one['k'] = 2"], "t['k']"),
    "a comprehension": (["t = []\n[t.append(i) for i in range(3)]"], "t[2]"),
    "walrus": (["print(k := 2)", "u = [m := i for i in range(3)]"], "k if m == 2 else 0"),
    "a table that is returned": (["t = {}\ndef table():\n    return t\ntable()['k'] = 2"], "t['k']"),
    "a helper that fills": ([FILL + "fill(t)"], "t['k']"),
    "helpers of helpers": ([FILL + "def both(d, e):\n    fill(d)\n    fill(e)\nboth(t, {})"], "t['k']"),
    "a helper called by map": (["t = {}\ndef put(k):\n    t[k] = 2\nlist(map(put, 'ab'))"], "t['a']"),
    "a lambda that fills": (["t = []\nput = lambda x: t.append(x)\nput(2)"], "t[0]"),
    "partial": (["import functools", FILL + "now = functools.partial(fill, t)\nnow()"], "t['k']"),
    "a method that fills": ([
        "class Filler:\n    def fill(self, d):\n        d['k'] = 2\nt = {}\nFiller().fill(t)",
    ], "t['k']"),
    "a bound method": (["t = []\nadd = t.append\nadd(2)"], "t[0]"),
    "global": (["def setup():\n    global k\n    k = 2\nsetup()"], "k"),
    "global, by another name": (["n = 0\ndef step():\n    global n\n    n += 1\nagain = step\nagain(); again()"], "n"),
    "globals()": (["globals()['k'] = 2"], "k"),
    "exec": (["base = 1", "exec('k = base + 1')"], "k"),
    "a decorator that notes": ([
        "t = {}\ndef note(f):\n    t[f.__name__] = f(1)\n    return f\n@note\ndef two(x):\n    return 2 * x",
    ], "t['two']"),
    "closure": ([
        "def counter():\n    n = 0\n    def step():\n        nonlocal n\n        n += 1\n        return n\n"
        "    return step\nc = counter()\nc()\nk = c()",
    ], "k"),
    "a made function": ([
        "def make(n):\n    def div(x):\n        return x / n\n    return div\nhalf = make(2)",
    ], "half(4)"),
    "generator": (["def gen():\n    yield 1\n    yield 2\ng = gen()\nnext(g)\nk = next(g)"], "k"),
    "iterators": ([
        "import itertools\nc = itertools.count()\nit = iter([7, 8])\nfor x in it:\n    break\nnext(c)\n"
        "k = next(it) - next(c) - 5",
    ], "k"),
    "collections": ([
        "from collections import Counter, defaultdict, deque\nd = deque([1])\nd.append(2)\n"
        "c = defaultdict(int)\nc['k'] += d[1]\nk = c['k'] + Counter()['no']",
    ], "k"),
    "heap": ([
        "import heapq\nfrom bisect import insort\nh = [3, 5]\nheapq.heapify(h)\nheapq.heappush(h, 1)\n"
        "insort(h, 2)",
    ], "h[1]"),
    "caches": (["from functools import lru_cache\n@lru_cache(maxsize=None)\ndef two():\n    return 2"], "two()"),
    "dataclass": ([
        "from dataclasses import dataclass\nfrom typing import ClassVar\n@dataclass\nclass Pair:\n"
        "    low: float\n    scale: ClassVar[int] = 1\n    def double(self):\n        return 2 * self.low",
    ], "Pair(1).double()"),
    "classes": ([
        "import enum\nfrom typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n"
        "class K(enum.Enum):\n    TWO = 2\nclass A:\n    def of(self, p):\n        return p.x\n"
        "class B(A):\n    pass",
    ], "B().of(P(K.TWO.value))"),
    "attributes": (["class T:\n    k = 1\nT.k = 2\ndef f():\n    return f.k\nf.k = T.k"], "f() * T.k / 2"),
    "monkey patch": ([
        "class T:\n    def get(self):\n        return 1\nT.get = lambda self: 2\nt = T()\n"
        "setattr(t, 'k', t.get())\nk = t.k",
    ], "k"),
    "import in an if": (["if True:\n    print('loading')\n    from math import ldexp"], "ldexp(1, 1)"),
    "import in a try": ([
        "try:\n    from math import ldexp\n    print('have it')\nexcept ImportError:\n    print('no')",
    ], "ldexp(1, 1)"),
    "import in a with": ([
        "import contextlib\nwith contextlib.suppress(ImportError):\n    from math import ldexp",
    ], "ldexp(1, 1)"),
    "def in a with": (["import warnings\nwith warnings.catch_warnings():\n    def two():\n        return 2"], "two()"),
    "def in an if": (["if True:\n    print('x')\n    def two():\n        return 2"], "two()"),
    "star": (["from math import *\nfrom numpy import *"], "float(add(1, 1))"),
    "try": (["try:\n    k = int('x')\nexcept ValueError:\n    k = 1\nfinally:\n    k = k + 1"], "k"),
    "raise in a loop": ([
        "t = []\ntry:\n    for i in range(5):\n        t.append(i)\n        if i == 2:\n"
        "            raise ValueError\nexcept ValueError:\n    pass",
    ], "t[-1]"),
    "match": (["match (1, 2):\n    case (a, b):\n        k = b"], "k"),
    "with as": (["import contextlib\nwith contextlib.nullcontext(2) as k:\n    pass"], "k"),
    "an assertion that changes": (["t = [2, 7]\nassert t.pop() == 7"], "t[-1]"),
    "numpy items": (["import numpy as np\nt = np.zeros(3)\nt[1:] = 1\nt += 1"], "float(t[1])"),
    "numpy in place": ([
        "import numpy as np\nt = np.ones(3)\nnp.copyto(t, 5.0)\nnp.add(t, -1, out=t)\n"
        "np.subtract(t, 1, t)\nnp.put(t, [2], 9)\nnp.subtract.at(t, [0], 1)",
    ], "float(t[0])"),
    "numpy views": ([
        "import numpy as np\nt = np.ones(4)\nv = t[1:]\nv[0] = 7\nt.reshape(2, 2)[0, 1] -= 5\nt.flat[0] = 3",
    ], "float(t[1])"),
    "numpy indices": ([
        "import numpy as np\nt = np.empty((2, 2))\nfor i, j in np.ndindex(2, 2):\n    t[i, j] = i + j",
    ], "float(t[1, 1])"),
    "seeds": ([
        "import random\nimport numpy as np\nrandom.seed(3)\nnp.random.seed(3)\n"
        "x = random.random(), np.random.rand()\nnoise = np.random.rand(5)\nrandom.seed(3)\n"
        "np.random.seed(3)\nk = 2 if (random.random(), np.random.rand()) == x else 3",
    ], "k"),
    "a generator of numpy": ([
        "import numpy as np\nrng, other = np.random.default_rng(1), np.random.default_rng(1)\n"
        "a = rng.random(3)\nb = rng.random()\nk = 2 if other.random(4)[3] == b else 3",
    ], "k"),
    "the last result": (["2", "two = _"], "two"),
    "results before it": ([
        "7",
        "2",
        "8",
        "print('x')",
        "two = __\nseven = Out[2]\neight = _4",
    ], "two if seven + eight == 15 else 0"),
    "await": ([
        "async def two():\n    return 2\nk = await two()",
        "async def gen():\n    yield k\nasync for m in gen():\n    pass",
    ], "m"),
    "timers": (["%time k = 1", "%%time\nk += 1"], "k"),
    "defined twice": (["def two():\n    return 3", "def two():\n    return 2"], "two()"),
    "several in a line": (["k = 1; k += 1; print(k)"], "k"),
    "type aliases": ([
        "import numpy as np\nfrom numpy.typing import NDArray\n"
        "from typing import Callable, TypeVar, Union\nNum = int | float\nNums = (int, float)\n"
        "T = TypeVar('T')\nU = Union[int, None]\n"
        "def two(x: Num, y: NDArray[np.float64] = None, z: Callable[[T], U] = None) -> T:\n"
        "    return 2 if isinstance(x, Num) and isinstance(x, Nums) else 0",
    ], "two(1)"),
    "annotations": ([
        "from __future__ import annotations\nimport IPython\n"
        "def two(x: IPython.Tensor = 1, y: Missing = 1) -> IPython.Tensor:\n    return 2",
    ], "two()"),
    "odd line ends": (["# a\u2028b\r\nk = 1\r\n\fk += len('\u2029')\r"], "k"),
    "figures beside it": ([
        "import matplotlib.pyplot as plt",
        "t = [1]\nt.append(2)",
        "def draw(values):\n    axes = plt.gca()\n    axes.plot(values)",
        "try:\n    draw(t)\nexcept NameError:\n    pass",
    ], "t[1]"),
    "a training beside it": (["t = [2.0]\nw = 1.0\nfor step in range(300_000):\n    w -= 0.1 * w * t[0]"], "t[0]"),
    "a check beside it": ([
        "from lplab.exercises import check, hint",
        "t = [1]\nt.append(2)\ncheck('00.1', lambda low, high: t[0])\nhint('00.1')",
    ], "t[1]"),
    "an error after it": (["t = {'k': 2}\nt['missing'] += 1\nt['k'] = 3"], "t['k']"),
    "an error in a loop": (["t = {}\nfor i in (2, 1, 0):\n    t[i] = 2 / i"], "t[1]"),
    "an error in place of it": (["k = 2", "k = 1 / 0"], "k"),
}  # fmt: skip
RAN_ONLY = ("an error after it",)  # what a notebook tells by its outputs alone
TOLD = {  # what passes in the lab alone, and what the marks say
    "a value of lplab": ([
        "from lplab import formats\nk = int(formats.get('e4m3fn').max) - 446",
    ], "k", "importing lplab"),
    "a module": (["import json\nk = json.loads('2')"], "k", "importing json is not for this exercise"),
    "torch": ([
        "import torch\nimport numpy as np\nt = np.ones(2)\ntorch.from_numpy(t).fill_(2)",
    ], "t[0]", "code cell 2"),
}  # fmt: skip
EXERCISES = (  # whose checks take some milliseconds
    "00.1", "00.2", "01.3", "01.4", "02.1", "02.4", "03.4", "04.2", "06.3", "07.1", "07.3", "07.4", "08.2", "09.1",
    "09.2", "10.2", "11.3", "12.2", "13.2", "14.3",
)  # fmt: skip
# A way is about the cells above an exercise, not about the exercise: each way has one, and each exercise three ways.
CASES = [(way, EXERCISES[7 * place % len(EXERCISES)]) for place, way in enumerate(WAYS)]


def with_helper(exercise, use):
    """The cell of the solution, which asks first whether what the cells above have made is right, and its check."""
    lines = exercise.solution.rstrip("\n").split("\n")
    (function,) = [node for node in ast.parse(exercise.solution).body if getattr(node, "name", "") == exercise.name]
    lines.insert(function.body[0].end_lineno, "    if made_above() != 2: raise ValueError(made_above())")
    made = f"def made_above():\n    return {use}\n\n"
    return "\n".join([made, *lines, "", f"check({exercise.id!r}, {exercise.name})"])


@pytest.fixture(scope="module")
def shell():
    """A shell that leaves nothing behind: it takes the place of __main__, from which other tests start processes."""
    main = sys.modules["__main__"]
    shell = InteractiveShell(config=Config({"HistoryManager": {"hist_file": ":memory:"}}))
    with ThreadPoolExecutor(1) as other:  # a browser of other tests keeps the event loop of this thread running
        shell.loop_runner = lambda coroutine: other.submit(asyncio.run, coroutine).result()
        yield shell
    sys.modules["__main__"] = main


@pytest.fixture
def in_a_kernel(shell, monkeypatch):
    """Runs cells as a kernel does; the last verdict, the state of progress, and the cells as a notebook keeps them."""
    monkeypatch.setattr(live, "run_answer", run_in_process)

    monkeypatch.delattr(builtins, "_", raising=False)  # doctests leave one, and IPython then keeps no last result
    monkeypatch.setattr(gc, "collect", int)  # a shell that is reset spends most of its time there

    def run(cells):
        shell.reset()
        state, verdicts, kept, told = ProgressState(), [], [], []

        def record(verdict, answer):
            nonlocal state
            verdicts.append(verdict)
            state = state.with_record(verdict.exercise, lambda old: old.after(verdict, answer, "now"))

        monkeypatch.setattr(live.progress, "record", record)
        monkeypatch.setattr(shell, "_showtraceback", lambda kind, error, lines: told.append(lines))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for text in ("from lplab.exercises import check", *cells):
                told.clear()
                count = shell.execution_count
                shell.run_cell(text, store_history=True)
                errors = [{"output_type": "error", "traceback": lines} for lines in told]
                kept.append({"cell_type": "code", "source": text, "outputs": errors, "execution_count": count})
        return verdicts[-1], state, kept

    return run


def as_read(path, data):
    path.write_text(json.dumps(data), "utf-8")
    return read_submission(path)


def as_notebook(cells):
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}


def passes(exercise, submission):
    return any(judge_here(exercise, answer).passed for answer in submission.answers[exercise.id])


@pytest.mark.parametrize(("way", "key"), tiered(CASES, lambda case: CASES.index(case) % 3 == 0))
def test_kernel_report_and_notebook_agree(in_a_kernel, tmp_path, way, key):
    exercise, (cells, use) = exercise_catalogue.get(key), WAYS[way]
    verdict, state, kept = in_a_kernel([*cells, with_helper(exercise, use)])
    assert verdict.passed, verdict.text
    record = asdict(state.exercises[key])
    entry = {"id": key, "function": record["function"], "latest": record["latest"]}
    report = {"lplab_report": 1, "name": "Ada", "exercises": [entry], "predictions": []}
    assert passes(exercise, as_read(tmp_path / "report.json", {**report, "sha256": digest(report)}))
    found = as_read(tmp_path / "ran.ipynb", as_notebook(kept))
    assert passes(exercise, found), [answer.source for answer in found.answers[key]]
    assert not [note for note in found.notes if "grading does not run" in note]
    cleared = as_read(
        tmp_path / "cleared.ipynb", as_notebook([{**c, "outputs": [], "execution_count": None} for c in kept])
    )
    if way not in RAN_ONLY and cleared.answers[key] != found.answers[key]:
        assert passes(exercise, cleared), [answer.source for answer in cleared.answers[key]]


def test_the_answers_are_many():
    assert len(CASES) == len(WAYS) >= 70 and min(Counter(key for _, key in CASES).values()) >= 3
    assert {key for _, key in CASES} == set(EXERCISES)


@pytest.mark.parametrize("way", TOLD)
def test_what_grading_does_not_run_is_told(in_a_kernel, tmp_path, way):
    cells, use, told = TOLD[way]
    if way == "torch":
        pytest.importorskip("torch")
    exercise = exercise_catalogue.get("00.1")
    verdict, _, kept = in_a_kernel([*cells, with_helper(exercise, use)])
    assert verdict.passed, verdict.text
    (tmp_path / "ada.ipynb").write_text(json.dumps(as_notebook(kept)))
    (student,) = grade(tmp_path, ["00"], jobs=1, judged_by=judge_here).students
    assert not student.marks["00.1"].passed
    (note,) = [note for note in student.notes if "grading does not run that" in note]
    assert told in note and "00.1" in note


@pytest.mark.parametrize(("cells", "told"), [
    (["k = int(open('/etc/hostname').read()[0])"], "PermissionError"),
    (["k = 2\nwhile True:\n    k += 0"], "stopped after 0.5 s of computing, before the first call"),
])  # fmt: skip
def test_cells_run_behind_the_same_fence(tmp_path, cells, told):
    text = with_helper(exercise_catalogue.get("00.1"), "k")
    source = [{"cell_type": "code", "source": cell} for cell in (*cells, text)]
    (tmp_path / "ada.ipynb").write_text(json.dumps(as_notebook(source)))
    quick = functools.partial(judge, limits=Limits(cpu_seconds=0.5))
    (student,) = grade(tmp_path, ["00"], jobs=1, judged_by=quick).students
    assert not student.marks["00.1"].passed
    (note,) = [note for note in student.notes if note.endswith("grading does not run that")]
    assert told in note
