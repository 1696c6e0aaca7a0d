"""A cluster: devices of one kind, and the network between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lplab.checks import check_fields
from lplab.hardware import accelerators
from lplab.hardware.accelerators import Accelerator
from lplab.hardware.network.all_reduce_algorithms import checked_straggler
from lplab.hardware.network.fabric import Fabric
from lplab.hardware.network.links import Link
from lplab.hardware.network.links import get as link_of
from lplab.lookup import NamedSettings


@dataclass(frozen=True)
class Cluster(NamedSettings):
    """Devices that train one network together, each with its own part of the batch.

    Args:
        accelerator: of each device: a name of ``accelerators.names()``, or an :class:`Accelerator`.
        devices: how many, 1 or more.
        link: between nodes: a name of ``links.names()``, a text such as "100Gb/s, 2us", or a :class:`Link`.
        algorithm: of all-reduce between nodes: a name of ``network.names()``, or "nccl".
        devices_per_node: devices that share one link to the others.
        inner_link: between the devices of a node; needed where a node has several.
        straggler: by how much the slowest device is slower than the fastest, 0.1 for 10 %; all devices wait for it.

    Raises:
        ValueError: an unknown name, no devices, devices that do not fill their nodes, a negative straggler.
        TypeError: an unknown setting.

    >>> Cluster("p100", 256, "infiniband_edr", devices_per_node=4, inner_link="nvlink1").nodes
    64
    >>> Cluster("h100", 0)
    Traceback (most recent call last):
    ValueError: the number of devices must be a whole number, 1 or more, got 0
    """

    accelerator: Accelerator | str
    devices: int = 1
    link: Link | str = "infiniband_edr"
    algorithm: str = "auto"
    devices_per_node: int = 1
    inner_link: Link | str | None = None
    straggler: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "accelerator", accelerators.get(self.accelerator))
        object.__setattr__(self, "link", link_of(self.link))
        if self.inner_link is not None:
            object.__setattr__(self, "inner_link", link_of(self.inner_link))
        check_fields(self, "devices", "devices_per_node", "straggler", of=" of a cluster")
        self.fabric.split(self.devices)
        checked_straggler(self.straggler)

    @cached_property
    def chip(self) -> Accelerator:
        """The accelerator, looked up."""
        return accelerators.get(self.accelerator)

    @cached_property
    def fabric(self) -> Fabric:
        """The network, without the devices."""
        return Fabric(self.link, self.algorithm, self.devices_per_node, self.inner_link)

    @property
    def nodes(self) -> int:
        """How many nodes."""
        return int(self.fabric.split(self.devices)[0])
