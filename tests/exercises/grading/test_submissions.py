"""From submissions to answers: nothing is run, and no file raises an error."""

import json
import math
import os
import zipfile

import pytest

from lplab.exercises.checks.judge import judge
from lplab.exercises.grading.report_file import digest
from lplab.exercises.grading.submissions import clean, read_submission
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue
from tests.exercises.in_process import judge_here
from tests.kinds import one_in_three

STEP = "def step(x, fraction_bits):\n    return round(x * 2**fraction_bits) / 2**fraction_bits\n"


def notebook(*cells, **others):
    """Text of a notebook; strings are code cells, dicts any cells."""
    made = [{"cell_type": "code", "source": c.splitlines(True)} if isinstance(c, str) else c for c in cells]
    return json.dumps({"cells": made, "nbformat": 4, "nbformat_minor": 5, "metadata": {}, **others})


@pytest.fixture
def read(tmp_path):
    def made(*cells, **others):
        path = tmp_path / "ada.ipynb"
        path.write_text(notebook(*cells, **others), "utf-8")
        return read_submission(path)

    return made


def values(answer, *calls):
    """The result of an answer's function; the answers of these tests are trusted."""
    namespace = {}
    exec(answer.source, namespace)
    return [namespace[answer.name](*call) for call in calls]


# ---- what a function needs -------------------------------------------------------------------------------------------


def test_a_function_comes_with_all_it_uses_and_nothing_else(read):
    found = read(
        "import numpy as np, os\nfrom math import floor as down, ceil\nfrom lplab import datasets, figures",
        "data = datasets.digits()\nprint('loaded')\nwhile True: pass",
        "BITS = 3\nSCALE = 2**BITS  # a comment that stays\nTABLE = [down(k / 2) for k in range(BITS)]",
        "def helper(x):\n    return other(x) * SCALE\n\ndef other(x):\n    return np.float64(x)\n\nclass Unused: pass",
        "def f(x, data=None):\n    figures = [x]\n    return helper(x) + TABLE[2] + len(figures)\n\ncheck('01.1', f)",
    )
    (answer,) = found.answers["01.1"]
    assert values(answer, (1,)) == [10.0]
    assert "a comment that stays" in answer.source and answer.name == "f"
    for left_out in ("print", "while", "Unused", "os", "ceil", "lplab", "datasets"):
        assert left_out not in answer.source, left_out
    assert found.notes == () and found.places == {"01.1": ("code cell 5",)} and found.name == "ada"


def test_later_definitions_win_and_copies_give_several_answers(read):
    found = read(
        "def f(x):\n    return g(x)\ncheck('01.1', f)", "def g(x):\n    return 1", "def g(x):\n    return 2",
        "def f(x):\n    return 3\ncheck('01.1', f)",
    )  # fmt: skip
    assert [values(answer, (0,)) for answer in found.answers["01.1"]] == [[2], [3]]
    assert found.places["01.1"] == ("code cell 1", "code cell 4")


def test_a_helper_that_is_redefined_for_another_exercise_harms_neither(read):
    one = "def g(x):\n    return 1\ndef f(x):\n    return g(x)\ncheck('01.1', f)"
    two = "def g(x):\n    return 2\ndef h(x):\n    return g(x)\ncheck('01.2', h)"
    found = read(one, two)
    assert [values(answer, (0,)) for answer in found.answers["01.1"]] == [[1]], "whoever goes back runs the cell whole"
    assert [values(answer, (0,)) for answer in found.answers["01.2"]] == [[2]]


def test_reordered_cells(read):
    found = read("check('01.1', f)", "def f(x):\n    return A + g(x)", "A = B + 1", "from math import floor", "B = 1",
                 "def g(x):\n    return floor(x)")  # fmt: skip
    (answer,) = found.answers["01.1"]
    assert values(answer, (2.5,)) == [4]


@pytest.mark.parametrize(("counts", "expected"), [
    ((3, 2, 1), [[1], [2]]), ((1, 2, 3), [[1]]), ((9, None, 4), [[1]]), ((None, None, None), [[1]]),
    ((4, 2, True), [[1], [2]]), ((5, 10**400, "1"), [[1]]),
])  # fmt: skip
def test_cells_count_in_the_order_in_which_they_ran(read, counts, expected):
    """As they stand, and by their numbers, where these say something else; numbers of other kinds are none."""
    texts = "def f(x):\n    return k\ncheck('01.1', f)", "k = 2", "k = 1"
    cells = [{"cell_type": "code", "source": text, "execution_count": n} for text, n in zip(texts, counts, strict=True)]
    assert [values(answer, (0,)) for answer in read(*cells).answers["01.1"]] == expected


def test_what_stands_below_the_line_that_raised_did_not_run(read):
    frames = [
        "\x1b[31mZeroDivisionError\x1b[39m",
        "Cell In[1], line 2\n      1 k = 2\n----> \x1b[32m2\x1b[39m 1 / 0\n      3 k = 3",
    ]
    error = {"output_type": "error", "traceback": frames}
    cell = {"cell_type": "code", "source": "k = 2\n1 / 0\nk = 3", "execution_count": 1, "outputs": [error]}
    answer = "def f(x):\n    return k\ncheck('01.1', f)"
    assert values(read(cell, answer).answers["01.1"][0], (0,)) == [2]
    edited = {**cell, "source": "k = 2\nk += 1"}  # since then: the traceback says nothing of this text
    assert values(read(edited, answer).answers["01.1"][0], (0,)) == [3]


@pytest.mark.parametrize("cells", [
    ["t0 = []\n" + "\n".join(f"t{i} = [t{i - 1}]; t{i}.append(t{i // 2})" for i in range(1, 400)), "k = len(t399)"],
    ["\n".join(f"def f{i}():\n global k{i}\n k{i} = f{i * 7 % 200}() + f{i * 3 % 200}()" for i in range(200)), "k = 2"],
    ["for i in range(3):\n" + "".join(f" a{i} = a{i - 1}\n" for i in range(800, 0, -1)), "k = 2"],
    ["exec('k = 2')\n" * 900],
])  # fmt: skip
def test_a_notebook_of_knots_is_read_all_the_same(read, monkeypatch, cells):
    monkeypatch.setattr("lplab.exercises.grading.slicing.MAX_NEEDS", 100)
    monkeypatch.setattr("lplab.exercises.grading.effects.MAX_LEARNED", 100)
    found = read(*cells, "def f(x):\n    return k\ncheck('01.1', f)")
    assert values(found.answers["01.1"][0], (0,)) == [2]


def test_answers_that_are_too_long_together_are_read_no_further(read, monkeypatch):
    monkeypatch.setattr("lplab.exercises.grading.slicing.MAX_CHARACTERS", 100)
    found = read(*(f"def f(x):\n    return {i} * x\ncheck('01.1', f)" for i in range(9)))
    assert 1 <= len(found.answers["01.1"]) < 9
    assert found.notes == ("the answers of this notebook are too long together: the last ones were not read",)


@pytest.mark.parametrize(("cells", "expected"), [
    (["n = 1", "n = n + 1", "def f(x):\n    return n"], 2),
    (["n = 1", "table = [n]", "n = 5", "def f(x):\n    return n, table"], (5, [1])),
    (["import functools\n@functools.lru_cache\ndef f(x):\n    return x * 2"], 4),
    (["f = lambda x: x + 1"], 3),
    (["def f(x):\n    return x", "import numpy as np\nf = np.vectorize(f, otypes=[float])"], 2.0),
    (["def even(x):\n    return x == 0 or odd(x - 1)\ndef odd(x):\n    return x != 0 and even(x - 1)\nf = even"], True),
    (["try:\n    from math import nothing_such as k\nexcept ImportError:\n    k = 7", "def f(x):\n    return k"], 7),
    (["a, (b, *c) = 1, (2, 3, 4)", "def f(x):\n    return [a, b, c]"], [1, 2, [3, 4]]),
    (["a = 1; b = 2; print(a)", "def f(x):\n    return a + b"], 3),
    (["class Grid:\n    def at(self, x):\n        return Grid, x", "def f(x):\n    return Grid().at(x)[1]"], 2),
    (["from math import *", "def f(x):\n    return sqrt(x * 2)"], 2.0),
    (["def f(x, k=3):\n    def inner():\n        return k + x\n    return inner()"], 5),
    (["import os.path", "def f(x):\n    return os.path.join('a', 'b')"], os.path.join("a", "b")),
    (["from __future__ import annotations", "def f(x: Missing) -> Missing:\n    return x"], 2),
    (["%time\n!pip list\nk = 5\nf?", "def f(x):\n    return k"], 5),
    (["%%time\ndef f(x):\n    return 6"], 6),
    (["k: int = 4", "def f(x):\n    return k"], 4),
    (["text = '''\ndef f(x): return 0\n'''\ndef f(x):\r\n    return len(text)"], 20),
])  # fmt: skip
def test_ways_to_write_it(read, cells, expected):
    found = read(*cells, "check('01.1', f)")
    assert values(found.answers["01.1"][0], (2,)) == [expected]


@pytest.mark.parametrize("call", [
    "check('01.1', f)", "exercises.check('01.1', f)", "lplab.exercises.check('01.1', f)",
    "v = check('01.1', function=f)", "check(exercise_id='01.1', function=f)",
    "if True:\n    display(check('01.1', f))", "check ( ' 01.1' ,\n f )",
    "from lplab.exercises import check as c\nc('01.1', f)", "test = exercises.check\ntest('01.1', f)",
])  # fmt: skip
def test_ways_to_call_the_check(read, call):
    assert list(read("def f(x):\n    return x", call).answers) == ["01.1"]


# ---- what goes wrong in a notebook -----------------------------------------------------------------------------------


def test_a_cell_with_a_syntax_error_is_noted_and_the_rest_is_read(read):
    found = read("def f(x):\n    return x", "def g(:\n    pass\ncheck('01.2', g)", "check('01.1', f)")
    assert list(found.answers) == ["01.1", "01.2"]
    assert "code cell 2 is no Python (line 1: invalid syntax)" in found.notes
    (answer,) = found.answers["01.2"]
    verdict = judge(exercise_catalogue.get("01.2"), answer)
    assert verdict.status == "failed" and verdict.ring == "form" and "invalid syntax" in verdict.text


def test_half_a_character_in_a_cell_harms_nobody(read):
    (answer,) = read("def f(x):\n    return '\ud800'\ncheck('01.1', f)").answers["01.1"]
    assert values(answer, (1,)) == ["?"]


def test_a_lost_check_of_another_lab_is_not_looked_for(read):
    found = read("def decode(x):\n    return x\ndef step(x):\n    return x\ncheck('02.1', step)")
    assert list(found.answers) == ["02.1"]


def test_a_notebook_of_thousands_of_definitions(read):
    chain = "\n".join(f"def g{i}(x):\n    return g{i + 1}(x)\nn{i} = {i}" for i in range(1500))
    (answer,) = read(chain, "check('01.1', g0)").answers["01.1"]
    assert answer.source.count("def ") == 1500 and "n7 = 7" not in answer.source


@pytest.mark.parametrize("line", [
    "x = " + "+".join("1" * 20_000), "x = " + "-" * 20_000 + "1", "x = a" + ".b" * 20_000,
    "x = " + "[" * 190 + "]" * 190, "x = " + "1, " * 20_000,
    "".join("if 1:\n" + " " * i for i in range(1, 120)) + "pass",
])  # fmt: skip
def test_code_that_no_parser_likes(read, line):
    found = read("def f(x):\n    return x", line + "\ndef h(y):\n    return x", "check('01.1', f)\ncheck('01.2', h)")
    assert "01.1" in found.answers and not found.problem


def test_other_cells_of_all_kinds_are_passed_over(read):
    others = [{"cell_type": "markdown", "source": "check('01.2', f)"}, {"cell_type": "raw"}, 3, None,
              {"cell_type": "code"}, {"cell_type": "code", "source": {"a": 1}},
              {"cell_type": "code", "source": ["x = 1\n", 2]},
              {"cell_type": "code", "source": "%%html\n<b>check('01.3', f)</b>"}]  # fmt: skip
    found = read(*others, "def f(x):\n    return x\ncheck('01.1', f)")
    assert list(found.answers) == ["01.1"] and found.notes == (
        "code cell 4 is %%html: it was not read",
        "cell 1 is a Markdown cell and has an answer to 01.2: it was not read; turn it into a code cell",
    )


def test_what_is_odd_is_noted(read):
    found = read(
        "def f(x):\n    return table[x] + total\ntable = []\nfor i in range(9):\n    table.append(i)\n    total = i",
        "check('01.1', f)\ncheck('98.7', f)\ncheck('01.2', lambda x: x)\ncheck('01.3', nowhere)\n# check('01.4', f)",
    )
    assert list(found.answers) == ["01.1"]
    assert values(found.answers["01.1"][0], (3,)) == [11]
    assert found.notes == (
        "code cell 2: there is no exercise 98.7",
        "code cell 2: check('01.2', …) is not given a function by its name",
        "code cell 2 checks nowhere, which no cell defines",
    )


def test_an_answer_whose_check_was_deleted_is_found_by_its_name(read):
    exercise = exercise_catalogue.get("01.2")
    found = read(exercise.solution)
    assert [judge(exercise, answer).passed for answer in found.answers["01.2"]] == [True]
    assert found.notes == (f"01.2: no cell checks {exercise.name}; graded all the same",)


@pytest.mark.parametrize("exercise", one_in_three(exercise_catalogue.names()))
def test_the_cell_of_every_exercise_gives_stub_and_solution(read, exercise):
    exercise = exercise_catalogue.get(exercise)
    check = f"check({exercise.id!r}, {exercise.name})"
    found = read("import math\nimport numpy as np\nfrom lplab.exercises import check", exercise.cell,
                 f"{exercise.solution}\n\n{check}")  # fmt: skip
    stub, solved = (judge_here(exercise, answer) for answer in found.answers[exercise.id])
    assert solved.passed and not stub.passed


# ---- what goes wrong with a file -------------------------------------------------------------------------------------

GOOD = notebook("def f(x):\n    return 'größer'", "check('01.1', f)")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252"])
def test_encodings(tmp_path, encoding):
    path = tmp_path / "ada.ipynb"
    path.write_bytes(json.dumps(json.loads(GOOD), ensure_ascii=False).encode(encoding))
    found = read_submission(path)
    assert [values(answer, (1,)) for answer in found.answers["01.1"]] == [["größer"]]
    assert len(found.notes) == (not encoding.startswith("utf-8")), found.notes


@pytest.mark.parametrize(("raw", "told"), [
    (b"", "empty"), (b"\0" * 999, "empty"), (b" \n", "empty"),
    (GOOD.encode()[:-40], "is no JSON: "), (b"import numpy as np\n", "is no JSON: expecting value (line 1, column 1)"),
    (b"[" * 200_000, "is no JSON"), (b"{\"cells\": " + b"9" * 5000 + b"}", "is no JSON"),
    (bytes(range(128, 256)), "is no JSON"),
    (b"[]", "neither"), (b"3", "neither"), (b'{"a": 1}', "neither"), (b'{"lplab_report": "x"}', "neither"),
    (b'{"lplab_report": 99}', "newer lplab"), (b'{"lplab_report": 1}', "report without answers"),
    (b'{"lplab_report": 1, "exercises": [{"id": "01.1", "latest": 3, "function": "f"}, 4, {"id": []}]}', "answers"),
    (b'{"nbformat": 3, "worksheets": [{"cells": []}]}', "old format"), (b'{"nbformat": 4}', "no cells"),
    (b'{"cells": 7}', "no cells"), (notebook({"cell_type": "markdown", "source": "hi"}).encode(), "no code cells"),
    (notebook("x = 1").encode(), "checks no exercise"),
    (notebook("check('01.1', f)").encode(), "which no cell defines"),
    (b"PK\x03\x04rest", "zip archive"), (b"%PDF-1.7", "PDF"), (b"\x1f\x8brest", "gzip"),
    (notebook("def f(" + "(" * 50_000 + "\nx\0").encode(), "checks no exercise"),
])  # fmt: skip
def test_a_broken_file_says_why_in_one_line(tmp_path, raw, told):
    path = tmp_path / "class" / "ada.ipynb"
    path.parent.mkdir()
    path.write_bytes(raw)
    found = read_submission(path, tmp_path)
    assert told in found.problem and "\n" not in found.problem and str(tmp_path) not in found.problem
    assert found.name == "class/ada" and found.answers == {}


@pytest.mark.parametrize(
    "name", ["lab.ipynb.txt", "lab.download", "lab.bak", "lab", "lab.md", "lab.doc", "lab.xz", "lab.png"]
)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_notebook_is_one_whatever_it_is_called(name, encoding, tmp_path):
    (tmp_path / name).write_bytes(GOOD.encode(encoding))
    found = read_submission(tmp_path / name)
    assert list(found.answers) == ["01.1"] and f"is a notebook that is called {name}; read all the same" in found.notes
    assert found.name == "lab"


@pytest.mark.parametrize(("name", "raw", "told"), [
    ("a.odt", b"PK\x03\x04", "is a .odt file; hand in the notebook or the report"), ("a.geojson", b"{}", "is a .geo"),
    ("a.rtf", b"{\\rtf1", "is a .rtf file"), ("a", b"hi", "is neither a notebook nor"), ("a.md", b"", "is empty"),
    ("a.xz", b"\xfd7zXZ\0", "is an xz archive; unpack it"), ("a.bz2", b"BZh9", "is a bzip2 archive; unpack it"),
    ("a.ipynb.txt", b'{"cells": [', "is no JSON: "), ("a.ipynb.txt", b"PK\x03\x04", "is a zip archive; unpack it"),
])  # fmt: skip
def test_a_file_of_another_kind_says_which(name, raw, told, tmp_path):
    (tmp_path / name).write_bytes(raw)
    assert read_submission(tmp_path / name).problem.startswith(told)


@pytest.mark.parametrize(
    ("kind", "what"), [("markdown", "a Markdown cell"), ("raw", "a raw cell"), ("Code", "no code cell")]
)
@pytest.mark.parametrize(
    "source", ["x = 1\ncheck('01.1', f)", f"def {exercise_catalogue.get('01.1').name}(code):\n    pass"]
)
def test_an_answer_in_a_cell_that_is_no_code_has_a_note(kind, what, source, read):
    cell = {"cell_type": kind, "source": source}
    told = f"cell 1 is {what} and has an answer to 01.1: it was not read; turn it into a code cell"
    assert told in read(cell, "def g(x):\n    return x\ncheck('01.2', g)").notes
    assert told in read(cell).problem and told in read(cell, "x = 1").problem
    assert read({"cell_type": kind, "source": "text"}, "def g(x):\n    return x\ncheck('01.2', g)").notes == ()


def test_folders_missing_files_pipes_zips_and_giants(tmp_path):
    (tmp_path / "folder.ipynb").mkdir()
    assert read_submission(tmp_path / "folder.ipynb").problem == "is a folder"
    assert read_submission(tmp_path / "missing.ipynb").problem == "is not there"
    with zipfile.ZipFile(tmp_path / "zip.ipynb", "w") as archive:
        archive.writestr("ada.ipynb", GOOD)
    assert read_submission(tmp_path / "zip.ipynb").problem == "is a zip archive; unpack it"
    with (tmp_path / "giant.ipynb").open("wb") as file:
        file.truncate(200_000_000)  # takes no room on the disk
    assert "200 MB" in read_submission(tmp_path / "giant.ipynb").problem
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.ipynb")
        assert read_submission(tmp_path / "pipe.ipynb").problem == "is no file"


def test_a_file_that_may_not_be_opened(tmp_path, monkeypatch):
    (tmp_path / "ada.ipynb").write_text(GOOD)

    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    assert read_submission(tmp_path / "ada.ipynb").problem == "cannot be opened: Permission denied"


# ---- reports ---------------------------------------------------------------------------------------------------------


def report(**changes):
    sources = {"passing": "def f(x):\n    return 1\n", "latest": "def f(x):\n    return 2\n"}
    entry = {"id": "01.1", "function": "f", **sources,
             "attempts": 4, "hints": 1, "solution_at": "", "version": 1}  # fmt: skip
    guess = {"id": "01.a", "question": "How many?", "guess": 12, "truth": 118.0, "unit": "codes"}
    data = {"lplab_report": 1, "name": "Ada Lovelace", "exercises": [entry], "predictions": [guess], **changes}
    return {**data, "sha256": digest(data)}


def test_a_report_gives_answers_predictions_and_history(tmp_path):
    path = tmp_path / "some.json"
    path.write_text(json.dumps(report()))
    found = read_submission(path)
    assert (
        found.name == "Ada Lovelace"
        and found.notes == ()
        and found.places["01.1"] == ("passing answer", "latest answer")
    )
    assert found.answers["01.1"] == (Answer("def f(x):\n    return 1\n", "f"), Answer("def f(x):\n    return 2\n", "f"))
    assert found.predictions["01.a"]["guess"] == 12 and math.isclose(found.predictions["01.a"]["truth"], 118)
    assert found.history["01.1"] == {"attempts": 4, "hints": 1, "solution_at": "", "version": 1}


def test_a_changed_report_is_read_with_a_note(tmp_path):
    path = tmp_path / "some.json"
    path.write_text(json.dumps({**report(), "name": "=HYPERLINK(\n\t1)" + "x" * 999}))
    found = read_submission(path)
    assert list(found.answers) == ["01.1"] and "SHA-256" in found.notes[0]
    assert found.name.startswith("=HYPERLINK( 1)") and len(found.name) == 120


def test_unknown_exercises_and_odd_entries_of_a_report_are_left_out(tmp_path):
    good = report()["exercises"][0]
    odd = [{**good, "id": "77.7"}, {"id": "01.2"}, {**good, "id": "01.3", "function": "not a name"}, 5, None]
    path = tmp_path / "some.json"
    guesses = [{"id": "01.a"}, {"id": 3}, "x", {"id": "01.b", "guess": True}]
    path.write_text(json.dumps(report(exercises=[good, *odd], predictions=guesses)))
    found = read_submission(path)
    assert list(found.answers) == ["01.1"] and found.predictions == {} and found.notes == ("there is no exercise 77.7",)


@pytest.mark.parametrize(("guess", "read"), [
    (10**400, "a number beyond all limits"), (float("inf"), "inf"), (float("nan"), "nan"), (7, 7.0), ("half", "half"),
])  # fmt: skip
def test_every_guess_of_a_report_can_be_counted(tmp_path, guess, read):
    path = tmp_path / "some.json"
    path.write_text(json.dumps(report(predictions=[{"id": "01.a", "question": "?", "guess": guess, "truth": 1}])))
    assert read_submission(path).predictions["01.a"]["guess"] == read


def test_names_become_one_printable_line():
    assert clean("  a\n\tb\x1b[31m c\ud800 ") == "a b�[31m c?"
    assert clean("می\u200cخواهم 👩\u200d🚀 \u202eada") == "می\u200cخواهم 👩\u200d🚀 �ada"
    assert clean("x" * 500) == "x" * 119 + "…"
