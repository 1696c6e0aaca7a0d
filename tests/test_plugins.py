"""The runs of the tests themselves: groups, the last lines, CPU time by block against the budget."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import durations
from tests.plugins import cpu_time, order

PROJECT = Path(__file__).parents[1]
BUDGET = tomllib.loads((PROJECT / "tests/budget.toml").read_text("utf-8"))

SMALL_PROJECT = {
    "pytest.ini": "[pytest]\nmarkers = slow\naddopts = -m 'not slow' -p no:randomly\n",
    "conftest.py": 'pytest_plugins = ["tests.plugins.order", "tests.plugins.summary", "tests.plugins.cpu_time"]\n',
    "test_a.py": """
import pytest
@pytest.mark.slow
def test_slow(): raise AssertionError("slow and wrong")
@pytest.mark.parametrize("x", ["a b", "c"])
def test_wrong(x): assert x == "c"
def test_skipped(): pytest.skip("no such machine")
def test_one(): pass
""",
    "test_b.py": """
def test_two(): pass
def test_three(): pass
""",
}


@pytest.fixture
def run(tmp_path):
    """Runs pytest in a small project that has the plugins of this one; returns what it prints."""
    for name, text in SMALL_PROJECT.items():
        (tmp_path / name).write_text(text)

    def run_(*options: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(PROJECT)}
        for name in [name for name in env if name.startswith(("PYTEST_", "COV_"))]:
            del env[name]
        command = [sys.executable, "-m", "pytest", "-v", *options]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True).stdout

    return run_


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_run_says_what_it_left_out_and_how_to_repeat_a_failure(run, workers):
    text = run(workers)
    assert re.search("1 slow tests. To run everything: python3? start.py test --all", text), text
    assert "1 skipped: no such machine" in text
    assert re.findall("python3? start.py test (-n0 .*)", text) == ["-n0 'test_a.py::test_wrong[a b]'"]


def test_a_slow_test_is_repeated_with_all(run):
    assert "start.py test --all -n0 test_a.py::test_slow" in run("-n0", "-m", "slow")


def test_a_file_and_a_group_stay_on_one_worker(run, tmp_path):
    (tmp_path / "tests/browser").mkdir(parents=True)
    for name in ("test_c.py", "test_d.py"):
        (tmp_path / "tests/browser" / name).write_text(f"def {name[:-3]}_one(): pass\n")
    text = run("-n2")
    worker = {name: number for number, name in re.findall(r"\[gw(\d)\].*PASSED \S*::(\w+)", text)}
    assert worker["test_two"] == worker["test_three"]
    assert worker["test_c_one"] == worker["test_d_one"]


@pytest.mark.parametrize(("nodeid", "group"), [
    ("tests/browser/test_x.py::test_y[a]", "browser"),
    ("tests/exercises/test_every_exercise.py::test_the_solution_passes[05.1]", "exercises of lab 05"),
    ("tests/formats/test_x.py::test_y[05.1]", "tests/formats/test_x.py"),
    ("labs/01.ipynb::Cell 3", "labs/01.ipynb"),
])  # fmt: skip
def test_groups(nodeid, group):
    assert order.group_of(nodeid) == group


def test_a_shuffled_run_keeps_groups_together_and_the_cells_of_a_notebook_in_order():
    shuffled = ["tests/z.py::b", "labs/01.ipynb::Cell 1", "tests/y.py::a", "tests/z.py::a", "labs/01.ipynb::Cell 0",
                "tests/browser/w.py::a"]  # fmt: skip
    items = [SimpleNamespace(nodeid=name) for name in shuffled]
    items[1].cell_num, items[4].cell_num = 1, 0
    order.pytest_collection_modifyitems(items)
    assert [shuffled.index(item.nodeid) for item in items] == [5, 4, 1, 0, 3, 2]


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_cpu_time_is_kept_by_block(run, tmp_path, workers):
    run(workers)
    kept = json.loads((tmp_path / ".pytest_cache/v/lplab/cpu_time").read_text())
    assert {"collecting", "test_a.py"} <= kept["seconds"].keys()
    assert kept["seconds"]["collecting"] > 0 and kept["yardstick"] > 0 and kept["wall_seconds"] > 0
    assert kept["tier"] == "", "no testpaths: not a whole run"


@pytest.mark.parametrize(("nodeid", "block"), [
    ("tests/formats/test_x.py::test_y", "formats"),
    ("tests/test_x.py::test_y", "top level"),
    ("labs/01.ipynb::Cell 3", "labs"),
    ("lplab/formats/base.py::lplab.formats.base", "doctests"),
])  # fmt: skip
def test_blocks(nodeid, block):
    assert cpu_time.block_of(nodeid) == block


def test_the_time_of_what_a_test_starts_counts():
    before = cpu_time.family_seconds()
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert cpu_time.family_seconds() - before > 0.3 or sys.platform == "win32", "Windows does not keep it"


def test_a_block_far_over_its_budget_is_named():
    seconds = {block: 60 * minutes for block, minutes in BUDGET["default"].items()}
    run = {"tier": "default", "seconds": seconds, "yardstick": BUDGET["yardstick"], "wall_seconds": 100}
    assert durations.table(run, BUDGET)[1] == []
    seconds["formats"] *= 1.6
    lines, over = durations.table(run, BUDGET)
    assert over == ["formats"] and any(line.startswith("formats") and "too much" in line for line in lines)
    run["yardstick"] *= 2  # a machine half as fast
    assert durations.table(run, BUDGET)[1] == []
    run["seconds"] = {"new": 60.0}
    assert durations.table(run, BUDGET)[1] == ["new"], "a block without a budget"


def test_every_block_has_a_budget_in_both_tiers():
    folders = {path.name for path in (PROJECT / "tests").iterdir() if list(path.glob("**/test_*.py"))}
    assert (
        folders | {"labs", "doctests", "top level", "collecting"} == set(BUDGET["default"]) == set(BUDGET["everything"])
    )
