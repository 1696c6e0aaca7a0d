"""From bits to seconds, joules, kilograms and money: chips, workloads, networks and clusters as data.

Needs numpy alone. Every number of a table carries its source and a grade; measured, modelled and published numbers are
told apart.
"""

from lplab.hardware.network.cluster import Cluster
from lplab.hardware.network.links import Link
from lplab.hardware.simulation import Simulation, simulate
from lplab.hardware.sweeps import scaling, sweep

__all__ = ["Cluster", "Link", "Simulation", "scaling", "simulate", "sweep"]
