"""Many learners: simulated in one process (``learners.py``), or as a hook of DistributedDataParallel (``hook.py``).

Both run the same generators of :mod:`lplab.compression`, so they agree bit for bit where values are summed in the order
of ranks (``ordered=True``). Sharded updates with weights sent in 8 bits: ``sharded_update.py`` between processes,
``simulated_sharding.py`` in one. Federated averaging with clients that drop out: ``federated.py``. Learners that
take many steps of their own and then meet (DiLoCo, Streaming DiLoCo, SparseLoCo): :class:`LocalSteps` of
``local_rounds.py``; between processes :func:`local_steps` of ``rank_local_steps.py``. FSDP, also with
the few bits of ZeRO++: :class:`FSDPHook` of ``fsdp.py``.
"""

from lplab.lookup import refuse_wrong_names
from lplab.parallel.agreement import cosine_distance, hamming_distance
from lplab.parallel.clients import FederatedSettings, client_batches
from lplab.parallel.compressor_states import CompressorStates, layer_infos, merge_ranks
from lplab.parallel.federated import FedAvg, FederatedRound
from lplab.parallel.fsdp import FSDPHook
from lplab.parallel.hook import HookState, compress_hook, ddp_hook
from lplab.parallel.learners import Learners, LearnerStep, shards, simulate_learners
from lplab.parallel.local_rounds import LocalRound, LocalSteps
from lplab.parallel.rank_local_steps import RankLocalSteps, local_steps
from lplab.parallel.run_settings import RunSettings
from lplab.parallel.sharded_update import ShardedWeightUpdate
from lplab.parallel.simulated import SimulatedRun, count_differences
from lplab.parallel.simulated_sharding import ShardedStep, SimulatedShardedTraining

__all__ = [
    "CompressorStates",
    "FSDPHook",
    "FedAvg",
    "FederatedRound",
    "FederatedSettings",
    "HookState",
    "LearnerStep",
    "Learners",
    "LocalRound",
    "LocalSteps",
    "RankLocalSteps",
    "RunSettings",
    "ShardedStep",
    "ShardedWeightUpdate",
    "SimulatedRun",
    "SimulatedShardedTraining",
    "client_batches",
    "compress_hook",
    "cosine_distance",
    "count_differences",
    "ddp_hook",
    "hamming_distance",
    "layer_infos",
    "local_steps",
    "merge_ranks",
    "shards",
    "simulate_learners",
]

refuse_wrong_names(__name__)
