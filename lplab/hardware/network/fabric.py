"""How devices are connected: alike, or in nodes with fast links inside and shared links between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.hardware.network import collective_times, nccl_tuner
from lplab.hardware.network.all_reduce_algorithms import checked_bytes, checked_ranks, unwrap_scalar
from lplab.hardware.network.links import Floats, Link
from lplab.hardware.network.links import get as link_of
from lplab.lookup import canonical_name

COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce_scatter", "gather_shards")
"""Collectives of a network. The bytes are of the whole buffer; for "all_gather" they are one device's payload.

"gather_shards" is "reduce_scatter" in the reverse order: it gathers the new weights of a sharded optimizer.
"""
_PER_NODE = "devices_per_node: the number of devices"
NCCL = "nccl"  # the name under which NCCL's own model stands beside the algorithms


@dataclass(frozen=True)
class Fabric:
    """The network of a cluster.

    Devices of a node send at the same time, so each has its share of the link between nodes. A sum over nodes goes in
    three steps: reduce-scatter inside, all-reduce of the parts between, all-gather inside.

    Args:
        link: between nodes; of each device where nodes have one device.
        algorithm: of all-reduce between nodes: a name of ``network.names()``, or "nccl" for NCCL's own constants.
        devices_per_node: 1 or more; a number, or an array.
        inner_link: between the devices of a node; needed for more than one.

    Raises:
        ValueError: an unknown name, or nodes of several devices without a link inside.

    >>> nodes = Fabric("infiniband_edr", devices_per_node=4, inner_link="nvlink1")
    >>> round(1e3 * nodes.seconds("all_reduce", 102.2e6, 256), 1)  # the gradient of ResNet-50, milliseconds
    20.1
    """

    link: Link | str
    algorithm: str = "auto"
    devices_per_node: Floats = 1
    inner_link: Link | str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "link", link_of(self.link))
        object.__setattr__(
            self, "algorithm", canonical_name((*collective_times.names(), NCCL), self.algorithm, "algorithm")
        )
        if self.inner_link is not None:
            object.__setattr__(self, "inner_link", link_of(self.inner_link))
        elif (checked_ranks(self.devices_per_node, _PER_NODE) > 1).any():
            raise ValueError("nodes of several devices need inner_link=, the link between the devices of a node")

    @property
    def outer(self) -> Link:
        """The link between nodes as each device sees it when all devices of a node send at once."""
        return link_of(self.link).shared(self.devices_per_node)

    @property
    def inner(self) -> Link:
        """The link inside a node; where there is none it is never used."""
        return link_of("ideal" if self.inner_link is None else self.inner_link)

    def split(self, devices: Floats) -> tuple[np.ndarray, np.ndarray]:
        """How many nodes, and how many devices in each; float64.

        Raises:
            ValueError: no devices, or a number of them that does not fill the nodes.

        >>> Fabric("infiniband_edr", devices_per_node=4, inner_link="nvlink1").split(6)
        Traceback (most recent call last):
        ValueError: 6 devices do not fill nodes of 4: take a multiple of 4, or fewer than 4
        """
        p, g = np.broadcast_arrays(checked_ranks(devices), checked_ranks(self.devices_per_node, _PER_NODE))
        bad = (p > g) & (p % g > 0)
        if bad.any():
            size = f"{g[bad][0]:.0f}"
            raise ValueError(
                f"{p[bad][0]:.0f} devices do not fill nodes of {size}: take a multiple of {size}, or fewer than {size}"
            )
        local = np.minimum(p, g)
        return p / local, local

    def seconds(self, kind: str, nbytes: Floats, devices: Floats, reduce_seconds_per_byte: Floats = 0.0) -> Any:
        """Time of one collective, seconds; every argument may be an array.

        Args:
            kind: one of :data:`COLLECTIVES`.
            nbytes: of the buffer; for "all_gather", of one device's payload.
            devices: devices that take part.
            reduce_seconds_per_byte: time of a device to add one byte of a buffer to another.

        Raises:
            ValueError: an unknown kind, no devices, negative bytes.
        """
        if kind not in COLLECTIVES:
            raise ValueError(f"unknown kind {kind!r} of collective; allowed: {', '.join(COLLECTIVES)}")
        nodes, local = self.split(devices)
        n = checked_bytes(nbytes)
        if "server" in self.algorithm and kind in ("all_reduce", "all_gather"):
            return self._server(kind, n, nodes * local)
        return unwrap_scalar(getattr(self, f"_{kind}")(n, nodes, local, reduce_seconds_per_byte) + np.zeros(()))

    def _all_reduce(self, n: np.ndarray, nodes: np.ndarray, local: np.ndarray, add: Floats) -> Any:
        if self.algorithm == NCCL:
            return self._nccl(n, nodes, local)
        inside = collective_times.all_reduce_seconds("ring", local, n, self.inner, add)
        return inside + collective_times.all_reduce_seconds(self.algorithm, nodes, n / local, self.outer, add)

    def _nccl(self, n: np.ndarray, nodes: np.ndarray, local: np.ndarray) -> Any:
        between, inside = np.asarray(link_of(self.link).bytes_per_second), np.asarray(self.inner.bytes_per_second)
        bus = np.where(nodes > 1, np.minimum(between, inside), inside)  # its rings cross the NIC once a node
        hop = "pci" if self.inner.name.startswith("pcie") else "nvlink"
        return nccl_tuner.all_reduce_seconds(nodes, local, n, bus, inner=hop)

    def _all_gather(self, n: np.ndarray, nodes: np.ndarray, local: np.ndarray, add: Floats) -> Any:
        between = collective_times.all_gather_seconds(nodes, n, self.outer)
        return between + collective_times.all_gather_seconds(local, n * nodes, self.inner)

    def _broadcast(self, n: np.ndarray, nodes: np.ndarray, local: np.ndarray, add: Floats) -> Any:
        between = collective_times.broadcast_seconds(nodes, n, link_of(self.link))
        return between + collective_times.broadcast_seconds(local, n, self.inner)

    def _reduce_scatter(self, n: np.ndarray, nodes: np.ndarray, local: np.ndarray, add: Floats) -> Any:
        inside = collective_times.reduce_scatter_seconds(local, n, self.inner, add)
        return inside + collective_times.reduce_scatter_seconds(nodes, n / local, self.outer, add)

    def _gather_shards(self, n: np.ndarray, nodes: np.ndarray, local: np.ndarray, add: Floats) -> Any:
        return self._reduce_scatter(n, nodes, local, 0.0)  # the same messages in the reverse order

    def _server(self, kind: str, n: np.ndarray, p: np.ndarray) -> Any:
        """Push, then pull; a server that gathers sends all payloads to all devices."""
        if kind == "all_reduce":
            return collective_times.all_reduce_seconds(self.algorithm, p, n, link_of(self.link))
        ways = p if self.algorithm == "parameter_server" else 1.0
        pushed, pulled = (link_of(self.link).seconds(n * ways * many) for many in (1.0, p))
        return unwrap_scalar(np.where(p > 1, pushed + pulled, 0.0))
