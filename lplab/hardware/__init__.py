"""From bits to seconds, joules, kilograms and money: chips, workloads, networks and clusters as data.

Needs numpy alone. Every number of a table carries its source and a grade; measured, modelled and published numbers are
told apart. Chips are in :mod:`lplab.hardware.accelerators`, networks to train in :mod:`lplab.hardware.workloads`,
seconds of a layer in :mod:`lplab.hardware.compute`, of a message in :mod:`lplab.hardware.network`; energy, carbon and
money in :mod:`lplab.hardware.footprint`; seconds a token of a language model that writes in :func:`decoding_step`;
learners that meet seldom, over links from NVLink to a home connection, in :func:`simulate_local_steps`.
"""

from lplab.hardware import accelerators, compute, footprint, network, precisions, workloads
from lplab.hardware.decoding import Decoding, decoding_step
from lplab.hardware.language_models import LANGUAGE_MODELS, LanguageModel
from lplab.hardware.local_steps import METHODS, LocalStepsSimulation, compare_methods, simulate_local_steps
from lplab.hardware.network import Cluster, Link
from lplab.hardware.simulation import Simulation, simulate
from lplab.hardware.sweeps import scaling, sweep
from lplab.lookup import refuse_wrong_names

__all__ = [
    "LANGUAGE_MODELS",
    "METHODS",
    "Cluster",
    "Decoding",
    "LanguageModel",
    "Link",
    "LocalStepsSimulation",
    "Simulation",
    "accelerators",
    "compare_methods",
    "compute",
    "decoding_step",
    "footprint",
    "network",
    "precisions",
    "scaling",
    "simulate",
    "simulate_local_steps",
    "sweep",
    "workloads",
]

refuse_wrong_names(__name__)
