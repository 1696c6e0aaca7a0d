"""Every lab keeps the rules, and its checks can fail: a wrong number in the library turns nbval red.

That the labs run and print what they say is tested by nbval itself, which collects labs/*.ipynb (see pyproject.toml).
"""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lplab import exercises
from tests.labs import notebooks

PROJECT = Path(__file__).parents[2]
LABS = sorted((PROJECT / "labs").glob("*.ipynb"))

# For each lab a constant of the library on which its facts stand: file, text, and what a mistake would make of it.
BIAS = (
    "formats/catalogue.py",
    '_float("e4m3fn", 4, 3, specials="fn")',
    '_float("e4m3fn", 4, 3, bias=8, specials="fn")',
)
IMPORTS = "from lplab import formats\nfrom lplab.exercises import check"
MEAN = (
    "training/fixed_point.py",
    "update *= -run.learning_rate / batch",
    "update *= -run.learning_rate / (batch + 1)",
)
FLUSH = (
    "figures/range_fates.py",
    "zero = _log2(window.flush)",
    "zero = _log2(window.smallest)",
)
DLFLOAT = (
    "formats/catalogue.py",
    '_float("dlfloat16", 6, 9,',
    '_float("dlfloat16", 7, 8,',  # still 16 bits: other numbers, no error
)
PHASES = (
    "quantizers/radix4.py",
    '_BIASES = {"even": 4, "odd": 4.5}',
    '_BIASES = {"even": 3, "odd": 3.5}',
)
FORWARD = (
    "formats/catalogue.py",
    '_float("hfp8_forward", 4, 3, bias=11, specials="fnuz")',
    '_float("hfp8_forward", 4, 3, bias=8, specials="fnuz")',
)
LEVELS = (
    "quantizers/clipping.py",
    "return numerators / (levels - 1)",
    "return numerators / levels",
)
CODES = (
    "compression/adacomp_wire.py",
    "ONE_BYTE_BIN = 63",
    "ONE_BYTE_BIN = 40",
)
UNION = (
    "compression/rates.py",
    "return 1 - (1 - density) ** learners",
    "return density * learners",
)
IDLE = (
    "hardware/footprint/step_energy.py",
    "IDLE_SHARE = 1 / 7 ",
    "IDLE_SHARE = 1 / 6 ",
)
ROOF = (
    "hardware/layer_times.py",
    "np.maximum(self.compute_seconds",
    "np.minimum(self.compute_seconds",
)
HIDING = (
    "hardware/overlap.py",
    "late = rest - share * (",
    "late = rest - 0.9 * share * (",
)
MUTATIONS = {
    "00": BIAS,
    "01": BIAS,
    "02": MEAN,
    "03": FLUSH,
    "04": LEVELS,
    "05": DLFLOAT,
    "06": FORWARD,
    "07": PHASES,
    "08": CODES,
    "09": UNION,
    "10": HIDING,
    "11": ROOF,
    "12": IDLE,
}


def code(text: str, output: str = "") -> dict:
    """A code cell; with an output it has been run."""
    outputs = [{"output_type": "stream", "name": "stdout", "text": output + "\n"}] if output else []
    count = 1 if output else None
    return {"cell_type": "code", "source": text, "outputs": outputs, "execution_count": count, "metadata": {}}


def prose(text: str) -> dict:
    return {"cell_type": "markdown", "source": text, "metadata": {}}


@pytest.fixture
def good() -> dict:
    """A small notebook that keeps every rule and states three facts of a number format."""
    facts = {"print(f.max)": "448.0", "print(f.smallest_normal)": "0.015625", "print(f.quantize(0.3))": "0.3125"}
    book = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "cells": [
            prose("# Few bits (2022)\nEight bits are enough. 20 min"),
            code(f"{IMPORTS}\n\nf = formats.get('e4m3fn')\nassert f.bits == 8"),
            *[code(f"{notebooks.MARK}\n{text}", output) for text, output in facts.items()],
            *[prose(f"## {heading}") for heading in notebooks.HEADINGS],
            *[
                {**make(""), "id": f"{part}-01-{number}"}
                for number in range(1, 5)
                for part, make in (("statement", prose), ("exercise", code))
            ],
        ],
    }
    notebooks.number_cells(book)
    notebooks.write_exercises(book)
    return book


# ---- the labs --------------------------------------------------------------------------------------------------------


def test_there_are_labs():
    assert LABS, "labs/ has no notebook"


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_a_lab_keeps_the_rules(path):
    assert notebooks.problems(json.loads(path.read_text("utf-8")), path.name) == []


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_a_lab_turns_red_when_the_library_is_wrong(path, tmp_path):
    result = nbval(path, spoiled_library(tmp_path, *MUTATIONS[path.name[:2]]))
    assert re.search(r"\d+ failed", result), result
    assert "mismatch" in result or "AssertionError" in result, result


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_an_unsolved_lab_is_polite(path):
    for exercise_id, text in what_checks_say(json.loads(path.read_text("utf-8")), path.parent).items():
        broken = exercises.get(exercise_id).starts_broken
        assert ("right" if broken else "not yet") in text.splitlines()[0], text


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_a_solved_lab_passes_all_checks_and_is_taken_along(path, tmp_path):
    book = notebooks.solved(json.loads(path.read_text("utf-8")))
    exporting = [cell for cell in book["cells"] if "take_along = False" in "".join(cell["source"])]
    for cell in exporting:
        cell["source"] = "".join(cell["source"]).replace("take_along = False", "take_along = True")
    said = what_checks_say(book, tmp_path)
    assert {exercise.id for exercise in exercises.of_lab(path.name[:2])} == set(said)
    for text in said.values():
        assert "passes all checks" in text, text
    assert len(exporting) == (path.name[:2] != "00"), "every lab but the first has figures to take along"
    for kind in ("html", "csv") if exporting else ():
        assert (tmp_path / f"lab{path.name[:2]}.{kind}").stat().st_size > 100


def what_checks_say(notebook: dict, folder: Path) -> dict[str, str]:
    """Run a notebook; the plain text under each exercise."""
    cells = notebooks.run(notebook, folder)["cells"]
    found = {notebooks.place(cell): cell for cell in cells if cell["cell_type"] == "code"}
    return {name[1]: "".join(cell["outputs"][-1]["data"]["text/plain"]) for name, cell in found.items() if name}


# ---- nbval can fail --------------------------------------------------------------------------------------------------


def spoiled_library(folder: Path, file: str, right: str, wrong: str) -> Path:
    """A copy of the package in which one constant is wrong."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "lplab", folder / "lplab", ignore=ignore)
    shutil.copytree(PROJECT / "data", folder / "data", ignore=ignore)
    text = (folder / "lplab" / file).read_text("utf-8")
    assert text.count(right) == 1, f"{right} is not in {file}: the mutation needs to be written anew"
    (folder / "lplab" / file).write_text(text.replace(right, wrong), "utf-8")
    return folder


def nbval(path: Path, library: Path = PROJECT) -> str:
    """What pytest says of one notebook whose kernel imports lplab from ``library``."""
    command = [sys.executable, "-m", "pytest", "-c", str(PROJECT / "pyproject.toml"), "-p", "no:cacheprovider", "-q"]
    env = {**os.environ, "PYTHONPATH": str(library), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*command, str(path)], env=env, cwd=path.parent, capture_output=True, text=True)
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


def test_nbval_passes_right_numbers_and_fails_wrong_ones(good, tmp_path):
    path = tmp_path / "01_small.ipynb"
    path.write_text(json.dumps(good))
    assert "8 passed" in nbval(path)
    wrong = nbval(path, spoiled_library(tmp_path / "wrong", *BIAS))
    assert "2 failed" in wrong and "mismatch" in wrong, wrong  # max and smallest normal; 0.3125 is a value of both


# ---- the rules are rules ---------------------------------------------------------------------------------------------


def test_a_good_notebook_breaks_no_rule(good):
    assert notebooks.problems(good, "01_small.ipynb") == []


def rule_breakers():
    """Ways to spoil a good notebook, and what is said about each."""

    def cell(number, **changes):
        return lambda book: book["cells"][number].update(changes)

    long = "\n".join(["x = 1"] * 16)
    error = [{"output_type": "error", "ename": "E", "evalue": "", "traceback": []}]
    path = code("", "/home/somebody/x")["outputs"]
    yield "no output", cell(2, outputs=[]), "nbval would pass whatever it prints"
    yield "no count", cell(2, execution_count=None), "nbval would pass whatever it prints"
    yield "two checks", lambda book: book["cells"].pop(2), "2 cells marked"
    yield "mark inside a string", cell(2, source=f"print('{notebooks.MARK}')"), "2 cells marked"
    yield "unchecked output", cell(1, outputs=path), "nothing compares"
    yield "error", cell(2, outputs=error), "is an error"
    yield "path", cell(2, outputs=path), "has a path"
    yield "skipped", cell(1, source="# NBVAL_SKIP\n1 / 0"), "no test runs"
    yield "long cell", cell(1, source=long), "16 lines, more than 15"
    yield "much code", lambda book: book["cells"].extend(code(long[:-6]) for _ in range(8)), "more than 120"
    yield "many words", lambda book: book["cells"].append(prose("word " * 2001)), "more than 2000"
    yield "no title", cell(0, source="Few bits (2022), 20 min"), "no title"
    yield "no year", cell(0, source="# Few bits, 20 min"), "lacks the year"
    yield "no limits", lambda book: book["cells"].pop(7), "no heading with Limits"
    yield "widget state", lambda book: book["metadata"].update(widgets={}), "saved widget state"
    yield "call", cell(0, source="# Few bits (2022)\n20 min, `solution('01.2')`"), "no cell imports it"
    again = "code cell 2: check is imported, and this cell makes it something else"
    yield "rebound in a loop", cell(2, source=f"{notebooks.MARK}\nfor check, found in [(1, 2)]:\n    pass"), again
    yield "rebound by =", cell(2, source=f"{notebooks.MARK}\nformats, check = 1, 2"), again
    yield "rebound by def", cell(2, source=f"{notebooks.MARK}\ndef check():\n    pass"), again
    yield "no exercise", lambda book: book["cells"].pop(), "exercise 01.4 is missing"
    yield "own words", cell(10, source="Round a number."), "not the exercise's own text"
    yield "solution", cell(1, source=exercises.get("01.2").solution), "the solution of 01.2 is in the notebook"
    yield "kernel", lambda book: book["metadata"].update(kernelspec={"name": "my-env"}), "not python3"


@pytest.mark.parametrize(("spoil", "said"), [pytest.param(s, t, id=name) for name, s, t in rule_breakers()])
def test_a_broken_rule_is_noticed(good, spoil, said):
    spoil(good)
    assert any(said in problem for problem in notebooks.problems(good, "01_small.ipynb"))


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
    good["cells"][2]["source"] = f"{notebooks.MARK}\n{text}"
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
