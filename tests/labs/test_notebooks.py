"""Every lab keeps the rules, and nbval turns red where a number is wrong.

That the labs run and print what they say is tested by nbval itself, which collects labs/*.ipynb (see pyproject.toml).
"""

import copy
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lplab import exercises
from tests.labs import notebooks
from tests.labs.small_notebook import code, prose, small_notebook

PROJECT = Path(__file__).parents[2]
LABS = sorted((PROJECT / "labs").glob("*.ipynb"))


@pytest.fixture
def good() -> dict:
    return small_notebook()


# ---- the labs --------------------------------------------------------------------------------------------------------


def test_there_are_labs():
    assert LABS, "labs/ has no notebook"


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_a_lab_keeps_the_rules(path):
    assert notebooks.problems(json.loads(path.read_text("utf-8")), path.name) == []


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_modules_that_solutions_and_hints_use_are_imported_above_the_exercise(path):
    code, missing = "", []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            code += notebooks.source(cell) + "\n"
        if (found := notebooks.exercise_part(cell)) and found[0] == "exercise":
            exercise = exercises.get(found[1])
            advice = " ".join([exercise.solution, *exercise.hints])
            uses = {"import numpy as np": r"\bnp\.", "import math": r"\bmath\."}
            missing += [(found[1], line) for line, use in uses.items() if re.search(use, advice) and line not in code]
    assert missing == []


# ---- nbval can fail --------------------------------------------------------------------------------------------------


def test_nbval_passes_right_numbers_and_fails_wrong_ones(good, tmp_path):
    (tmp_path / "01_right.ipynb").write_text(json.dumps(good))
    good["cells"][3]["outputs"][0]["text"] = "0.01\n"  # the smallest normal number
    (tmp_path / "01_wrong.ipynb").write_text(json.dumps(good))
    command = [sys.executable, "-m", "pytest", "-c", str(PROJECT / "pyproject.toml"), "-p", "no:cacheprovider", "-q"]
    done = subprocess.run([*command, "-p", "no:randomly", str(tmp_path)], cwd=tmp_path, capture_output=True, text=True)
    report = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert "1 failed, 15 passed" in report and "mismatch" in report, report
    assert re.search(r"FAILED \S*01_wrong.ipynb::Cell 2", report), report


# ---- the rules are rules ---------------------------------------------------------------------------------------------


def test_a_good_notebook_breaks_no_rule(good):
    assert notebooks.problems(good, "01_small.ipynb") == []


def rule_breakers():
    """Ways to break a good notebook, and the message about each."""

    def cell(number, **changes):
        return lambda book: book["cells"][number].update(changes)

    long = "\n".join(["x = 1"] * 16)
    error = [{"output_type": "error", "ename": "E", "evalue": "", "traceback": []}]
    path = code("", "/home/somebody/x")["outputs"]
    yield "no output", cell(2, outputs=[]), "nbval would pass whatever it prints"
    yield "no count", cell(2, execution_count=None), "nbval would pass whatever it prints"
    yield "two checks", lambda book: book["cells"].pop(2), "2 cells with the tag"
    yield "another tag", cell(2, metadata={"tags": ["nbval"]}, outputs=[], execution_count=None), "2 cells with the tag"
    yield "unchecked output", cell(1, outputs=path), "nothing compares"
    yield "error", cell(2, outputs=error), "is an error"
    yield "path", cell(2, outputs=path), "has a path"
    yield "a mark", cell(1, source="# NBVAL_CHECK_OUTPUT\n1"), "a mark for nbval in front of the reader"
    yield "skipped", cell(1, source="# NBVAL_SKIP\n1 / 0"), "no test runs"
    yield "long cell", cell(1, source=long), "16 lines, more than 15"
    yield "much code", lambda book: book["cells"].extend(code(long[:-6]) for _ in range(8)), "more than 120"
    yield "many words", lambda book: book["cells"].append(prose("word " * 3001)), "more than 3000"
    yield "no title", cell(0, source="Few bits (2022), 20 min"), "no title"
    yield "no year", cell(0, source="# Few bits, 20 min"), "lacks the year"
    yield "no limits", lambda book: book["cells"].pop(7), "no heading with Limits"
    yield "widget state", lambda book: book["metadata"].update(widgets={}), "saved widget state"
    yield "call", cell(0, source="# Few bits (2022)\n20 min, `solution('01.2')`"), "no cell imports it"
    again = "code cell 2: check is imported, and this cell makes it something else"
    yield "rebound in a loop", cell(2, source="for check, found in [(1, 2)]:\n    pass"), again
    yield "rebound by =", cell(2, source="formats, check = 1, 2"), again
    yield "rebound by def", cell(2, source="def check():\n    pass"), again
    yield "no exercise", lambda book: book["cells"].pop(), "exercise 01.4 is missing"
    yield "own words", cell(10, source="Round a number."), "not the exercise's own text"
    yield "solution", cell(1, source=exercises.get("01.2").solution), "the solution of 01.2 is in the notebook"
    yield "kernel", lambda book: book["metadata"].update(kernelspec={"name": "my-env"}), "not python3"


@pytest.mark.parametrize(("spoil", "message"), [pytest.param(s, t, id=name) for name, s, t in rule_breakers()])
def test_a_broken_rule_is_noticed(good, spoil, message):
    spoil(good)
    assert any(message in problem for problem in notebooks.problems(good, "01_small.ipynb"))


@pytest.mark.parametrize(
    "text",
    [
        "print([check for check in 'ab'])",
        "def own(check):\n    check = 1",
        "from lplab.exercises import check",
        "check",
    ],
)
def test_a_name_inside_a_function_or_a_comprehension_rebinds_nothing(good, text):
    good["cells"][2]["source"] = text
    assert notebooks.problems(good, "01_small.ipynb") == []


def test_a_wrong_file_name_is_noticed(good):
    assert any("NN_title" in problem for problem in notebooks.problems(good, "Untitled.ipynb"))


# ---- the tool --------------------------------------------------------------------------------------------------------


def test_stripping_keeps_what_nbval_compares_and_nothing_else(good):
    messy = copy.deepcopy(good)
    messy["metadata"].update(widgets={"state": {}}, language_info={"name": "python", "version": "3.11.7"})
    messy["cells"][1].update(code("", "noise"), source=good["cells"][1]["source"], metadata={"collapsed": True})
    notebooks.strip(messy)
    assert messy == good
    notebooks.strip(messy)
    assert messy == good


def test_the_tool_runs_strips_and_reports(good, tmp_path, capsys):
    path = tmp_path / "01_small.ipynb"
    fresh = copy.deepcopy(good)
    for cell in fresh["cells"]:
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
    path.write_text(json.dumps(fresh))
    assert notebooks.main([str(path)]) == 1
    assert capsys.readouterr().out.count("nbval would pass whatever it prints") == 3
    assert notebooks.main(["--run", str(path)]) == 0
    outputs = ["".join(cell["outputs"][0]["text"]) for cell in json.loads(path.read_text())["cells"][2:5]]
    assert outputs == ["448.0\n", "0.015625\n", "0.3125\n"]
