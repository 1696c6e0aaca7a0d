"""What a training draws, emits and costs: watts, hours, the building around the machines, the grid behind them."""

from __future__ import annotations

from dataclasses import dataclass

from lplab.hardware.footprint.carbon_intensity import Region, carbon
from lplab.hardware.footprint.checks import check_above, check_at_least

POUND = 0.45359237  # kilograms
PUES = {  # what a building draws for each kWh of its machines
    "best sites (1.10)": 1.10,
    "average (1.58)": 1.58,
    "old site (2.2)": 2.2,
    "machines alone (1.00)": 1.0,
}
SECONDS_PER_DAY = 86_400.0


def training_operations(parameters: float, tokens: float) -> float:
    """Operations to train a dense language model: 6 for each parameter and token, 2 forward and 4 backward.

    >>> f"{training_operations(175e9, 300e9):.3g}"  # GPT-3
    '3.15e+23'
    """
    check_at_least(0, parameters=parameters, tokens=tokens)
    return 6.0 * parameters * tokens


def training_hours(operations: float, devices: float, sustained_ops_per_second: float) -> float:
    """Hours on some devices, each doing ``sustained_ops_per_second``: what it reaches, not its peak.

    >>> round(training_hours(3.14e23, 10_000, 24.6e12) / 24, 1)  # GPT-3 on V100s, days
    14.8
    """
    check_at_least(0, operations=operations)
    check_above(0, devices=devices, sustained_ops_per_second=sustained_ops_per_second)
    return operations / (devices * sustained_ops_per_second) / 3600


@dataclass(frozen=True)
class Bill:
    """The sum at the end, by `bill`.

    Attributes:
        machine_kwh: at the machines.
        kwh: drawn from the grid, for cooling and conversion too.
        kilograms: of CO2e.
        electricity: money for the electricity.
        rent: money for the machines, by the hour.
    """

    machine_kwh: float
    kwh: float
    kilograms: float
    electricity: float = 0.0
    rent: float = 0.0

    @property
    def money(self) -> float:
        """Electricity and rent; where machines are rented their electricity is usually in the rent: see to it."""
        return self.electricity + self.rent

    @property
    def pounds(self) -> float:
        """CO2e in pounds, as Strubell et al. print it."""
        return self.kilograms / POUND


def bill(
    *,
    watts: float,
    hours: float,
    devices: float = 1,
    pue: float = 1.1,
    region: str | Region | float = "world",
    price_per_kwh: float = 0.0,
    price_per_device_hour: float = 0.0,
) -> Bill:
    """Kilowatt hours, CO2e and money of a job: watts × hours × PUE × intensity; arrays are welcome.

    Args:
        watts: of one device, the mean over the job.
        hours: of the job.
        devices: how many.
        pue: power usage effectiveness, what the building draws for each watt of its machines; at least 1 (`PUES`).
        region: a name, a `Region`, or grams of CO2e per kWh.
        price_per_kwh, price_per_device_hour: in the same currency; 0 leaves them out.

    >>> gpt3 = bill(watts=330, hours=14.8 * 24, devices=10_000, pue=1.1, region="gpt3_site")
    >>> round(gpt3.kwh / 1000), round(gpt3.kilograms / 1000)
    (1289, 553)
    >>> bill(watts=300, hours=1, pue=0.5)
    Traceback (most recent call last):
    ...
    ValueError: pue must be finite and at least 1, got 0.5
    """
    check_at_least(0, watts=watts, hours=hours, devices=devices)
    check_at_least(0, price_per_kwh=price_per_kwh, price_per_device_hour=price_per_device_hour)
    return bill_of(
        devices * watts * hours / 1000,
        pue=pue,
        region=region,
        price_per_kwh=price_per_kwh,
        rent=devices * hours * price_per_device_hour,
    )


def bill_of(
    machine_kwh: float,
    *,
    pue: float = 1.1,
    region: str | Region | float = "world",
    price_per_kwh: float = 0.0,
    rent: float = 0.0,
) -> Bill:
    """The bill of energy that is already known, such as ``energy(simulation).kwh * steps``.

    >>> bill_of(100.0, pue=1.58, region="germany").kilograms
    60.198
    """
    check_at_least(0, machine_kwh=machine_kwh, price_per_kwh=price_per_kwh, rent=rent)
    check_at_least(1, pue=pue)
    kwh = machine_kwh * pue
    return Bill(machine_kwh, kwh, carbon(kwh, region), kwh * price_per_kwh, rent)
