"""The runs of the tests themselves: groups, the last lines, CPU time by block against the budget."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import durations
from tests.plugins import cpu_time, order

PROJECT = Path(__file__).parents[1]
BUDGET = durations.read_budget()

SETTINGS = {
    "pytest.ini": "[pytest]\nmarkers = slow\naddopts = -m 'not slow' -p no:randomly -p xdist.plugin\n",
    "conftest.py": 'pytest_plugins = ["tests.plugins.order", "tests.plugins.summary", "tests.plugins.cpu_time"]\n',
}
SMALL_PROJECT = {
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


def write(folder: Path, tests: dict[str, str] = SMALL_PROJECT) -> Path:
    """A small project that has the plugins of this one."""
    for name, text in {**SETTINGS, **tests}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


PYTEST = (sys.executable, "-m", "pytest")


def environment() -> dict[str, str]:
    """For pytest in a small project. Plugins that are installed are not needed, and some take seconds to import."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
    return {**env, "PYTHONPATH": str(PROJECT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def run(folder: Path, *options: str) -> str:
    """What pytest prints in the small project."""
    command = [*PYTEST, "-v", *options]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=300)
    return done.stdout


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


# ---- the second chance of failed tests -------------------------------------------------------------------------------

FLAKY = """
from pathlib import Path
def test_flaky():
    seen = Path("seen").exists()
    Path("seen").touch()
    assert seen
def test_one(): pass
"""


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
@pytest.mark.parametrize(("first", "again", "argument", "steps"), [
    (0, 0, [], ["start.py test --all", "durations", "ruff", "ruff", "mypy"]),
    (1, 0, [], ["start.py test --all", "durations", "start.py test --all -n0", "ruff", "ruff", "mypy"]),
    (1, "0 SKIPPED", [], ["start.py test --all", "durations", "start.py test --all -n0"]),
    (1, 1, [], ["start.py test --all", "durations", "start.py test --all -n0"]),
    (1, 5, [], ["start.py test --all", "durations", "start.py test --all -n0"]),
    (2, 0, [], ["start.py test --all", "durations"]),
    (1, 0, ["-x"], ["start.py test --all -x"]),
    (0, 1, ["-x"], ["start.py test --all -x", "ruff", "ruff", "mypy"]),
])  # fmt: skip
def test_ci_goes_on_only_if_all_that_failed_passes_in_a_second_run(tmp_path, first, again, argument, steps):
    """With programs that only write down how they are called."""
    code, *said = str(again).split()
    second = f'case "$*" in *--last-failed-no-failures=none*) echo "a.py::t {"".join(said)}"; exit {code};; esac'
    programs = {
        "bin/python3": f'echo "${{*%% -v*}}" >> steps\n{second}\nexit {first}',
        ".venv/bin/python": "echo ${2#tests.} >> steps",
        ".venv/bin/ruff": "echo ruff >> steps",
        ".venv/bin/mypy": "echo mypy >> steps",
    }
    for name, text in programs.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("dirname", "rm"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    (tmp_path / ".ci").mkdir()
    shutil.copy(PROJECT / ".ci/run", tmp_path / ".ci/run")
    command = [str(shutil.which("bash")), str(tmp_path / ".ci/run"), *argument]
    done = subprocess.run(command, env={"PATH": str(tmp_path / "bin")}, capture_output=True, text=True)
    assert (tmp_path / "steps").read_text().splitlines() == steps, done.stderr
    assert (done.returncode == 0) is (steps[-1] == "mypy")


def test_what_failed_runs_again_and_nothing_else(tmp_path):
    """The options of .ci/run, with tests of which one is flaky, and without a list of what failed."""
    options = ["-n0", "-v", "--last-failed", "--last-failed-no-failures=none"]
    write(tmp_path, {"test_f.py": FLAKY})
    assert "1 failed, 1 passed" in run(tmp_path, "-n2")
    again = run(tmp_path, *options)
    assert "test_f.py::test_flaky PASSED" in again and "test_one" not in again
    (tmp_path / ".pytest_cache/v/cache/lastfailed").unlink(missing_ok=True)
    assert "2 deselected" in run(tmp_path, *options)


@pytest.mark.parametrize(("nodeid", "group"), [
    ("tests/browser/test_x.py::test_y[a]", "browser"),
    ("tests/browser/test_mechanisms.py::test_a_mechanism_moves", "pages"),
    ("tests/browser/test_mechanisms.py::test_mechanisms_move_in_a_notebook", "browser"),
    ("tests/exercises/test_every_exercise.py::test_y[05.1]", "tests/exercises/test_every_exercise.py"),
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


def test_files_that_share_a_launch_of_ranks_are_one_group():
    """Their fixtures are made once on a worker: in two groups they would start all ranks twice."""

    def shares(file):
        functions = [each for each in ast.parse(file.read_text("utf-8")).body if isinstance(each, ast.FunctionDef)]
        return any({"ranks", "real_run"} & {arg.arg for arg in each.args.args} for each in functions)

    sharing = [file for file in (PROJECT / "tests/parallel").glob("test_*.py") if shares(file)]
    assert len(sharing) >= 5
    assert {order.group_of(f"tests/parallel/{file.name}::test") for file in sharing} == {"ranks"}
