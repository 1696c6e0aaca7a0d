"""The package itself: what it offers, lazily, and what it says when a part is missing."""

import subprocess
import sys

import pytest

import lplab


def test_submodules_come_when_they_are_asked_for():
    assert lplab.formats.get("bf16").bits == 16
    assert set(lplab.__all__) <= set(dir(lplab))
    assert lplab.hardware.accelerators.get("p100").name == "p100" and callable(lplab.exercises.check)


def test_an_unknown_name_says_what_there_is():
    with pytest.raises(AttributeError, match="^lplab has no `fromats`: did you mean formats.*\\?$"):
        lplab.fromats  # noqa: B018


def test_a_missing_package_is_named_with_the_way_to_get_it():
    code = "import sys; sys.modules['plotly'] = None\nfrom lplab import figures"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "lplab.figures needs plotly, which is not installed: pip install 'lplab[lab]'" in done.stderr
