"""Published numbers T01 to T11 and T53 of the dossier: inputs, published, ours, within the tolerances given there."""

import pytest

from lplab.hardware import footprint
from lplab.hardware.footprint import runs
from lplab.hardware.footprint.bills import POUND

STRUBELL = {"nas_2019": (626_155, 1e-4), "bert_base": (1438, 0.005), "elmo": (262, 0.005)}  # T01, T02, T03: pounds
PATTERSON = {"gpt3": 0.005, "t5": 0.01, "meena": 0.01, "switch": 0.01}  # T04, T08, T09, T10: energy


@pytest.mark.parametrize("name", STRUBELL)
def test_strubells_pounds(name):
    pounds, tolerance = STRUBELL[name]
    assert runs.get(name).bill.pounds == pytest.approx(pounds, rel=tolerance)
    assert runs.get(name).published_kilograms == pytest.approx(pounds * POUND)


def test_the_most_printed_number_of_all():
    assert round(runs.get("nas_2019").bill.kilograms / 1000, 1) == 284.0


@pytest.mark.parametrize("name", PATTERSON)
def test_pattersons_energy(name):
    run = runs.get(name)
    assert run.bill.kwh == pytest.approx(run.published_kwh, rel=PATTERSON[name])


def test_gpt3s_carbon():  # T05, from the published energy
    assert footprint.carbon(1_287_000, "gpt3_site") / 1000 == pytest.approx(552, rel=0.005)


def test_gpt3s_operations_and_days():  # T06, T07
    operations = footprint.training_operations(175e9, 300e9)
    assert operations == pytest.approx(3.14e23, rel=0.005)
    assert footprint.training_hours(3.14e23, 10_000, 24.6e12) / 24 == pytest.approx(14.8, rel=0.005)


def test_bloom():  # T11
    assert footprint.carbon(433_196, "bloom_site") / 1000 == pytest.approx(24.69, rel=0.001)


def test_codecarbons_mix_of_fuels():  # T53: its page prints kg where g are meant
    grams = footprint.mix({"coal": 0.25, "oil": 0.35, "gas": 0.26, "nuclear": 0.14})
    assert grams == pytest.approx(731.59, rel=0.001)


def test_every_published_run_comes_out():
    """The two rows without a tolerance of their own print two digits: one half of the last is the room."""
    for run in runs.table().values():
        assert run.published_kilograms is not None
        room = {"transformer_base": 0.5 / 26, "nas_2021": 0.05 / 3.2}.get(run.name, 0.01)
        assert run.bill.kilograms == pytest.approx(run.published_kilograms, rel=room), run.name


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
