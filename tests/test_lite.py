"""The edition of the labs for a browser alone: its notebooks, its wheels, and what is said where tools are missing."""

import importlib
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from lplab import exercises
from tests.labs.light_process import PACKAGES

PROJECT = Path(__file__).parents[1]
LABS = sorted((PROJECT / "labs").glob("*.ipynb"))


@pytest.fixture
def build_lite(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PROJECT / "docs/_ext"))
    return importlib.import_module("build_lite")


def test_every_lab_installs_what_it_needs_before_its_first_code(build_lite):
    assert len(LABS) == 17
    for path in LABS:
        before = json.loads(path.read_text("utf-8"))
        after = build_lite.for_browsers(json.loads(path.read_text("utf-8")))
        code = [cell for cell in after["cells"] if cell["cell_type"] == "code"]
        assert code[0]["source"] == build_lite.INSTALL
        assert code[1:] == [cell for cell in before["cells"] if cell["cell_type"] == "code"]
        ids = [cell["id"] for cell in after["cells"]]
        assert len(set(ids)) == len(ids) == len(before["cells"]) + 2
        assert after["metadata"]["kernelspec"]["name"] == "python", "JupyterLite's own, so that it does not ask"


def test_what_is_installed_there_is_what_the_labs_are_tested_with(build_lite):
    installed = set(build_lite.INSTALL.split()[3:])
    assert installed == {"lplab", *PACKAGES} - {"numpy"}, "numpy comes with lplab"
    assert set(build_lite.NOT_IN_PYODIDE) >= installed - {"lplab", "pandas"}


def test_missing_tools_are_a_line_and_no_error(build_lite, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(build_lite, "found", lambda module: module == "hatchling")
    assert build_lite.build_lite(tmp_path) is None
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and "jupyterlite_core, jupyterlite_pyodide_kernel cannot be imported" in said
    assert list(tmp_path.iterdir()) == []


def test_wheels_that_cannot_be_had_are_a_line_and_the_build_goes_on(build_lite, monkeypatch, capsys, tmp_path):
    made = []

    def command(module, *options, cwd):
        made.append((module, options[0]))
        if options[-1] in ("plotly", "psygnal"):
            raise RuntimeError("no such wheel")

    monkeypatch.setattr(build_lite, "found", lambda module: True)
    monkeypatch.setattr(build_lite, "command", command)
    assert build_lite.build_lite(tmp_path / "lite") == tmp_path / "lite/edition"
    said = capsys.readouterr().out
    assert said == "No wheel of plotly, psygnal can be had now: browsers will ask PyPI for it.\n"
    assert made[0] == ("hatchling", "build") and made[-1] == ("jupyterlite_core", "build")
    assert [path.name for path in sorted((tmp_path / "lite/files").iterdir())] == [path.name for path in LABS]


def test_a_tool_that_fails_is_an_error_with_its_last_line(build_lite, tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)json\.tool failed: .*Expecting value"):
        (tmp_path / "no.json").write_text("no")
        build_lite.command("json.tool", str(tmp_path / "no.json"), cwd=tmp_path)


def test_a_page_leads_to_its_lab_in_the_edition_and_only_where_there_is_one(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(PROJECT / "docs/_ext"))
    site = importlib.import_module("build_site")
    for lite in (True, False):
        book = site.on_a_page(json.loads(LABS[0].read_text("utf-8")), LABS[0].name, tmp_path, lite)
        link = f'<a href="../lite/lab/index.html?path={LABS[0].name}">'
        assert (link in book["cells"][0]["source"]) == lite


def test_the_tools_are_an_extra_and_pinned():
    extra = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["lite"]
    pinned = {line.partition("==")[0] for line in (PROJECT / "constraints.txt").read_text("utf-8").splitlines()}
    assert {each.partition(">")[0] for each in extra} <= pinned


@pytest.mark.slow
def test_the_edition_has_the_labs_the_library_and_its_data(build_lite, monkeypatch, tmp_path, capsys):
    """Built without an index of packages: what cannot be had is named, and all else is there."""
    for needed in ("jupyterlite_core", "jupyterlite_pyodide_kernel", "jupyter_server", "hatchling"):
        pytest.importorskip(needed, reason="of the extra `lite`, which `start.py site --lite` installs")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    edition = build_lite.build_lite(tmp_path / "lite")
    assert "No wheel of anywidget, comm, ipywidgets" in capsys.readouterr().out
    listed = json.loads((edition / "api/contents/all.json").read_text("utf-8"))["content"]
    assert sorted(each["name"] for each in listed) == [path.name for path in LABS]
    index = json.loads((edition / "pypi/all.json").read_text("utf-8"))
    assert list(index) == ["lplab"]
    settings = json.loads((edition / "jupyter-lite.json").read_text("utf-8"))["jupyter-config-data"]
    names = {each["name"] for each in settings["federated_extensions"]}
    assert {"@jupyterlite/pyodide-kernel-extension", "@jupyter-widgets/jupyterlab-manager", "anywidget"} <= names
    assert (edition / "lab/index.html").exists()

    # The wheel by itself, in a process as light as a browser's, solves an exercise of lab 00.
    (wheel,) = (edition / "pypi").glob("lplab-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    solution = exercises.get("00.1").solution
    cells = ["from lplab.exercises import check", f'{solution}\n\ncheck("00.1", midpoint)']
    book = {"cells": [{"cell_type": "code", "id": str(k), "source": text} for k, text in enumerate(cells)]}
    (tmp_path / "lab.ipynb").write_text(json.dumps(book), "utf-8")
    command = [sys.executable, "-P", str(PROJECT / "tests/labs/light_process.py")]
    env = os.environ | {"PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(command, cwd=tmp_path, env=env, input=f"{tmp_path}\n", capture_output=True, text=True)
    assert done.stdout == "0\n", done.stderr
    shown = [json.loads(line) for line in (tmp_path / "shown.jsonl").read_text("utf-8").splitlines()]
    assert len(shown) == 2 and not any(cell["error"] for cell in shown), done.stdout + done.stderr
    assert "passes all checks" in shown[1]["printed"]
