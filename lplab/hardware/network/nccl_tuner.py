"""NCCL's own cost model of all-reduce, with the constants by which it chooses between ring and tree.

time = latency + bytes / algorithm bandwidth, from ``src/graph/tuning.cc`` of the NCCL version whose constants are in
``data/hardware/nccl_tuner.csv``; other versions have others. Every argument may be an array.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lplab.checks import check_numbers
from lplab.hardware import csv_tables
from lplab.hardware.network.all_reduce_algorithms import checked_bytes, checked_ranks, log2_floor, unwrap_scalar
from lplab.hardware.network.links import Floats
from lplab.hardware.sourced_value import SourcedValue
from lplab.lookup import canonical_name

ALGORITHMS = ("ring", "tree")
PROTOCOLS = ("ll", "ll128", "simple")
INNER_LINKS = ("nvlink", "pci")
LL_NODES = 1.8  # factor of LL for a hop inside a node, over several nodes
BUSY_RING = 1.9  # latency of Simple rings across nodes, from BUSY_BYTES for each rank on
BUSY_BYTES = 65536 / 16
TREE_SHARE = 0.9  # of the bus bandwidth that a tree reaches; half of that is its algorithm bandwidth
TREE_CAPS = (110e9, 80e9)  # bytes a second of bus bandwidth at most, on up to two nodes and on more
TREE_LL = 1 / 3.8  # of that again, in LL
TREE_LL128 = (7 / 9, 0.915)  # and in LL128, in one node and across nodes


@dataclass(frozen=True)
class Constants:
    """The latencies of one algorithm and protocol, microseconds: base, and hops over NVLink, PCI and network."""

    base: float
    nvlink: float
    pci: float
    network: float


@cache
def constants() -> dict[str, Constants]:
    """The table, by "algorithm/protocol".

    >>> constants()["ring/simple"]
    Constants(base=8.4, nvlink=3.4, pci=5.7, network=9.6)
    """
    columns = [f"{name}_microseconds" for name in ("base", "nvlink", "pci", "network")]
    return {
        f"{row['algorithm']}/{row['protocol']}": Constants(
            *(SourcedValue.parse(row[column]).value for column in columns)
        )
        for row in csv_tables.read("nccl_tuner", ("algorithm", "protocol", *columns))
    }


def _canonical_names(algorithm: str, protocol: str) -> tuple[str, str]:
    name = canonical_name(constants(), f"{algorithm}/{protocol}", "NCCL algorithm and protocol")
    return name.partition("/")[0], name.partition("/")[2]


def latency_seconds(
    algorithm: str, protocol: str, nodes: Floats, ranks_per_node: Floats, inner: str = "nvlink", busy: Any = False
) -> Any:
    """Latency of an all-reduce, seconds.

    Args:
        algorithm: "ring" or "tree".
        protocol: "ll", "ll128" or "simple".
        nodes: how many.
        ranks_per_node: devices in each.
        inner: what connects the devices of a node: "nvlink" or "pci".
        busy: whether NCCL's factor of 1.9 for large messages on Simple rings across nodes applies: True or False, or
            an array of them.

    Raises:
        ValueError: an unknown name, no nodes, no ranks.

    >>> round(1e6 * latency_seconds("ring", "simple", nodes=2, ranks_per_node=8), 1)
    122.8
    """
    algorithm, protocol = _canonical_names(algorithm, protocol)
    row = constants()[f"{algorithm}/{protocol}"]
    if inner not in INNER_LINKS:
        raise ValueError(f"unknown inner link {inner!r}; allowed: {', '.join(INNER_LINKS)}")
    n, local = checked_ranks(nodes), checked_ranks(ranks_per_node)
    hop = getattr(row, inner) * np.where((n > 1) & (protocol == "ll"), LL_NODES, 1.0)
    if algorithm == "ring":
        between = 2 * (n - 1)
        micro = row.base + (2 * (n * local - 1) - between) * hop + between * row.network
        if protocol == "simple":
            micro = micro * np.where((n > 1) & busy, BUSY_RING, 1.0)
    else:
        micro = row.base + 2 * ((local - 1) * hop + log2_floor(n) * row.network)
    return unwrap_scalar(np.where(n * local > 1, micro, 0.0) * 1e-6)


def bandwidth(
    algorithm: str, protocol: str, nodes: Floats, ranks_per_node: Floats, bus_bytes_per_second: Floats
) -> Any:
    """Algorithm bandwidth: bytes of the buffer per second, from the bus bandwidth of the slowest link.

    NCCL's limits of LL128 for each channel, and for single chips (A100), are left out.

    >>> round(bandwidth("ring", "simple", nodes=1, ranks_per_node=8, bus_bytes_per_second=370e9) / 1e9, 3)
    211.429
    """
    n, local = checked_ranks(nodes), checked_ranks(ranks_per_node)
    ranks, bus = n * local, check_numbers("bus_bytes_per_second", bus_bytes_per_second)
    if not (bus > 0).all():
        raise ValueError(f"bus_bytes_per_second must be positive, got {bus[~(bus > 0)][0]:g}")
    algorithm, protocol = _canonical_names(algorithm, protocol)
    shares: dict[str, Any]
    if algorithm == "tree":
        shares = {"ll": TREE_LL, "ll128": np.where(n > 1, TREE_LL128[1], TREE_LL128[0]), "simple": 1.0}
        cap = np.where(n > 2, TREE_CAPS[1], TREE_CAPS[0])
        return unwrap_scalar(np.minimum(bus * TREE_SHARE, cap) * shares[protocol] / 2)
    shares = {"ll": 0.25, "ll128": np.where(local < 2, 0.7, 0.92), "simple": 1.0}
    return unwrap_scalar(bus * shares[protocol] * ranks / np.maximum(2 * (ranks - 1), 1))


def all_reduce_seconds(
    nodes: Floats,
    ranks_per_node: Floats,
    nbytes: Floats,
    bus_bytes_per_second: Floats,
    algorithm: str = "auto",
    protocol: str = "auto",
    inner: str = "nvlink",
) -> Any:
    """Time of an all-reduce by the model of NCCL's tuner, seconds; "auto" takes the fastest, as NCCL does.

    NCCL's table of corrections (0.4 to 1 of a tree's bandwidth, by size) is left out, so that "auto" takes a tree for
    some messages of medium size where NCCL would take a ring.

    >>> 1e3 * all_reduce_seconds(1, 8, 1e9, 370e9) > 4.7
    True
    """
    n, ranks = checked_bytes(nbytes), checked_ranks(nodes) * checked_ranks(ranks_per_node)
    algorithms = ALGORITHMS if algorithm == "auto" else (algorithm,)
    protocols = PROTOCOLS if protocol == "auto" else (protocol,)
    times = [
        latency_seconds(a, p, nodes, ranks_per_node, inner, n >= BUSY_BYTES * ranks)
        + n / bandwidth(a, p, nodes, ranks_per_node, bus_bytes_per_second)
        for a in algorithms
        for p in protocols
    ]
    return unwrap_scalar(np.where(ranks == 1, 0.0, np.minimum.reduce(np.broadcast_arrays(*times))))
