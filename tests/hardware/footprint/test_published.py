"""Published runs: units, grades, and the correction of one; T01 to T11 and T53 are tests of the claims' table."""

import pytest

from lplab.hardware import footprint
from lplab.hardware.footprint import runs


def test_pounds_and_tonnes_become_kilograms():
    assert runs.get("elmo").published_kilograms == pytest.approx(262 * 0.45359237)
    assert runs.get("gpt3").published_kilograms == 552_100


def test_the_most_printed_number_of_all():
    assert round(runs.get("nas_2019").bill.kilograms / 1000, 1) == 284.0


def test_every_published_run_comes_out():
    """The two rows without a tolerance of their own print two digits: half of the last digit is the tolerance."""
    for run in runs.table().values():
        assert run.published_kilograms is not None
        tolerance = {"transformer_base": 0.5 / 26, "nas_2021": 0.05 / 3.2}.get(run.name, 0.01)
        assert run.bill.kilograms == pytest.approx(run.published_kilograms, rel=tolerance), run.name


def test_the_correction_of_the_search():
    """979 million steps of the search: as hours of the large model, and as hours of the small one that it trained."""
    wrong, right = runs.get("nas_2019"), runs.get("nas_2021")
    blocks = 979e6 / 300e3  # of 300,000 steps, which are one training
    assert wrong.hours == pytest.approx(blocks * 84, rel=1e-6)  # 84 h: Transformer big on 8 P100
    assert right.devices * right.hours == pytest.approx(blocks * 10, rel=1e-3)  # 10 h: the small one on a TPU v2
    assert wrong.bill.kilograms / right.bill.kilograms == pytest.approx(88, rel=0.01)


def test_grades_are_kept():
    assert {run.input_grade for run in runs.table().values()} == {"second-hand", "recalled", "computed"}
    assert all(run.grade == "second-hand" for run in runs.table().values())
    assert {run.name for run in runs.table().values() if run.co2_grade == "recalled"} == {
        "nas_2021",
        "t5",
        "meena",
        "gshard_600b",
        "switch",
    }
    for region in footprint.regions().values():
        assert 1990 < region.year < 2030 and region.source
