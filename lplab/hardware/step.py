"""Times of one training step on a cluster, for one design or thousands at once.

Forward pass, backward pass (with the compressor's work, layer by layer), transfers that overlap with it, exposed
transfers, update, and with sharded optimizers the gathering of new weights. All times are of the slowest device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lplab.checks import check_fields
from lplab.compression import Compressor
from lplab.hardware import compute, precisions
from lplab.hardware.accelerators import Accelerator
from lplab.hardware.memory import OPTIMIZERS
from lplab.hardware.network.all_reduce_algorithms import checked_ranks, checked_straggler
from lplab.hardware.network.fabric import Fabric
from lplab.hardware.network.links import Floats
from lplab.hardware.overlap import BUCKET_BYTES, buckets, exposed_seconds, ready_seconds
from lplab.hardware.precisions import Precision
from lplab.hardware.traffic import Traffic, traffic
from lplab.hardware.workloads import Workload
from lplab.hardware.workloads.workload import checked_batch

COMPRESS_PASSES = 5  # assumed: read gradient and residual, select, write the message and the new residual
ADD_PASSES = 3  # adding a byte to another: two are read, one is written


@dataclass(frozen=True)
class Design:
    """The settings that are the same for all points of an array.

    Attributes:
        workload, chip, precision, compressor: what is trained, on what, and how.
        bucket_bytes: bytes of gradients that are sent together; 0: each layer by itself; infinity: all together.
        sharded: whether each device updates one part of the weights and gathers the others' parts.
        optimizer: a name of ``memory.OPTIMIZERS``.
        utilization, fused, fall_back: how the chip computes, as for :func:`lplab.hardware.compute.layer_times`.
        measured_seconds: a measured time of forward and backward pass on one device; the model then only distributes it
            over the layers.

    Raises:
        ValueError: a precision for inference, an unknown optimizer, a negative time, a setting of another type.
    """

    workload: Workload
    chip: Accelerator
    precision: Precision
    compressor: Compressor | None = None
    bucket_bytes: float = BUCKET_BYTES
    sharded: bool = False
    optimizer: str = "momentum"
    utilization: float | str = 1.0
    fused: bool = False
    fall_back: bool = False
    measured_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("sharded", "fused", "fall_back"):
            if not isinstance(value := getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name} must be True or False, got {value!r}")
        check_fields(self, "bucket_bytes", *["measured_seconds"] * (self.measured_seconds is not None))
        precisions.training(self.precision)
        if self.measured_seconds is not None and not 0 < self.measured_seconds < np.inf:
            raise ValueError(f"measured_seconds must be above 0, got {self.measured_seconds}")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"unknown optimizer {self.optimizer!r}; allowed: {', '.join(OPTIMIZERS)}")

    @property
    def traffic(self) -> Traffic:
        """What learners send to each other in a step, by layer."""
        return traffic(self.workload, self.precision, self.compressor)

    @property
    def weight_bytes(self) -> float:
        """Bytes of all weights in the format in which learners send them to each other."""
        return self.workload.parameters * self.precision.weight_wire_bits / 8

    def sent_bytes(self, devices: Floats) -> np.ndarray:
        """Bytes that a device sends in a step with ring algorithms, on average: float64 of the shape of ``devices``."""
        p = checked_ranks(devices)
        weights = self.weight_bytes * (p - 1) / p if self.sharded else 0.0
        return self.traffic.sent_bytes(p, halved=self.sharded) + weights

    @property
    def seconds_per_byte(self) -> float:
        """Seconds in which the chip's memory moves one byte; 0 where its bandwidth is unknown."""
        bandwidth = self.chip.memory_bytes_per_second
        return 0.0 if bandwidth is None else 1 / bandwidth


@dataclass(frozen=True)
class StepTimes:
    """The times of one step in seconds: [points] each, or [layers, points], [requests, buckets, points].

    Attributes:
        layer_forward: forward pass of each layer on the slowest device: [layers, points].
        layer_backward: backward pass of each layer on the slowest device, with the compressor's work.
        layer_compress: the compressor's work in ``layer_backward``.
        bucket: the number of each layer's bucket, in the order of sending: int [layers].
        request_seconds: the collectives of each bucket, one after the other: "all_reduce", "all_gather", "broadcast".
        ready_seconds: when each bucket is complete, from the start of the backward pass: [buckets, points].
        exposed: time of the transfers after the end of the backward pass.
        update: the update of the weights.
        weights: the gathering of new weights, with sharded optimizers.
        single: the whole step of one device alone with the same batch.
    """

    layer_forward: np.ndarray
    layer_backward: np.ndarray
    layer_compress: np.ndarray
    bucket: np.ndarray
    request_seconds: np.ndarray
    ready_seconds: np.ndarray
    exposed: np.ndarray
    update: np.ndarray
    weights: np.ndarray
    single: np.ndarray

    @property
    def forward(self) -> np.ndarray:
        """Seconds of the forward pass, float64 [points]."""
        return self.layer_forward.sum(axis=0)

    @property
    def backward(self) -> np.ndarray:
        """Seconds of the backward pass and of the compressor's work in it, float64 [points]."""
        return self.layer_backward.sum(axis=0)

    @property
    def communication(self) -> np.ndarray:
        """Seconds of all transfers, hidden behind the backward pass or not, float64 [points]."""
        return self.request_seconds.sum(axis=(0, 1)) + self.weights

    @property
    def total(self) -> np.ndarray:
        """Seconds of the whole step, float64 [points]."""
        return self.forward + self.backward + self.exposed + self.update + self.weights

    def summary(self) -> dict[str, np.ndarray]:
        """The columns of a table of results: seconds by name, float64 [points] each."""
        return {
            "step_seconds": self.total,
            "single_seconds": self.single,
            "compute_seconds": self.forward + self.backward + self.update,
            "communication_seconds": self.communication,
            "exposed_seconds": self.exposed + self.weights,
        }


def step(
    design: Design,
    fabric: Fabric,
    devices: Floats,
    batch: Floats,
    *,
    overlap: Floats = 1.0,
    straggler: Floats = 0.0,
) -> StepTimes:
    """The times of a step in seconds, for one point or an array of points.

    Args:
        design: the settings that all points share.
        fabric: the network; its links' numbers may be arrays over points.
        devices: how many devices there are, over points.
        batch: examples on each device, over points.
        overlap: how fast the network goes while devices compute (see :func:`lplab.hardware.overlap.exposed_seconds`).
        straggler: by which share the slowest device is slower: 0.1 is 10 %.

    Raises:
        ValueError: no devices, a batch below 1, an overlap outside 0 … 1, a negative straggler.
    """
    p, b = np.broadcast_arrays(np.atleast_1d(checked_ranks(devices)), np.atleast_1d(checked_batch(batch)))
    forward, backward, update = _compute(design, b)
    single = forward.sum(axis=0) + backward.sum(axis=0) + update
    slow = 1 + checked_straggler(straggler) * (p > 1)
    sent, add = design.traffic, ADD_PASSES * design.seconds_per_byte
    compress = _compress(design, sent)[:, None] * (p > 1) * slow
    forward, backward = forward * slow, backward * slow + compress
    bucket = buckets(4.0 * _elements(design.workload), design.bucket_bytes)
    payloads = np.stack([np.bincount(bucket, weights=column) for column in sent.payload_bytes.T])[:, :, None]
    names = ["reduce_scatter" if design.sharded and kind == "all_reduce" else kind for kind in sent.kinds]
    requests = np.stack(
        [request_seconds(fabric, kind, nbytes, p, add) for kind, nbytes in zip(names, payloads, strict=True)]
    )
    ready = ready_seconds(backward, bucket)
    exposed = exposed_seconds(ready, requests.sum(axis=0), ready[-1], overlap)
    updates = update / (p if design.sharded else np.ones_like(p))
    weights = fabric.seconds("gather_shards", design.weight_bytes, p) if design.sharded else np.zeros_like(p)
    return StepTimes(forward, backward, compress, bucket, requests, ready, exposed, updates, weights, single)


def _compute(design: Design, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Seconds of the forward and the backward pass of each layer, float64 [layers, points], and of the update.

    Each batch is computed once.

    The table of layers counts one number of optimizer state; more or fewer are more or fewer passes over the memory.
    """
    sizes, where = np.unique(batch, return_inverse=True)
    of_chip = {"utilization": design.utilization, "fused": design.fused, "fall_back": design.fall_back}
    times = compute.layer_times(design.workload, design.chip, design.precision, sizes, **of_chip)  # type: ignore[arg-type]
    passes = times.forward_seconds, times.dx_seconds + times.dw_seconds
    forward, backward = (np.ascontiguousarray(seconds.T[:, where]) for seconds in passes)
    more = 2 * (OPTIMIZERS[design.optimizer] - 1) * design.precision.optimizer_bits / 8
    update = float(times.update_seconds.sum()) + more * design.workload.parameters * design.seconds_per_byte
    if design.measured_seconds is not None:
        scale = design.measured_seconds / (forward + backward).sum(axis=0)
        forward, backward = forward * scale, backward * scale
    return forward, backward, update


def request_seconds(fabric: Fabric, kind: str, nbytes: np.ndarray, p: np.ndarray, add: float) -> np.ndarray:
    """Seconds of one collective for each bucket: [buckets, points]; a bucket without bytes sends nothing."""
    seconds = fabric.seconds(kind, nbytes, p, add)
    if kind == "all_gather":
        seconds = seconds + p * nbytes * add * (p > 1)  # each device adds up the payloads of all
    return np.where(nbytes > 0, seconds, 0.0)


def _compress(design: Design, sent: Traffic) -> np.ndarray:
    """Seconds that the compressor works on each layer: passes over float32 values in memory."""
    return _elements(design.workload) * 4 * COMPRESS_PASSES * design.seconds_per_byte * sent.compressed


def _elements(workload: Workload) -> np.ndarray:
    columns = workload.columns
    return np.where(columns["shared"], 0.0, columns["weights"] * columns["count"])
