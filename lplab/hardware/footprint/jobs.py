"""A whole training as a job: time, bytes and energy of a step from the layers, times the number of steps.

The time that devices wait for the network is given as a share, since it depends on the cluster; to model a cluster use
`lplab.hardware.simulate`, whose result `energy` takes as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lplab.checks import check_above, check_at_least, check_fields
from lplab.hardware import accelerators, compute, precisions, workloads
from lplab.hardware.footprint.step_energy import Energy, Power, energy_of


@dataclass(frozen=True)
class Job:
    """A training on some devices, each with a part of the batch (or, for networks too large for one, of the network).

    Args:
        workload, chip: names.
        devices: how many.
        batch: examples of a device in a step.
        examples: of the whole training, each as often as it is used.
        utilization: share of its peak that a chip reaches in products.
        waiting: share of a step with 16-bit numbers during which devices wait for each other's gradients. Bytes are
            sent, and cost energy, whether anybody waits for them or not.
        compression: ratio by which messages are smaller.
        host_watts: of the machine around each device.

    Raises:
        ValueError: an unknown name or a number out of range.

    >>> job = Job("gpt3", "v100", devices=10_000, batch=1, examples=300e9 / 2048, utilization=0.2, host_watts=75)
    >>> 12 < job.hours("fp16_mixed") / 24 < 17
    True
    """

    workload: str
    chip: str
    devices: int = 1
    batch: int = 32
    examples: float = 1e6
    utilization: float = 0.4
    waiting: float = 0.0
    compression: float = 1.0
    host_watts: float = 0.0

    def __post_init__(self) -> None:
        workloads.get(self.workload)
        accelerators.get(self.chip)
        check_above(0, **check_fields(self, "utilization"))
        check_at_least(1, **check_fields(self, "devices", "batch", "compression"))
        check_at_least(0, **check_fields(self, "examples", "host_watts", "waiting"))
        if self.utilization > 1:
            raise ValueError(f"utilization must be at most 1, got {self.utilization}")
        if self.waiting >= 1:
            raise ValueError(f"waiting must be below 1, got {self.waiting}")

    @property
    def steps(self) -> float:
        """Steps of the whole training."""
        return self.examples / (self.devices * self.batch)

    def step(self, precision: str) -> Energy:
        """Energy of one step of all devices; `Energy.seconds` is its time.

        Gradients travel as the recipe says, in a ring: waiting grows and shrinks with their bytes. Where a network is
        split over devices, these send fewer gradients and more activations; they are counted as if it were not.
        """
        wire = precisions.training(precision).gradient_wire_bits / 16 / self.compression
        multiply, busy, moved = _one_device(self.workload, self.chip, precision, self.batch, self.utilization)
        wait = self.waiting / (1 - self.waiting) * self._busy_in_16_bits * wire
        sent = 2 * (self.devices - 1) / self.devices * 2.0 * workloads.get(self.workload).parameters * wire
        power = Power.of(self.chip, host_watts=self.host_watts)
        return energy_of(
            power,
            seconds=busy + wait,
            multiply_seconds=multiply,
            memory_bytes=moved,
            network_bytes=sent,
            devices=self.devices,
        )

    def total(self, precision: str) -> Energy:
        """Energy of the whole training."""
        return self.step(precision) * self.steps

    def hours(self, precision: str) -> float:
        """Hours of the whole training."""
        return self.total(precision).seconds / 3600

    @property
    def _busy_in_16_bits(self) -> float:
        return _one_device(self.workload, self.chip, "fp16_mixed", self.batch, self.utilization)[1]


@lru_cache(maxsize=512)
def _one_device(workload: str, chip: str, precision: str, batch: int, utilization: float) -> tuple[float, float, float]:
    """Seconds that the multipliers work, seconds of the step, bytes to and from memory; of one device alone."""
    times = compute.layer_times(workload, chip, precision, batch, utilization=utilization, fused=True, fall_back=True)
    bandwidth = times.accelerator.memory_bytes_per_second or np.inf
    passing = times.elementwise_seconds.sum() + times.conversion_seconds.sum() + times.update_seconds.sum()
    moved = times.nbytes.sum() + passing * bandwidth
    return float(times.compute_seconds.sum()), float(times.step_seconds), float(moved)
