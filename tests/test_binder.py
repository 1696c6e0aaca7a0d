"""What other machines build from agrees with what is tested here."""

import json
import os
import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

PROJECT = Path(__file__).parents[1]


def pins(name: str) -> dict[str, str]:
    """The ``package==version`` lines of a requirements file, without local suffixes such as +cpu."""
    lines = (PROJECT / name).read_text("utf-8").splitlines()
    found = [line.split("==") for line in lines if line[:1] not in ("#", "-", "")]
    return {package: version.split("+")[0] for package, version in found}


def test_binder_has_the_versions_that_are_tested():
    tested, binder = pins("constraints.txt"), pins("binder/requirements.txt")
    assert binder.items() <= tested.items()
    assert {"torch", "jupyterlab", "ipywidgets", "plotly", "anywidget", "numba"} <= set(binder)


def test_nothing_is_installed_that_makes_every_kernel_begin_two_seconds_later():
    assert "rfc3987-syntax" not in pins("constraints.txt"), "jsonschema 4.25 and later bring it"


def test_constraints_name_no_build_and_no_host():
    text = (PROJECT / "constraints.txt").read_text("utf-8")
    assert "+" not in text and "://" not in text
    assert pins("constraints.txt").keys() >= {"numpy", "torch", "pytest", "ruff", "mypy"}


def test_each_version_runs_on_the_oldest_python_that_is_promised():
    """On 3.11.0: a system's Python, such as Debian 12's 3.11.2, is often the first one of its series."""
    needs = {}
    for name, version in pins("constraints.txt").items():
        try:
            found = metadata(name)
        except PackageNotFoundError:
            continue
        if found["Version"].split("+")[0] == version:
            needs[f"{name}=={version}"] = SpecifierSet(found.get("Requires-Python", ""))
    assert len(needs) > 50
    assert [name for name, python in needs.items() if "3.11.0" not in python] == []


def test_binder_takes_the_cpu_build_of_torch():
    text = (PROJECT / "binder/requirements.txt").read_text("utf-8")
    assert re.search(r"^torch==[\d.]+\+cpu$", text, re.MULTILINE) and "nvidia" not in text
    assert "--extra-index-url https://download.pytorch.org/whl/cpu" in text


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such bit")
@pytest.mark.parametrize("name", ["binder/postBuild", "binder/start", ".ci/run"])
def test_scripts_can_be_executed_and_stop_at_an_error(name):
    path = PROJECT / name
    assert os.access(path, os.X_OK)
    assert re.search("^(set -e|exec )", path.read_text("utf-8"), re.MULTILINE)


def test_the_devcontainer_uses_the_set_up_script():
    config = json.loads((PROJECT / ".devcontainer/devcontainer.json").read_text("utf-8"))
    assert config["postCreateCommand"].startswith("python3 start.py")
    assert 8888 in config["forwardPorts"]
