"""The hashes of results: they are those of tests/golden.json, and a changed bit changes one."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")

from lplab import formats as F
from tests import golden

FAMILIES = [family.__name__ for family in golden.EVERYWHERE]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_result_is_the_recorded_one(family):
    """If a result had to change: say why in the commit, and record with python -m tests.golden FAMILY --record."""
    recorded = json.loads(golden.FILE.read_text("utf-8"))
    assert golden.differences(recorded, golden.measured([family])) == []


def test_the_file_has_all_families_and_formats():
    recorded = json.loads(golden.FILE.read_text("utf-8"))
    assert sorted(recorded) == sorted(FAMILIES)
    assert {f"{name}, nearest_even" for name in golden.ELEMENTWISE} <= recorded["formats"].keys()
    assert golden.BLOCKED.keys() == recorded["blocks"].keys()
    assert len(golden.ELEMENTWISE) + len(golden.BLOCKED) >= 60


@pytest.mark.parametrize("change", ["bit", "sign of zero", "dtype", "shape"])
def test_a_change_changes_the_hash(change):
    before = F.get("e4m3fn").quantize(np.array([[0.0, 0.3, 17.0]], np.float32))
    after = before.copy()
    if change == "bit":
        after.view(np.uint32)[0, 1] ^= 1
    elif change == "sign of zero":
        after[0, 0] = -0.0
    else:
        after = after.astype(np.float64) if change == "dtype" else after[0]
    assert golden.Hash().add(before).text() == golden.Hash().add(before.copy()).text()
    assert golden.Hash().add(before).text() != golden.Hash().add(after).text()


def test_any_nan_equals_any_nan():
    other = np.array([0x7FC00001, 0xFFC00000], np.uint32).view(np.float32)
    assert golden.Hash().add(other).text() == golden.Hash().add(np.full(2, np.nan, np.float32)).text()


def test_differences_name_what_changed_what_is_gone_and_what_is_new():
    before = {"formats": {"a": "1", "b": "2"}}
    assert golden.differences(before, {"formats": {"a": "3", "c": "4"}}) == [
        "formats: a has changed",
        "formats: b is gone",
        "formats: c is new",
    ]
