"""Energy by part: nothing is lost, nobody draws more than its design power, bad numbers get one line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lplab.hardware import accelerators, footprint, multiplier, operation_costs
from lplab.hardware.footprint import Power, energy_of
from lplab.hardware.footprint.step_energy import JOULES_PER_KWH, gemm_joules


@given(st.floats(1e-6, 1e3), st.floats(0, 1), st.floats(0, 1))
def test_no_chip_draws_more_than_published(seconds, busy, full):
    """Whatever the step: the mean power lies between a waiting and a training chip's, and the parts sum up."""
    chip = accelerators.get("h100")
    power = Power.of(chip)
    moved = full * seconds * chip.memory_bytes_per_second
    step = energy_of(power, seconds=seconds, multiply_seconds=busy * seconds, memory_bytes=moved)
    assert 100 * (1 - 1e-9) <= step.watts <= 595 * (1 + 1e-9)
    assert step.joules == pytest.approx(sum(step.parts().values()))
    assert step.kwh * JOULES_PER_KWH == pytest.approx(step.joules)


@pytest.mark.parametrize("name", accelerators.names())
def test_every_chip_with_a_design_power_can_be_billed(name):
    chip = accelerators.get(name)
    if chip.power_watts is None:
        with pytest.raises(ValueError, match="no design power is known"):
            Power.of(chip)
        return
    step = energy_of(Power.of(chip), seconds=1, multiply_seconds=1, memory_bytes=chip.memory_bytes_per_second or 0)
    assert step.watts == pytest.approx(0.85 * chip.power_watts)


def test_devices_and_steps_multiply():
    power = Power.of("v100", host_watts=75)
    one = energy_of(power, seconds=0.3, multiply_seconds=0.2, memory_bytes=1e10, network_bytes=1e8)
    many = energy_of(power, seconds=0.3, multiply_seconds=0.2, memory_bytes=1e10, network_bytes=1e8, devices=64)
    assert many.joules == pytest.approx(64 * one.joules)
    assert (one * 10).joules == pytest.approx(10 * one.joules)
    assert (10 * one).seconds == pytest.approx(3.0)


def test_arrays_give_what_numbers_give():
    power = Power.of("a100")
    seconds, compute = np.array([0.1, 0.2]), np.array([0.1, 0.05])
    both = energy_of(power, seconds=seconds, multiply_seconds=compute, memory_bytes=np.array([1e9, 2e9]))
    for i in range(2):
        one = energy_of(power, seconds=seconds[i], multiply_seconds=compute[i], memory_bytes=(1e9, 2e9)[i])
        assert both.joules[i] == pytest.approx(one.joules)


def test_waiting_that_is_removed_saves_the_waiting_chips_watts_alone():
    """Twice as fast because nothing waits any more is not half the energy."""
    power = Power.of("h100")
    slow, fast = (energy_of(power, seconds=seconds, multiply_seconds=1.0) for seconds in (2.0, 1.0))
    assert slow.joules - fast.joules == pytest.approx(power.idle_watts)
    assert fast.joules / slow.joules > 0.8


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"seconds": -1, "multiply_seconds": 0}, "seconds must be finite and at least 0"),
        ({"seconds": 1, "multiply_seconds": 2}, "must not exceed"),
        ({"seconds": 1, "multiply_seconds": 1, "memory_bytes": -1}, "memory_bytes must be finite and at least 0"),
        ({"seconds": 1, "multiply_seconds": 1, "devices": float("nan")}, "devices must be finite"),
        ({"seconds": "long", "multiply_seconds": 1}, "seconds must be a number"),
    ],
)
def test_bad_steps(bad, words):
    with pytest.raises(ValueError, match=words):
        energy_of(Power.of("h100"), **bad)


def test_bad_powers():
    with pytest.raises(ValueError, match="arithmetic_watts must be finite"):
        Power(arithmetic_watts=-1, idle_watts=0)
    with pytest.raises(ValueError, match="are not enough"):
        Power.of("h100", busy_share=0.1)
    with pytest.raises(ValueError, match="no design power is known"):
        Power.of(accelerators.Accelerator("new", "New", {"fp32": 1e12}))


def test_multiply_adds_are_those_of_the_multipliers_laws():
    """A name of this table and a name of the catalogue of formats are one number, up to the last bits."""
    macs, formats = multiplier.macs(), {"fp8_143": "hfp8_forward", "fp8_152": "fp8_152"}
    for name in ("fp32+fp32", "fp16+fp32", "bf16+fp32", "fp8_143+fp32", "fp8_143+fp16", "fp8_152+fp16"):
        operand, accumulator = name.split("+")
        law = multiplier.mac(formats.get(operand, operand), accumulator)
        assert macs[name].joules == pytest.approx(law.joules, rel=1e-12), name
    assert macs["int8+int32"].joules == pytest.approx(0.3e-12)
    assert macs["int4+int16"].multiply_joules == pytest.approx(macs["int8+int32"].multiply_joules / 4)


def test_a_word_from_memory_costs_as_much_as_170_products():
    dram = operation_costs.get("dram")
    assert dram.joules / (dram.bits / 32) / operation_costs.get("fp32_multiply").joules == pytest.approx(175, rel=0.03)


def test_the_accumulator_eats_the_saving():
    macs = multiplier.macs()
    assert 1 - macs["fp8_143+fp32"].joules / macs["fp16+fp32"].joules == pytest.approx(0.37, abs=0.01)
    assert all(mac.joules > 0 for mac in macs.values())


def test_a_gemm_in_one_tile_reads_and_writes_everything_once():
    given = {"mac_joules": 1e-12, "operand_bits": 8, "result_bits": 32, "memory_joules_per_byte": 1e-10}
    arithmetic, memory = gemm_joules(5, 7, 11, tile=64, **given)
    assert arithmetic == pytest.approx(5 * 7 * 11 * 1e-12)
    assert memory == pytest.approx((5 * 11 + 11 * 7 + 5 * 7 * 4) * 1e-10)
    smaller = [gemm_joules(512, 512, 512, tile=tile, **given)[1] for tile in (8, 16, 32, 64, 512)]
    assert smaller == sorted(smaller, reverse=True)


def test_bills():
    assert footprint.bill(watts=1000, hours=2, devices=3, pue=1.5, region=500).kilograms == pytest.approx(4.5)
    rented = footprint.bill(watts=300, hours=10, devices=2, price_per_kwh=0.2, price_per_device_hour=1.5)
    assert rented.rent == pytest.approx(30) and rented.money == pytest.approx(30 + 6.6 * 0.2)
    for bad, words in (
        ({"watts": -1, "hours": 1}, "watts"),
        ({"watts": 1, "hours": 1, "pue": 0.9}, "pue must be finite and at least 1"),
        ({"watts": 1, "hours": 1, "region": "atlantis"}, "there is no region 'atlantis'"),
        ({"watts": 1, "hours": 1, "region": -5}, "grams_per_kwh"),
    ):
        with pytest.raises(ValueError, match=words):
            footprint.bill(**bad)


def test_grams_may_be_a_number_of_numpy():
    assert footprint.carbon(1000, np.int64(57)) == footprint.carbon(1000, 57.0) == 57


def test_mixes_of_fuels():
    with pytest.raises(ValueError, match="must sum to 1"):
        footprint.mix({"coal": 0.5})
    with pytest.raises(ValueError, match="there is no fuel 'peat'"):
        footprint.mix({"peat": 1.0})
