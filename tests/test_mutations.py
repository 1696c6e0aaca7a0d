"""The planted faults fit the library, and the command that plants them tells found from not found."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests import mutations
from tests.planted_faults import FAULTS, Fault

ROOT = Path(__file__).parents[1]


def test_every_right_text_is_there_once():
    texts = {fault.file: (ROOT / fault.file).read_text("utf-8") for fault in FAULTS}
    assert not [fault.name for fault in FAULTS if texts[fault.file].count(fault.right) != 1]


def test_every_fault_is_one_line_that_differs():
    assert not [fault.name for fault in FAULTS if fault.wrong == fault.right or "\n" in fault.right + fault.wrong]


def test_every_place_to_look_is_there():
    assert not [path for fault in FAULTS for path in fault.tests if not (ROOT / path).exists()]


def test_names_are_different():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_every_package_has_a_fault():
    packages = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("lplab/*/__init__.py")}
    hit = {"/".join(fault.file.split("/")[:2]) for fault in FAULTS}
    assert packages <= hit


def test_a_fault_is_found(tmp_path):
    quick = next(fault for fault in FAULTS if fault.name == "radio_up_for_down")
    found = mutations.Bench(ROOT, tmp_path, timeout=600).find(replace(quick, tests=()), first_paths_only=True)
    assert found.tier == mutations.DEFAULT and found.own
    assert (
        found.test
        == "lplab/hardware/footprint/federated_rounds.py::lplab.hardware.footprint.federated_rounds.federated"
    )


# ---- the command, with a checkout of three lines ---------------------------------------------------------------------

TESTS = """
import pytest
from lplab.shares import half

def test_half():
    assert half(4) == 2

@pytest.mark.slow
def test_half_of_one():
    assert half(1) == 0.5
"""


@pytest.fixture
def checkout(tmp_path):
    """A library with one function, a fast and a slow test of it, and a test that always fails."""
    files = {
        "pytest.ini": "[pytest]\npythonpath = .\nmarkers = slow\naddopts = -p xdist.plugin\n",
        "lplab/__init__.py": "",
        "lplab/shares.py": "def half(x):\n    return x / 2\n",
        "tests/test_a_bad_one.py": "def test_that_fails_anyway():\n    assert False\n",
        "tests/test_half.py": TESTS,
    }
    for name, text in files.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path / "checkout"


def fault(wrong: str) -> Fault:
    return Fault("half", "lplab/shares.py", "x / 2", wrong, "half is something else", ("tests",))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "tier", "test"),
    [
        ("x / 3", mutations.DEFAULT, "tests/test_half.py::test_half"),
        ("x // 2", mutations.SLOW, "tests/test_half.py::test_half_of_one"),
        ("x * 0.5", mutations.SURVIVED, ""),
    ],
)
def test_the_tier_that_finds_a_fault(checkout, tmp_path, wrong, tier, test, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # pytest begins a dozen times, and needs one of them
    found = mutations.Bench(checkout, tmp_path / "copies", timeout=60).find(fault(wrong))
    assert (found.tier, found.test) == (tier, test)
    assert "x / 2" in (checkout / "lplab/shares.py").read_text("utf-8")


def test_stale_machine_code_is_not_copied(tmp_path):
    for name in ("formats", "formats/paths", "arithmetic", "quantizers"):
        folder = tmp_path / "lplab" / name / "__pycache__"
        folder.mkdir(parents=True)
        (folder / "loop.nbi").touch()
    for name, left in (("arithmetic", {"formats", "paths", "quantizers"}), ("formats/paths", set())):
        file = tmp_path / "lplab" / name / "a.py"
        file.write_text("x / 2", "utf-8")
        mutations.plant(Fault("", f"lplab/{name}/a.py", "x / 2", "x / 3", "", ()), tmp_path)
        assert {path.parent.parent.name for path in tmp_path.rglob("*.nbi")} == left


def test_an_unknown_name_is_told(capsys):
    with pytest.raises(SystemExit):
        mutations.main(["no_such_fault"])
    assert "no_such_fault" in capsys.readouterr().err
