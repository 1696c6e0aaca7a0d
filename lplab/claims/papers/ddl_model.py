"""Two clusters of P100s that trained ResNet-50, by the simulator: IBM's of 64 nodes of 4, Facebook's of 32 of 8.

What a GPU computes in a step is measured (by them); what the network adds is modelled. How many InfiniBand ports a node
of IBM's had could not be found out, so there are both; NVLink gives 80 % of its 40 GB/s (assumed).
"""

from __future__ import annotations

from math import inf
from typing import Any

from lplab.hardware import Cluster, Link, Simulation, simulate
from lplab.hardware.network import links

IMAGES, BATCH = 1_281_167, 32  # of ImageNet-1K; of a GPU in a step
COMPUTE = 0.2  # seconds of a step of 32 images on a P100, forward and backward
GOYAL_COMPUTE = 29 * 3600 * 8 * BATCH / (90 * IMAGES)  # seconds: 90 epochs in 29 hours on 8 GPUs


def ddl_efficiency(gpus: int = 256, ports: int = 2, overlap: float = 0.0, seconds: float = COMPUTE) -> float:
    """Per cent of one GPU's speed that each of many reaches on IBM's cluster.

    Args:
        gpus: 4 in a node.
        ports: InfiniBand EDR ports of a node.
        overlap: how fast the network goes behind the backward pass; 0: gradients are sent after it, all at once.
        seconds: of computing in a step.

    >>> ddl_efficiency(ports=1) < ddl_efficiency(ports=2) < ddl_efficiency(ports=2, overlap=1.0)
    True
    """
    return 100 * ddl_step(gpus, ports, overlap, seconds).efficiency


def ddl_step(gpus: int = 256, ports: int = 2, overlap: float = 0.0, seconds: float = COMPUTE) -> Simulation:
    """The simulated step behind :func:`ddl_efficiency`, with the same arguments.

    >>> 100 * ddl_step(16).efficiency == ddl_efficiency(16)
    True
    """
    edr, nvlink = links.get("infiniband_edr"), links.get("nvlink1")
    between = Link(edr.latency_seconds, ports * edr.bytes_per_second, f"{ports} EDR")
    inside = Link(nvlink.latency_seconds, 0.8 * nvlink.bytes_per_second, "NVLink at 80 %")
    cluster = Cluster("p100", gpus, between, algorithm="ring", devices_per_node=4, inner_link=inside)
    return _step(cluster, overlap, seconds)


def goyal_efficiency(overlap: float = 0.0) -> float:
    """Per cent of its speed on 8 GPUs that each of 256 reaches on Facebook's cluster."""
    clusters = [
        Cluster("p100", gpus, "ethernet_50g", "halving_doubling", devices_per_node=8, inner_link="nvlink1")
        for gpus in (8, 256)
    ]
    few, many = (_step(cluster, overlap, GOYAL_COMPUTE).efficiency for cluster in clusters)
    return 100 * many / few


def _step(cluster: Cluster, overlap: float, seconds: float) -> Simulation:
    how: dict[str, Any] = {"precision": "fp32", "batch": BATCH, "overlap": overlap, "measured_seconds": seconds}
    if not overlap:
        how["bucket_bytes"] = inf  # what waits for the end of the backward pass goes as one message
    return simulate("resnet50", cluster, **how)
