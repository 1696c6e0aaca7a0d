"""Many learners: simulated in one process (``learners.py``), or as a hook of DistributedDataParallel (``hook.py``).

Both drive the same generators of :mod:`lplab.compression`, so that they agree bit for bit. Weights in 8 bits, whose
owner keeps the rest: ``weight_broadcast.py`` between processes, ``shared_weights.py`` in one.
Federated averaging, with clients that do not come back: ``federated.py``.
"""

from lplab.parallel.clients import FederatedSettings, client_batches
from lplab.parallel.federated import Federated, FederatedRound
from lplab.parallel.hook import HookState, compress_hook, ddp_hook
from lplab.parallel.layers import layer_infos
from lplab.parallel.learners import Learners, Round, shards, simulate_learners
from lplab.parallel.memory import Memory, portable
from lplab.parallel.settings import RunSettings
from lplab.parallel.shared_weights import SharedStep, SharedWeights
from lplab.parallel.similarity import cosine_distance, hamming_distance
from lplab.parallel.simulated import SimulatedRun, differing
from lplab.parallel.weight_broadcast import WeightBroadcast

__all__ = [
    "Federated",
    "FederatedRound",
    "FederatedSettings",
    "HookState",
    "Learners",
    "Memory",
    "Round",
    "RunSettings",
    "SharedStep",
    "SharedWeights",
    "SimulatedRun",
    "WeightBroadcast",
    "client_batches",
    "compress_hook",
    "cosine_distance",
    "ddp_hook",
    "differing",
    "hamming_distance",
    "layer_infos",
    "portable",
    "shards",
    "simulate_learners",
]
