"""What a training draws, emits and costs: watts, hours, the building around the machines, the grid behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lplab.checks import check_above, check_at_least
from lplab.hardware.footprint.carbon_intensity import Region, carbon
from lplab.hardware.network.links import Floats

POUND = 0.45359237  # kilograms
PUES = {  # what a building draws for each kWh of its machines
    "best sites (1.10)": 1.10,
    "average (1.58)": 1.58,
    "old site (2.2)": 2.2,
    "machines alone (1.00)": 1.0,
}


def training_operations(parameters: Floats, tokens: Floats) -> Any:
    """Operations to train a dense language model: 6 for each parameter and token, 2 forward and 4 backward.

    Arrays are welcome, here and in the functions below: they broadcast.

    >>> f"{training_operations(175e9, 300e9):.3g}"  # GPT-3
    '3.15e+23'
    """
    parameters, tokens = check_at_least(0, parameters=parameters, tokens=tokens)
    return 6.0 * parameters * tokens


def training_hours(operations: Floats, devices: Floats, sustained_ops_per_second: Floats) -> Any:
    """Hours on some devices, each doing ``sustained_ops_per_second``: what it reaches, not its peak.

    >>> round(training_hours(3.14e23, 10_000, 24.6e12) / 24, 1)  # GPT-3 on V100s, days
    14.8
    """
    [operations] = check_at_least(0, operations=operations)
    devices, rate = check_above(0, devices=devices, sustained_ops_per_second=sustained_ops_per_second)
    return operations / (devices * rate) / 3600


@dataclass(frozen=True)
class Bill:
    """The sum at the end, by `bill`: numbers, or arrays where the arguments were arrays.

    Attributes:
        machine_kwh: at the machines.
        kwh: drawn from the grid, for cooling and conversion too.
        kilograms: of CO2e.
        electricity: money for the electricity.
        rent: money for the machines, by the hour.
    """

    machine_kwh: Any
    kwh: Any
    kilograms: Any
    electricity: Any = 0.0
    rent: Any = 0.0

    @property
    def money(self) -> Any:
        """Electricity and rent; where machines are rented their electricity is usually in the rent: see to it."""
        return self.electricity + self.rent

    @property
    def pounds(self) -> Any:
        """CO2e in pounds, as Strubell et al. print it."""
        return self.kilograms / POUND


def bill(
    *,
    watts: Floats,
    hours: Floats,
    devices: Floats = 1,
    pue: Floats = 1.1,
    region: str | Region | Floats = "world",
    price_per_kwh: Floats = 0.0,
    price_per_device_hour: Floats = 0.0,
) -> Bill:
    """Kilowatt hours, CO2e and money of a job: watts × hours × PUE × intensity; arrays are welcome.

    Args:
        watts: of one device, the mean over the job.
        hours: of the job.
        devices: how many.
        pue: power usage effectiveness, what the building draws for each watt of its machines; at least 1 (`PUES`).
        region: a name, the ISO code of a country, a `Region`, or grams of CO2e per kWh.
        price_per_kwh, price_per_device_hour: in the same currency; 0 leaves them out.

    Raises:
        ValueError: an unknown region, or a number that is negative, not finite, or none.

    >>> gpt3 = bill(watts=330, hours=14.8 * 24, devices=10_000, pue=1.1, region="gpt3_site")
    >>> round(gpt3.kwh / 1000), round(gpt3.kilograms / 1000)
    (1289, 553)
    >>> bill(watts=300, hours=1, pue=0.5)
    Traceback (most recent call last):
    ...
    ValueError: pue must be finite and at least 1, got 0.5
    """
    watts, hours, devices = check_at_least(0, watts=watts, hours=hours, devices=devices)
    price_per_kwh, each = check_at_least(0, price_per_kwh=price_per_kwh, price_per_device_hour=price_per_device_hour)
    return bill_of(
        devices * watts * hours / 1000,
        pue=pue,
        region=region,
        price_per_kwh=price_per_kwh,
        rent=devices * hours * each,
    )


def bill_of(
    machine_kwh: Floats,
    *,
    pue: Floats = 1.1,
    region: str | Region | Floats = "world",
    price_per_kwh: Floats = 0.0,
    rent: Floats = 0.0,
) -> Bill:
    """The bill of energy that is already known, such as ``energy(simulation).kwh * steps``.

    >>> bill_of(100.0, pue=1.58, region="germany").kilograms
    60.198
    """
    machine_kwh, price_per_kwh, rent = check_at_least(
        0, machine_kwh=machine_kwh, price_per_kwh=price_per_kwh, rent=rent
    )
    [pue] = check_at_least(1, pue=pue)
    kwh = machine_kwh * pue
    return Bill(machine_kwh, kwh, carbon(kwh, region), kwh * price_per_kwh, rent)
