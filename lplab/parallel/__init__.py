"""Many learners: simulated in one process (``learners.py``), or as a hook of DistributedDataParallel (``hook.py``).

Both drive the same generators of :mod:`lplab.compression`, so that they agree bit for bit.
"""

from lplab.parallel.hook import HookState, compress_hook, ddp_hook
from lplab.parallel.layers import layer_infos
from lplab.parallel.learners import Learners, Round, shards, simulate_learners
from lplab.parallel.memory import Memory, portable
from lplab.parallel.settings import RunSettings
from lplab.parallel.similarity import cosine_distance, hamming_distance

__all__ = [
    "HookState",
    "Learners",
    "Memory",
    "Round",
    "RunSettings",
    "compress_hook",
    "cosine_distance",
    "ddp_hook",
    "hamming_distance",
    "layer_infos",
    "portable",
    "shards",
    "simulate_learners",
]
