"""The self-contained source of a notebook's function, run elsewhere; what cannot be included is named."""

import functools
import linecache
import math
import sys

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from lplab.exercises.isolation import Raised, run_isolated
from lplab.exercises.isolation.answers import Answer, answer_of
from tests.kinds import one_in_three

BIAS = 7


@pytest.fixture(scope="module")
def new_shell(tmp_path_factory):
    """Makes an IPython that leaves the history of whoever runs the tests alone, and this process its main module."""
    main = sys.modules["__main__"]
    folder = tmp_path_factory.mktemp("ipython")
    config = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"cache_size": 0}})  # a reset is quick
    yield lambda: InteractiveShell(config=config, ipython_dir=str(folder))
    sys.modules["__main__"] = main


@pytest.fixture(scope="module")
def shell(new_shell):
    return new_shell()


@pytest.fixture
def notebook(shell):
    """A function that runs the cells of a new notebook, parted by ``# ---``, and returns the names it then has."""
    shell.reset()
    for name in [name for name, entry in linecache.cache.items() if len(entry) == 4 and entry[1] is None]:
        del linecache.cache[name]  # cells of other tests, which may define a class of the same name

    def run_cells(text: str) -> dict:
        for cell in text.split("# ---\n"):
            shell.run_cell(cell).raise_error()
        return shell.user_ns

    with np.printoptions():  # %precision changes numpy's
        yield run_cells


def result(function, *arguments):
    """The result of ``function`` in a process of its own."""
    outcome = run_isolated(answer_of(function), [arguments])
    assert outcome.stopped is None
    return outcome.values[0]


# ---- what goes along -------------------------------------------------------------------------------------------------

GOOD = {
    "imports in another cell": """
import numpy as np
from math import floor
# ---
def f(x): return np.floor(x) + floor(x)
""",
    "an import with a name of one's own": """
from numpy import rint as near, float32
import numpy.linalg as la
# ---
def f(x): return near(float32(x)) + la.norm([3, 4])
""",
    "constants": """
A, B, C = 1, (2.5,), {'a': [None, True, 'b']}
NAN = float('nan')
# ---
def f(x): return A + B[0] + len(C['a']) + (NAN != NAN)
""",
    "an array": """
import numpy as np
table = np.array([0.1, np.inf, -0.0], np.float32)
# ---
def f(x): return table[0] * 2 + np.signbit(table[2]) + np.isinf(table[1])
""",
    "a number of numpy, without its import": """
import numpy
three = numpy.float16(3)
# ---
def f(x): return three
""",
    "a helper": """
def half(x):
    return x / 2
# ---
def f(x): return half(x)
""",
    "helpers of helpers": """
K = 3
def a(x): return x * K
def b(x): return a(x) + 1
# ---
def f(x): return b(x)
""",
    "recursion": """
def f(x): return 0 if x < 1 else 1 + f(x - 1)
""",
    "mutual recursion": """
def f(x): return 0 if x < 1 else 1 + g(x)
def g(x): return f(x - 1)
""",
    "defaults": """
K = 3
# ---
def f(x, y=K, *, z=K * 2): return x + y + z
""",
    "annotations": """
import numpy as np
from typing import Optional
from numpy.typing import NDArray
# ---
def f(x: Optional[float]) -> NDArray[np.float64]: return x
""",
    "a nested function": """
def f(x):
    def g(y):
        return y + x
    return g(1)
""",
    "a closure": """
def make(bits):
    def f(x):
        '''A long
text.'''
        return x * 2 ** bits
    return f
f = make(3)
""",
    "a lambda": """
K = 3
f = lambda x: x + K
""",
    "the second lambda of a line": """
_, f = (lambda x: x), (lambda x: x * 2)
""",
    "a lambda as a helper": """
twice = lambda x: 2 * x
# ---
def f(x): return twice(x)
""",
    "a helper by another name": """
def half(x): return x / 2
h = half
# ---
def f(x): return h(x)
""",
    "a function by another name": """
def g(x): return 0 if x < 1 else 1 + f(x - 1)
f = g
""",
    "a decorator": """
import functools
@functools.lru_cache(maxsize=None)
def f(x): return 0 if x < 1 else 1 + f(x - 1)
""",
    "a decorator of one's own": """
import functools
def twice(g):
    @functools.wraps(g)
    def wrapped(x): return 2 * g(x)
    return wrapped
# ---
@twice
def f(x): return x
""",
    "a decorator that hides what it wraps": """
def twice(g):
    def wrapped(x): return 2 * g(x)
    return wrapped
# ---
@twice
def f(x): return x
""",
    "np.vectorize": """
import numpy as np
# ---
@np.vectorize
def f(x): return x + 1
""",
    "a class": """
K = 3
class Grid:
    step = K
    def at(self, x): return x * self.step
# ---
def f(x): return Grid().at(x)
""",
    "a class without methods": """
from dataclasses import dataclass
# ---
@dataclass
class Grid:
    step: int = 3
# ---
def f(x): return x * Grid().step
""",
    "a derived class": """
class A:
    k = 2
class B(A):
    pass
# ---
def f(x): return B.k * x
""",
    "the shell's own names": """
def f(x):
    if x < 0: exit(), open('x'), quit()
    return x
""",
    "a cell with magics": """
%precision 3
!true
def f(x): return x
""",
    "a function redefined": """
def f(x): return 0
# ---
def f(x): return x
""",
    "a helper redefined": """
def h(x): return 0
# ---
def f(x): return h(x)
# ---
def h(x): return x + 1
""",
    "a constant changed": """
K = 1
# ---
def f(x): return x + K
# ---
K = 2
""",
}


@pytest.mark.parametrize("cells", one_in_three(GOOD.values()), ids=GOOD)
def test_it_gives_the_same_elsewhere(notebook, cells):
    function = notebook(cells)["f"]
    assert result(function, 2.5) == function(2.5)


def test_annotations_of_the_future(new_shell):
    shell = new_shell()  # in which the import stays in force
    shell.run_cell("from __future__ import annotations").raise_error()
    shell.run_cell("def f(x: Nowhere) -> Nothing: return x").raise_error()
    assert result(shell.user_ns["f"], 2.5) == 2.5


def test_a_counter_starts_where_it_is(notebook):
    names = notebook("count = 3\ndef f():\n    global count\n    count += 1\n    return count")
    assert result(names["f"]) == 4 and names["count"] == 3


def test_only_what_is_used_goes_along(notebook):
    names = notebook("import os, numpy as np\nsecret = 1\ndef f(x):\n    return np.rint(x)")
    assert answer_of(names["f"]) == Answer("import numpy as np\n\ndef f(x):\n    return np.rint(x)\n", "f")


def test_a_missing_name_is_missed_when_it_is_used(notebook):
    names = notebook("def f(x):\n    return missing")
    assert result(names["f"], 1) == Raised("NameError", "name 'missing' is not defined", 2, "return missing")


def helper(x):
    return x + BIAS


def of_a_module(x, table=(1, 2)):
    return helper(math.floor(x)) + table[0]


def test_a_function_of_a_module():
    assert result(of_a_module, 2.5) == of_a_module(2.5)


@pytest.mark.parametrize(
    "function", [np.rint, np.round, math.floor, round, float, np.float32], ids=lambda f: f.__name__
)
def test_a_function_of_numpy_or_python_itself(function):
    assert result(function, 2.5) == function(2.5)


@pytest.mark.parametrize("cell", ["async def f(x): return x", "def f(x): yield x"])
def test_what_is_no_plain_function_goes_along_all_the_same(notebook, cell):
    assert result(notebook(cell)["f"], 1).sentence.startswith("a ")


# ---- what does not ---------------------------------------------------------------------------------------------------

BAD = {
    "an answer is a function, not an int": "f = 3",
    "an answer is a function, not a NoneType": "f = None",
    "an answer is a function made with def, not a partial; write one that calls it":
        "import functools\nf = functools.partial(round, 3)",
    "an answer is a function made with def, not a method; write one that calls it":
        "class A:\n    def f(self): pass\nf = A().f",
    "an answer is a function made with def, not an A; write one that calls it":
        "class A:\n    def __call__(self): pass\nf = A()",
    "`A.f` is a method; write a function outside of the class": "class A:\n    def f(self): pass\nf = A.f",
    "the source of `f` is not to be found; define it with def in a cell that does not begin with %%":
        "exec('def f(x): return x')",
    "`g` is wrapped in other functions; write them with @ above its def, or leave them out":
        "import numpy as np\ndef g(x): return x\nf = np.vectorize(g)",
    "`h` is wrapped in other functions; write them with @ above its def, or leave them out":
        "import functools\ndef h(x): return x\nf = functools.lru_cache(h)",
    "`f` uses `big`, an array of 5,000 numbers; make it inside the function":
        "import numpy as np\nbig = np.zeros(5000)\ndef f(x): return big[0]",
    "`g` uses `file`, a StringIO; make it inside the function":
        "import io\nfile = io.StringIO()\ndef g(x): return file\ndef f(x): return g(x)",
    "`f` uses `rng`, a Generator; make it inside the function":
        "import numpy as np\nrng = np.random.default_rng(0)\ndef f(x): return rng.random()",
    "`f` uses `loop`, a value that contains itself, or is nested too deeply; make it inside the function":
        "loop = []\nloop.append(loop)\ndef f(x): return loop",
    "`f` cannot stand alone (no binding for nonlocal 'n' found); define it at the left margin of a cell":
        "def make():\n  n = 0\n  def f(x):\n    nonlocal n\n    n += 1\n    return n\n  return f\nf = make()",
    "your functions use two different things named `g`; give them different names":
        "def make(k):\n    def g(x): return x * k\n    return g\na, b = make(1), make(2)\ndef f(x): return a(x) + b(x)",
    "the source of class `P` is not to be found; define it with class in a cell":
        "class P:\n    x = 1\n# ---\nimport collections\nP = collections.namedtuple('P', 'x')\ndef f(x): return P(x)",
}  # fmt: skip


@pytest.mark.parametrize(("sentence", "cell"), BAD.items(), ids=range(len(BAD)))
def test_what_cannot_go_along_is_named(notebook, sentence, cell):
    with pytest.raises(ValueError) as error:
        answer_of(notebook(cell)["f"])
    assert str(error.value) == sentence


@pytest.mark.parametrize(("source", "name", "sentence"), [
    (None, "f", "the source of an answer is text, not a NoneType"),
    ("", "f()", "an answer needs the name of a function, not 'f()'"),
    ("", "lambda", "an answer needs the name of a function, not 'lambda'"),
    ("", None, "an answer needs the name of a function, not None"),
])  # fmt: skip
def test_an_answer_is_text_and_a_name(source, name, sentence):
    with pytest.raises(ValueError) as error:
        Answer(source, name)
    assert str(error.value) == sentence


def test_a_partial_inside_is_named():
    inside = functools.partial(round, 2)

    def f(x):
        return inside(x)

    with pytest.raises(ValueError, match="`f` uses `inside`, a partial; make it inside the function"):
        answer_of(f)
