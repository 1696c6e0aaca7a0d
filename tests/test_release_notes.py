"""The notes of a release: they are those of the version that the tag names, and they are finished."""

import importlib.util
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
CHANGES = "# Changes\n\n## 0.2.0 (not yet released)\n\n- New.\n\n## 0.1.0 (2026-12-01)\n\n- First.\n- Second.\n"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("release_notes", PROJECT / ".github/scripts/release_notes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_they_are_the_part_of_the_version(script):
    assert script.notes(CHANGES, "v0.1.0", "0.1.0") == "- First.\n- Second."


@pytest.mark.parametrize(
    ("tag", "version", "said"),
    [
        ("v0.1.0", "0.2.0", "the tag must be v0.2.0"),
        ("v0.2.0", "0.2.0", "give it the date of today"),
        ("v0.3.0", "0.3.0", "has no part"),
    ],
)
def test_what_is_not_ready_stops_a_release(script, tag, version, said):
    with pytest.raises(ValueError, match=said):
        script.notes(CHANGES, tag, version)


def test_a_draft_has_a_line_for_each_commit(script):
    lines = script.draft().splitlines()
    assert all(line.startswith("- ") for line in lines)
    assert bool(lines) == (PROJECT / ".git").exists()


def test_the_changelog_has_a_part_for_the_version_of_the_package(script):
    import lplab

    changes = (PROJECT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## {lplab.__version__} (" in changes
