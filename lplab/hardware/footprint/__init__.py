"""Energy by part, kilowatt hours, CO2e and money of trainings, and federated rounds at the edge.

Needs numpy alone (measured energy: codecarbon, `measured`). Watts are modelled or published, never both in one number.

>>> gpt3 = runs.get("gpt3")
>>> round(gpt3.bill.kwh / 1000), round(gpt3.published_kwh / 1000)
(1289, 1287)
"""

from __future__ import annotations

from lplab.hardware.footprint import runs as runs
from lplab.hardware.footprint.bills import PUES as PUES
from lplab.hardware.footprint.bills import Bill as Bill
from lplab.hardware.footprint.bills import bill as bill
from lplab.hardware.footprint.bills import bill_of as bill_of
from lplab.hardware.footprint.bills import training_hours as training_hours
from lplab.hardware.footprint.bills import training_operations as training_operations
from lplab.hardware.footprint.carbon_intensity import Region as Region
from lplab.hardware.footprint.carbon_intensity import carbon as carbon
from lplab.hardware.footprint.carbon_intensity import mix as mix
from lplab.hardware.footprint.carbon_intensity import region as region
from lplab.hardware.footprint.carbon_intensity import regions as regions
from lplab.hardware.footprint.energy import energy as energy
from lplab.hardware.footprint.federated_rounds import ClientRound as ClientRound
from lplab.hardware.footprint.federated_rounds import Device as Device
from lplab.hardware.footprint.federated_rounds import Radio as Radio
from lplab.hardware.footprint.federated_rounds import compressed_bytes as compressed_bytes
from lplab.hardware.footprint.federated_rounds import federated as federated
from lplab.hardware.footprint.federated_rounds import message_bytes as message_bytes
from lplab.hardware.footprint.jobs import Job as Job
from lplab.hardware.footprint.measured import measure as measure
from lplab.hardware.footprint.step_energy import PARTS as PARTS
from lplab.hardware.footprint.step_energy import Energy as Energy
from lplab.hardware.footprint.step_energy import Power as Power
from lplab.hardware.footprint.step_energy import energy_of as energy_of
from lplab.hardware.footprint.step_energy import gemm_joules as gemm_joules
