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
    "tests/browser/test_c.py": "def test_c(): pass\n",
    "tests/browser/test_d.py": "def test_d(): pass\n",
}


def write(folder: Path) -> Path:
    """A small project that has the plugins of this one."""
    for name, text in SMALL_PROJECT.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def run(folder: Path, *options: str) -> str:
    """What pytest prints in the small project."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
    command = [sys.executable, "-m", "pytest", "-v", *options]
    env["PYTHONPATH"] = str(PROJECT)
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True).stdout


@pytest.fixture(scope="module", params=["-n0", "-n2"])
def whole(request, tmp_path_factory):
    """The folder of the small project and what a run of all its default tests printed, in one process and in two."""
    folder = write(tmp_path_factory.mktemp("project"))
    return folder, run(folder, request.param)


def test_a_run_says_what_it_left_out_and_how_to_repeat_a_failure(whole):
    _, text = whole
    assert re.search("1 slow tests. To run everything: python3? start.py test --all", text), text
    assert "1 skipped: no such machine" in text
    assert re.findall("python3? start.py test (-n0 .*)", text) == ["-n0 'test_a.py::test_wrong[a b]'"]


def test_cpu_time_is_kept_by_block(whole):
    folder, _ = whole
    kept = json.loads((folder / ".pytest_cache/v/lplab/cpu_time").read_text())
    assert {"collecting", "test_a.py", "browser"} <= kept["seconds"].keys()
    assert 0 < kept["seconds"]["collecting"] < 60 and kept["yardstick"] > 0 and kept["wall_seconds"] > 0
    assert kept["tier"] == "", "no testpaths: not a whole run"


def test_a_file_and_a_group_stay_on_one_worker(whole):
    worker = {name: number for number, name in re.findall(r"\[gw(\d)\].*PASSED \S*::(\w+)", whole[1])}
    if worker:  # there are two
        assert worker["test_two"] == worker["test_three"]
        assert worker["test_c"] == worker["test_d"]
    else:
        assert "[gw" not in whole[1]


def test_a_slow_test_is_repeated_with_all(tmp_path):
    assert "start.py test --all -n0 test_a.py::test_slow" in run(write(tmp_path), "-n0", "-m", "slow")


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
