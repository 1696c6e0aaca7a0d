"""Lab 12: the energy of a training as an area, hours wide and watts high, and what the grid makes of it."""

from __future__ import annotations

from typing import Any

from lplab.hardware import footprint
from lplab.hardware.footprint.jobs import Job
from lplab.hardware.footprint.step_energy import Power

from .mechanism import Mechanism

HOST_WATTS = 75
JOB = Job("resnet50", "v100", 8, batch=64, utilization=0.4, waiting=0.2, host_watts=HOST_WATTS)
PUES = {"efficient": footprint.PUES["best sites (1.10)"], "average": footprint.PUES["average (1.58)"]}
HOURS, CHIPS = 48, 16  # at most
PLACES = ("iceland", "france", "canada", "uk", "usa", "germany", "world", "australia", "poland", "india")


def data() -> dict[str, Any]:
    """Watts of a chip and of what stands around it, and the grams of some places.

    >>> content = data()
    >>> {name: round(each) for name, each in content["watts"].items()}, content["places"][1]
    ({'computing': 151, 'static': 43, 'machine': 78}, ['France', 56.0])
    """
    places = [footprint.region(name) for name in PLACES]
    return {
        "watts": watts(),
        "pues": PUES,
        "hours": HOURS,
        "chips": CHIPS,
        "places": [[place.label.removesuffix(" (fallback)"), place.grams_per_kwh] for place in places],
    }


def watts() -> dict[str, float]:
    """Mean watts of one chip while it trains, of its own static power, and of its machine with the network."""
    step = JOB.step("fp16_mixed")
    power = Power.of(JOB.chip, host_watts=HOST_WATTS)
    each = {name: float(joules / step.seconds / JOB.devices) for name, joules in step.parts().items()}
    return {
        "computing": each["arithmetic"] + each["memory"],
        "static": power.idle_watts,
        "machine": power.host_watts + each["network"],
    }


MECHANISM = Mechanism(
    name="energy_bill",
    title="One bill as areas: hours, chips, building and grid",
    todo="Drag the *orange: hours*, the *chips* and the *grid*, and look which of them changes the share of the chip.",
    alt="Bands of watts over hours: of computing, of the chip's static energy, of the machine around the chip and of "
    "the building. Their areas are energy. A column beside them has the same parts in kilograms, for one grid.",
    data=data,
)
