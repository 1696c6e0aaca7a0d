"""Lab 12: watts of the parts are those of the model of a step, and places those of the table."""

import pytest

from lplab.hardware import accelerators, footprint
from lplab.widgets.mechanisms import energy_bill


def test_parts_add_up_to_the_power_of_a_step():
    step = energy_bill.JOB.step("fp16_mixed")
    assert sum(energy_bill.watts().values()) == pytest.approx(step.joules / step.seconds / energy_bill.JOB.devices)


def test_a_chip_draws_what_its_design_allows():
    watts = energy_bill.watts()
    design = accelerators.get("v100").power_watts
    assert watts["static"] == pytest.approx(design / 7)
    assert watts["static"] + watts["computing"] < 0.85 * design, "it waits for a fifth of the time"
    assert watts["machine"] > energy_bill.HOST_WATTS


def test_places_stand_in_the_order_of_their_grids():
    places = energy_bill.data()["places"]
    grams = [each for _, each in places]
    assert grams == sorted(grams)
    assert [footprint.carbon(1000, name) for name in energy_bill.PLACES] == grams
    assert all("(" not in label for label, _ in places)
