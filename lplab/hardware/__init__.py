"""From bits to seconds, joules, kilograms and money: chips, workloads, networks and clusters as data.

Needs numpy alone. Every number of a table carries its source and a grade; measured, modelled and published numbers are
told apart. Chips are in :mod:`lplab.hardware.accelerators`, networks to train in :mod:`lplab.hardware.workloads`,
seconds of a layer in :mod:`lplab.hardware.compute`, of a message in :mod:`lplab.hardware.network`; energy, carbon and
money in :mod:`lplab.hardware.footprint`.
"""

from lplab.hardware import accelerators, compute, footprint, network, precisions, workloads
from lplab.hardware.network import Cluster, Link
from lplab.hardware.simulation import Simulation, simulate
from lplab.hardware.sweeps import scaling, sweep

__all__ = [
    "Cluster",
    "Link",
    "Simulation",
    "accelerators",
    "compute",
    "footprint",
    "network",
    "precisions",
    "scaling",
    "simulate",
    "sweep",
    "workloads",
]
