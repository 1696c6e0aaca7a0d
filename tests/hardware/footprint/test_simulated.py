"""The energy of simulated steps: the same numbers as by hand, and what a network and a compressor do to it."""

import pytest

from lplab.hardware import Cluster, footprint, simulate
from lplab.hardware.footprint import Power, energy

SETTINGS = {"batch": 32, "utilization": 0.4, "fused": True, "fall_back": True}


def test_one_device_draws_between_idle_and_full():
    step = energy(simulate("resnet50", "v100", precision="fp16_mixed", **SETTINGS))
    assert 300 / 7 < step.watts <= 0.85 * 300
    assert step.network == 0


def test_a_slow_network_costs_static_watts_and_a_compressor_saves_them():
    slow, packed = (
        energy(simulate("resnet50", Cluster("v100", 64, "ethernet_10g"), compressor=c, **SETTINGS))
        for c in (None, "scalecom:chunk=100")
    )
    assert packed.seconds < slow.seconds
    assert packed.static / slow.static == pytest.approx(packed.seconds / slow.seconds)
    assert packed.arithmetic == pytest.approx(slow.arithmetic)
    assert packed.memory > slow.memory  # choosing what to send passes over all gradients
    assert packed.joules / slow.joules > packed.seconds / slow.seconds


def test_measured_seconds_stretch_the_arithmetic():
    fast = energy(simulate("resnet50", "v100", **SETTINGS))
    slow = energy(simulate("resnet50", "v100", measured_seconds=1.0, **SETTINGS))
    assert slow.seconds > 1.0 > fast.seconds
    assert slow.watts <= 0.86 * 300


def test_plain_numbers_and_what_does_not_fit():
    power = Power(100.0, 10.0)
    assert energy(power, seconds=1, multiply_seconds=1).joules == pytest.approx(110)
    with pytest.raises(TypeError, match="takes a Simulation or a Power, got str"):
        energy("resnet50")
    with pytest.raises(TypeError, match="has its own numbers"):
        energy(simulate("resnet50", "v100", **SETTINGS), seconds=1)
    with pytest.raises(ValueError, match="no design power is known"):
        energy(simulate("resnet50", "ibm-core-2020", **SETTINGS))


def test_from_a_step_to_a_bill():
    step = energy(simulate("resnet50", Cluster("v100", 64, "infiniband_edr"), **SETTINGS), host_watts=75)
    whole = step * (90 * 1_281_167 / (64 * 32))
    bill = footprint.bill_of(whole.kwh, pue=1.1, region="france")
    assert bill.kilograms == pytest.approx(whole.joules / 3.6e6 * 1.1 * 0.056)
