"""A simulated training step on a cluster: seconds, bytes, memory and a timeline.

Everything here is **modelled**. What goes into it may be measured (``measured_seconds=``, ``utilization=``) or
published (chips, links); :mod:`lplab.claims` compares what comes out with published numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.compression import Compressor
from lplab.hardware import memory, precisions, workloads
from lplab.hardware.accelerators import Accelerator
from lplab.hardware.network.cluster import Cluster
from lplab.hardware.overlap import BUCKET_BYTES
from lplab.hardware.precisions import Precision
from lplab.hardware.step import Design, StepTimes, step
from lplab.hardware.timeline import Event, timeline
from lplab.hardware.traffic import compressor_of
from lplab.hardware.workloads import Workload
from lplab.lookup import named_settings

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Simulation:
    """One step of training, and what follows from it. Times in seconds, of the slowest device.

    Attributes:
        design: workload, chip, precision, compressor, buckets, optimizer.
        cluster: devices and network.
        batch: examples on each device in a step.
        overlap: how fast the network goes while devices compute, 0 to 1.
        times: of every layer and bucket (:class:`lplab.hardware.step.StepTimes` with a single point).
    """

    design: Design
    cluster: Cluster
    batch: int
    overlap: float
    times: StepTimes = field(repr=False)

    @property
    def step_seconds(self) -> float:
        """Seconds from one step to the next."""
        return self.times.total.item()

    @property
    def single_seconds(self) -> float:
        """Seconds of the step on one device alone, without communication."""
        return self.times.single.item()

    @property
    def compute_seconds(self) -> float:
        """Forward pass, backward pass with the compressor's work, and update."""
        return (self.times.forward + self.times.backward + self.times.update).item()

    @property
    def communication_seconds(self) -> float:
        """All transfers, hidden behind the backward pass or not."""
        return self.times.communication.item()

    @property
    def exposed_seconds(self) -> float:
        """The part of the transfers that devices wait for."""
        return (self.times.exposed + self.times.weights).item()

    @property
    def efficiency(self) -> float:
        """Examples per second and device, over those of a device alone with the same batch."""
        return self.single_seconds / self.step_seconds

    @property
    def throughput(self) -> float:
        """Examples per second of all devices."""
        return self.batch * self.cluster.devices / self.step_seconds

    @property
    def sent_bytes(self) -> float:
        """Bytes that a device sends in a step, on average, with ring algorithms."""
        return float(self.design.sent_bytes(self.cluster.devices))

    @cached_property
    def memory(self) -> dict[str, float]:
        """Bytes on a device by part: weights, master, gradients, optimizer, activations, error feedback's residuals."""
        d = self.design
        bytes_by_part = memory.memory_bytes(
            d.workload,
            d.precision,
            d.traffic,
            self.batch,
            self.cluster.devices,
            optimizer=d.optimizer,
            sharded=d.sharded,
        )
        return {part: float(nbytes) for part, nbytes in bytes_by_part.items()}

    @property
    def memory_bytes(self) -> float:
        """Bytes on a device, all parts together."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool | None:
        """Whether that is within the chip's memory; None where the chip's memory is unknown."""
        capacity = self.design.chip.memory_bytes
        return None if capacity is None else self.memory_bytes <= capacity

    def timeline(self, devices: int = 4) -> tuple[Event, ...]:
        """The events of the first ``devices`` devices: see :func:`lplab.hardware.timeline.timeline`."""
        return timeline(
            self.times,
            [layer.name for layer in self.design.workload.layers],
            self.design.traffic.kinds,
            devices=self.cluster.devices,
            shown=devices,
            straggler=self.cluster.straggler,
            overlap=self.overlap,
        )

    def layers(self) -> pd.DataFrame:
        """One row for each layer, in the order of the forward pass; needs pandas."""
        import pandas as pd

        times, traffic = self.times, self.design.traffic
        return pd.DataFrame(
            {
                "layer": [layer.name for layer in self.design.workload.layers],
                "forward_seconds": times.layer_forward[:, 0],
                "backward_seconds": (times.layer_backward - times.layer_compress)[:, 0],
                "compress_seconds": times.layer_compress[:, 0],
                "payload_bytes": traffic.payload_bytes.sum(axis=1),
                "bucket": times.bucket,
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """The result as a row: names, numbers with their units, memory by part."""
        d, c = self.design, self.cluster
        return {
            "workload": d.workload.name,
            "chip": d.chip.name,
            "devices": c.devices,
            "link": getattr(c.link, "name", c.link),
            "precision": d.precision.name,
            "compressor": "none" if d.compressor is None else repr(d.compressor),
            "batch": self.batch,
            "overlap": self.overlap,
            "sharded": d.sharded,
            **self._settings(),
            **{name: seconds.item() for name, seconds in self.times.summary().items()},
            "efficiency": self.efficiency,
            "throughput": self.throughput,
            "sent_bytes": self.sent_bytes,
            "memory_bytes": self.memory_bytes,
            "fits": self.fits,
            **{f"{part}_bytes": nbytes for part, nbytes in self.memory.items()},
        }

    def _settings(self) -> dict[str, Any]:
        """The settings that a sweep has columns of, besides those that are named first."""
        d, c = self.design, self.cluster
        names = ("bucket_bytes", "optimizer", "utilization", "fused", "fall_back", "measured_seconds")
        return {
            "algorithm": c.algorithm,
            "inner_link": getattr(c.inner_link, "name", c.inner_link),
            **{name: getattr(d, name) for name in names},
            "devices_per_node": c.devices_per_node,
            "straggler": c.straggler,
            "latency_seconds": getattr(c.link, "latency_seconds", None),
            "bytes_per_second": getattr(c.link, "bytes_per_second", None),
        }

    def to_frame(self) -> pd.DataFrame:
        """:meth:`to_dict` as a table of one row; needs pandas."""
        import pandas as pd

        return pd.DataFrame([self.to_dict()])


@named_settings(Design)
def simulate(
    workload: str | Workload,
    cluster: Cluster | str | Accelerator,
    *,
    precision: str | Precision = "bf16",
    compressor: str | Compressor | None = None,
    batch: int = 32,
    overlap: float = 1.0,
    bucket_bytes: float = BUCKET_BYTES,
    **design: Any,
) -> Simulation:
    """Simulate a step of training with the batch shared among devices.

    Args:
        workload: a name of ``workloads.names()``, or a Workload.
        cluster: a :class:`Cluster`; a chip stands for one device of it.
        precision: a name of ``precisions.names()`` that trains, or a Precision.
        compressor: of gradients, as it is typed ("topk:density=0.01"), or an object of :mod:`lplab.compression`.
        batch: examples on each device.
        overlap: how fast the network goes while devices compute: 1, undisturbed; 0, only after the backward pass.
        bucket_bytes: float32 gradient that is sent together, 25 MiB as in PyTorch; 0: each layer by itself; infinity:
            all together.
        **design: ``sharded``, ``optimizer``, ``utilization``, ``fused``, ``fall_back``, ``measured_seconds``: see
            :class:`lplab.hardware.step.Design`.

    Returns:
        The step's times, bytes, memory and timeline.

    Raises:
        ValueError: an unknown name, a batch below 1, an overlap outside 0 … 1, a chip without the rate.
        TypeError: a cluster that is none, or an unknown setting.

    >>> alone = simulate("resnet50", "h100", batch=64)
    >>> many = simulate("resnet50", Cluster("h100", 64, "ethernet_10g"), batch=64)
    >>> alone.efficiency, many.efficiency < 0.3
    (1.0, True)
    """
    if isinstance(cluster, str | Accelerator):
        cluster = Cluster(cluster)
    if not isinstance(cluster, Cluster):
        raise TypeError(f"a step is simulated on a Cluster, or on a chip, got {type(cluster).__name__}")
    for name, value in (("batch", batch), ("overlap", overlap)):
        if np.ndim(value):
            raise ValueError(f"simulate takes one {name}, got {value!r}; lplab.hardware.sweep takes several")
    design_point = Design(
        workloads.get(workload),
        cluster.chip,
        precisions.get(precision),
        compressor_of(compressor),
        bucket_bytes,
        **design,
    )
    times = step(design_point, cluster.fabric, cluster.devices, batch, overlap=overlap, straggler=cluster.straggler)
    return Simulation(design_point, cluster, int(batch), float(overlap), times)
