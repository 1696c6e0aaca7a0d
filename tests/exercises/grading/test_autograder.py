"""The autograder's zip, unpacked, set up and run as Gradescope does; only the network is played by stand-ins."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from lplab import cli
from lplab.exercises.grading.autograder import package_files, requirements, results_of
from lplab.exercises.grading.weights import Weights
from tests.exercises.grading.test_school import BOTH, FULL, ONE, put

PROJECT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="Gradescope's image is Linux")
APT = '#!/bin/bash\necho "apt-get $*" >> "$LOG"\n'
PYTHON = """#!/bin/bash
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
elif [ "$1 $2" = "-m pip" ]; then
    echo "pip ${*:3}" >> "$LOG"
else
    exec "{real}" "$@"
fi
"""


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture(scope="module")
def autograder(tmp_path_factory):
    """The folder /autograder of Gradescope's image, elsewhere."""
    root = tmp_path_factory.mktemp("autograder")
    put(root, **{"weights.toml": '[points]\n"00.1" = 10\n"00.2" = 30\n'})
    argv = ["autograder", "--lab", "00", "--weights", str(root / "weights.toml"), "--out", str(root / "a.zip")]
    assert cli.main(argv) == 0
    (root / "tools").mkdir()
    script(root / "tools" / "apt-get", APT)
    for name in ("python3.14", "python3.13", "python3.12", "python3.11", "python3"):
        script(root / "tools" / name, PYTHON.replace("{real}", sys.executable))
    with zipfile.ZipFile(root / "a.zip") as archive:
        for entry in archive.infolist():
            Path(archive.extract(entry, root / "source")).chmod(entry.external_attr >> 16)
    shutil.copy(root / "source" / "run_autograder", root)
    run(root, root / "source" / "setup.sh")
    return root


def run(root, path):
    environment = {"PATH": f"{root / 'tools'}:/usr/bin:/bin", "LOG": str(root / "log"), "HOME": str(root)}
    return subprocess.run([str(path)], env=environment, cwd=root, check=True, capture_output=True, text=True)


def results(root, **files):
    shutil.rmtree(root / "submission", ignore_errors=True)
    (root / "submission").mkdir()
    put(root / "submission", **files)
    (root / "results").mkdir(exist_ok=True)
    run(root, root / "run_autograder")
    return json.loads((root / "results" / "results.json").read_text("utf-8"))


def test_setup_installs_python_and_what_grading_needs(autograder):
    said = (autograder / "log").read_text().splitlines()
    assert said[0] == "apt-get update" and said[1].startswith("apt-get install -y python3.1")
    assert said[2] == f"pip install --no-cache-dir -r {autograder / 'source' / 'requirements.txt'}"
    wanted = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = (autograder / "source" / "requirements.txt").read_text().splitlines()
    assert lines == [*wanted["dependencies"], *wanted["optional-dependencies"]["course"]] == requirements()


def test_a_submission_gets_its_results(autograder):
    found = results(autograder, **{"lab.ipynb": ONE, "deeper/again.ipynb": BOTH})
    assert found["score"] == 40 and [test["max_score"] for test in found["tests"]] == [10, 30]
    assert [test["status"] for test in found["tests"]] == ["passed", "passed"]
    assert found["output"].startswith("2 files: deeper/again.ipynb, lab.ipynb")
    assert str(autograder) not in json.dumps(found)


def test_a_submission_that_cannot_be_graded_gets_results_too(autograder):
    broken = results(autograder, **{"lab.ipynb": "{"})
    assert broken["score"] == 0 and "is no JSON" in broken["output"]
    other = results(autograder, **{"notes.txt": "hello"})
    assert other["score"] == 0 and other["output"].startswith("the file is a .txt file; hand in the notebook")
    empty = results(autograder)
    assert empty["score"] == 0 and empty["output"].startswith("Nothing was graded: there is no notebook")
    assert str(autograder) not in json.dumps([other, empty])


def test_the_zip_holds_the_package_and_no_cache(autograder, tmp_path):
    names = zipfile.ZipFile(autograder / "a.zip").namelist()
    assert {"lplab/__init__.py", "lplab/data/digits/digits.npz", "lplab/exercises/grading/templates/page.html"} <= set(
        names
    )
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".nbi", ".nbc"))]
    assert len(set(names)) == len(names) and dict(package_files())["lplab/py.typed"].is_file()
    again = [
        "autograder",
        "--lab",
        "00",
        "--weights",
        str(autograder / "weights.toml"),
        "--out",
        str(tmp_path / "b.zip"),
    ]
    assert cli.main(again) == 0
    assert (tmp_path / "b.zip").read_bytes() == (autograder / "a.zip").read_bytes()


def test_without_weights_exercises_have_their_own_points(tmp_path):
    put(tmp_path, **{"lab.ipynb": BOTH})
    found = results_of(tmp_path, ["00"], Weights())
    assert found["score"] == 12 and sum(test["max_score"] for test in found["tests"]) == FULL


def test_bad_input_gets_one_line(tmp_path, capsys):
    for argv, told in (
        (["--lab", "77"], "lab '77' has no exercises"),
        (["--lab", "00", "--weights", "none.toml"], "none.toml"),
    ):
        with pytest.raises(SystemExit):
            cli.main(["autograder", *argv, "--out", str(tmp_path / "a.zip")])
        assert told in (said := capsys.readouterr().err) and said.count("\n") == 1
