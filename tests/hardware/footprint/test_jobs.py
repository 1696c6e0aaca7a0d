"""Whole trainings: near a published one, and what bits and compression save of their energy."""

from dataclasses import replace

import pytest

from lplab.hardware import footprint
from lplab.hardware.footprint import Job, runs

GPT3 = Job("gpt3", "v100", 10_000, 1, 300e9 / 2048, utilization=0.197, host_watts=75)
RESNET = Job("resnet50", "systolic", 64, 32, 90 * 1.28e6, utilization=0.6, waiting=0.56)


def test_gpt3_from_its_layers_comes_near_the_published_energy_and_days():
    """Nothing is fitted but the utilization (24.6 of 125 Tera) and the 75 W around a chip; 330 W were published."""
    bill = footprint.bill_of(GPT3.total("fp16_mixed").kwh, pue=1.1, region="gpt3_site")
    assert bill.kwh == pytest.approx(runs.get("gpt3").published_kwh, rel=0.1)
    assert GPT3.hours("fp16_mixed") / 24 == pytest.approx(14.8, rel=0.1)


def test_four_bits_save_less_energy_than_operations():
    """The array multiplies 4-bit numbers four times as fast; the whole step keeps about half its energy."""
    wide, narrow = RESNET.step("fp16_mixed"), RESNET.step("int4_fp4_2020")
    assert narrow.arithmetic / wide.arithmetic < 0.4
    assert narrow.joules / wide.joules > 0.45
    assert narrow.static / narrow.joules > wide.static / wide.joules  # what does not shrink becomes the larger part


def test_compression_saves_waiting_not_energy_in_proportion():
    packed = Job("resnet50", "systolic", 64, 32, 90 * 1.28e6, utilization=0.6, waiting=0.56, compression=100)
    before, after = RESNET.step("fp16_mixed"), packed.step("fp16_mixed")
    assert before.seconds / after.seconds > 2.2
    assert after.joules / before.joules > 0.7
    assert after.arithmetic == pytest.approx(before.arithmetic)


def test_a_chip_without_the_rates_saves_next_to_nothing():
    wide, narrow = GPT3.total("fp16_mixed"), GPT3.total("int4_fp4_2020")
    assert 0.95 < narrow.joules / wide.joules < 1
    assert narrow.arithmetic == pytest.approx(wide.arithmetic)  # not its slower 8-bit integers


def test_bytes_cost_energy_whether_anybody_waits_for_them_or_not():
    hidden, waited = (replace(RESNET, waiting=waiting).step("fp16_mixed") for waiting in (0.0, 0.56))
    assert hidden.network == waited.network > 0
    assert hidden.seconds < waited.seconds
    assert replace(RESNET, waiting=0.0, compression=10).step("fp16_mixed").network == pytest.approx(hidden.network / 10)
    assert replace(RESNET, devices=1).step("fp16_mixed").network == 0


def test_an_inference_is_no_training():
    with pytest.raises(ValueError, match="int8 is for inference; a step of training takes one of fp32"):
        RESNET.hours("int8")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"chip": "h10"}, "there is no chip 'h10'"),
        ({"workload": "resnet500"}, "resnet500"),
        ({"devices": 0}, "devices must be finite and at least 1"),
        ({"utilization": 0}, "utilization must be more than 0"),
        ({"utilization": 2}, "utilization must be at most 1"),
        ({"waiting": 1}, "waiting must be below 1"),
        ({"compression": 0.5}, "compression must be finite and at least 1"),
    ],
)
def test_bad_jobs(bad, words):
    with pytest.raises(ValueError, match=words):
        Job(**{"workload": "resnet50", "chip": "h100"} | bad)
