"""Energy by part, kilowatt hours, CO2e and money of trainings, and federated rounds at the edge.

Needs numpy alone (measured energy: codecarbon, `measured`). Watts are modelled or published, never both in one number.

>>> gpt3 = runs.get("gpt3")
>>> round(gpt3.bill.kwh / 1000), round(gpt3.published_kwh / 1000)
(1289, 1287)
"""

from __future__ import annotations

from lplab.hardware.footprint import runs
from lplab.hardware.footprint.bills import PUES, Bill, bill, bill_of, training_hours, training_operations
from lplab.hardware.footprint.carbon_intensity import Region, carbon, mix, region, regions
from lplab.hardware.footprint.energy import energy
from lplab.hardware.footprint.federated_rounds import (
    ClientRound,
    Device,
    Radio,
    compressed_bytes,
    federated,
    message_bytes,
)
from lplab.hardware.footprint.jobs import Job
from lplab.hardware.footprint.measured import measure
from lplab.hardware.footprint.step_energy import PARTS, Energy, Power, energy_of, gemm_joules

__all__ = [
    "PARTS",
    "PUES",
    "Bill",
    "ClientRound",
    "Device",
    "Energy",
    "Job",
    "Power",
    "Radio",
    "Region",
    "bill",
    "bill_of",
    "carbon",
    "compressed_bytes",
    "energy",
    "energy_of",
    "federated",
    "gemm_joules",
    "measure",
    "message_bytes",
    "mix",
    "region",
    "regions",
    "runs",
    "training_hours",
    "training_operations",
]
