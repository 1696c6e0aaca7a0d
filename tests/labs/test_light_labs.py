"""The labs run from top to bottom where there are few packages, no other processes and no threads, as in a browser."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lplab import exercises
from lplab.exercises.isolation.answers import Answer
from tests.labs import notebooks

PROJECT = Path(__file__).parents[2]
LABS = sorted((PROJECT / "labs").glob("*.ipynb"))
WHOLE = ("00", "01", "08", "11", "12")  # labs whose numbers need neither PyTorch nor compiled loops
BY_DEFAULT = ("00", "unsolved")
UNSOLVED = ("00", "04", "08")  # of the others, the solved labs show the same numbers


@pytest.fixture(scope="module")
def run_light():
    """Runs a notebook in such a process; what its code cells show, in their order."""
    env = {**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.labs.light_process"]
    processes = []

    def run(book: dict, folder: Path) -> list[dict]:
        (folder / "lab.ipynb").write_text(json.dumps(book), "utf-8")
        if not processes or processes[-1].poll() is not None:
            pipe = subprocess.PIPE
            processes.append(subprocess.Popen(command, cwd=folder, env=env, stdin=pipe, stdout=pipe, text=True))
        print(folder, file=processes[-1].stdin, flush=True)
        assert processes[-1].stdout.readline() in ("0\n", "1\n"), "it ended in another way than by an error in a cell"
        return [json.loads(line) for line in (folder / "shown.jsonl").read_text("utf-8").splitlines()]

    yield run
    for process in processes:
        process.communicate(timeout=60)


def plain(text: str) -> str:
    """Text without the differences of white space."""
    return " ".join(text.split())


CASES = [
    pytest.param(path, solved, marks=[] if case == BY_DEFAULT else pytest.mark.slow, id=f"{path.stem}-{case[1]}")
    for path in LABS
    for solved in (False, True)
    for case in [(path.name[:2], "solved" if solved else "unsolved")]
    if solved or path.name[:2] in UNSOLVED
]


@pytest.mark.parametrize(("path", "solved"), CASES)
def test_a_lab_runs_without_the_heavy_parts(path, solved, tmp_path, run_light):
    book = json.loads(path.read_text("utf-8"))
    shown = run_light(notebooks.solved(book) if solved else book, tmp_path)
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [cell["id"] for cell in shown] == [cell["id"] for cell in cells]
    assert not (errors := [f"{cell['id']}: {cell['error']}" for cell in shown if cell["error"]]), "\n".join(errors)

    checked = 0
    for cell, there in zip(cells, shown, strict=True):
        if notebooks.is_checked(cell):
            (stored,) = cell["outputs"]
            text = "".join(stored.get("text", "") or stored["data"]["text/plain"])
            skips = path.name[:2] not in WHOLE and "cannot be imported here, and this needs it" in there["printed"]
            assert skips or plain(text) in plain(there["printed"]), cell["id"]
            checked += 1
        found = notebooks.exercise_part(cell)
        if found and found[0] == "exercise":
            exercise = exercises.get(found[1])
            wanted = "passes all checks" if solved else "right" if exercise.is_repair else "not yet"
            assert f"Exercise {exercise.id}" in there["printed"] and wanted in there["printed"], there["printed"]
    assert checked >= notebooks.CHECKED_CELLS

    said = "".join(cell["printed"] for cell in shown)
    assert said.count("There is no fence around your answers here") == 1
    assert "Your progress is kept until this kernel ends, since filelock and platformdirs cannot be imported." in said
    assert not list(tmp_path.glob("*none.json*")), "progress is kept in memory"
    if solved:
        count = len(exercises.of_lab(path.name[:2]))
        assert re.search(rf"{count} of {count} exercises passed", shown[-1]["printed"])


def test_the_process_has_none_of_the_heavy_parts(tmp_path, run_light):
    attempts = {
        "import torch": "No module named 'torch'",
        "import psutil": "No module named 'psutil'",
        "import yaml": "No module named 'yaml'",
        "import threading; threading.Thread(target=print).start()": "can't start new thread",
        "import subprocess; subprocess.run(['true'])": "does not support processes",
        "import os; os.fork()": "does not support processes",
        "import numpy, pandas, plotly, ipywidgets, anywidget; 1 + 1": "",
    }
    cells = [{"cell_type": "code", "id": f"c{k}", "source": source} for k, source in enumerate(attempts)]
    for cell, message in zip(run_light({"cells": cells}, tmp_path), attempts.values(), strict=True):
        assert message in cell["error"] and bool(message) == bool(cell["error"])


def test_checks_there_say_the_same_end_and_leave_nothing_behind(tmp_path, run_light):
    answers = {
        "wrong": "return low + high / 2",
        "endless": "while True:\n        low += 1",
        "replaces numpy": "import numpy as np\n    np.isfinite = np.nextafter = np.float64 = None\n    return low",
        "right": "return (low + high) / 2",
    }
    sources = {name: f"def midpoint(low, high):\n    {body}\n" for name, body in answers.items()}
    cells = ["from lplab.exercises import check", *(f'{each}\n\ncheck("00.1", midpoint)' for each in sources.values())]
    book = {"cells": [{"cell_type": "code", "id": str(k), "source": text} for k, text in enumerate(cells)]}
    _, *shown = run_light(book, tmp_path)
    assert not any(cell["error"] for cell in shown)
    said = {name: cell["printed"] for name, cell in zip(sources, shown, strict=True)}

    behind_the_fence = exercises.judge(exercises.get("00.1"), Answer(sources["wrong"], "midpoint"))
    assert not behind_the_fence.passed and repr(behind_the_fence.text)[1:-1] in said["wrong"]
    assert "stopped after 10,000,000 steps, in call 1 of" in said["endless"].lower()
    assert "Your code replaced numpy." in said["replaces numpy"]
    assert "passes all checks" in said["right"]
