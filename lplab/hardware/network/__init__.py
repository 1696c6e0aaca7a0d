"""The network of a cluster: links, algorithms of all-reduce, seconds of every collective, and the cluster itself.

>>> round(1e3 * all_reduce_seconds("ring", 8, 102.2e6, "infiniband_edr"), 1)  # the gradient of ResNet-50, milliseconds
14.4
"""

from lplab.hardware.network.cluster import Cluster
from lplab.hardware.network.collective_times import (
    all_gather_seconds,
    all_reduce_seconds,
    broadcast_seconds,
    names,
    reduce_scatter_seconds,
    sent_bytes,
    steps,
)
from lplab.hardware.network.fabric import Fabric
from lplab.hardware.network.links import Link

__all__ = [
    "Cluster",
    "Fabric",
    "Link",
    "all_gather_seconds",
    "all_reduce_seconds",
    "broadcast_seconds",
    "names",
    "reduce_scatter_seconds",
    "sent_bytes",
    "steps",
]
