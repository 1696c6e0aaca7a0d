"""The energy of a simulated step, or of plain numbers: one function for both."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.hardware import compute
from lplab.hardware.footprint.step_energy import Energy, Power, energy_of
from lplab.hardware.simulation import Simulation


def energy(
    source: Simulation | Power, *, power: Power | None = None, host_watts: float = 0.0, **numbers: Any
) -> Energy:
    """Joules of a step by part, all devices together.

    Args:
        source: a simulated step; or the power of a device, with the numbers of `energy_of`.
        power: of a device of the simulation; by default shares of its chip's design power.
        host_watts: of the machine around each device of the simulation, where no ``power`` is given.
        **numbers: with a Power: ``seconds``, ``multiply_seconds``, ``memory_bytes``, ``network_bytes``, ``devices``.

    Raises:
        ValueError: numbers out of range, or a chip whose design power is unknown.
        TypeError: neither a Simulation nor a Power, or numbers beside a Simulation.

    >>> from lplab.hardware import Cluster, simulate
    >>> slow = simulate("resnet50", Cluster("v100", 64, "ethernet_10g"), batch=32, utilization=0.4, fall_back=True)
    >>> spent = energy(slow, host_watts=75)
    >>> max(spent.parts(), key=spent.parts().get)
    'static'
    >>> energy(Power(300.0, 50.0), seconds=2.0, multiply_seconds=1.0).joules
    400.0
    """
    if isinstance(source, Power):
        return energy_of(source, **numbers)
    if not isinstance(source, Simulation):
        raise TypeError(f"energy takes a Simulation or a Power, got {type(source).__name__}")
    if numbers:
        raise TypeError(f"a Simulation has its own numbers; {', '.join(numbers)} cannot be given beside it")
    drawn = power or Power.of(source.design.chip, host_watts=host_watts)
    multiply, moved = _of_device(source)
    return energy_of(
        drawn,
        seconds=source.step_seconds,
        multiply_seconds=min(multiply, source.step_seconds),
        memory_bytes=moved,
        network_bytes=source.sent_bytes,
        devices=source.cluster.devices,
    )


def _of_device(source: Simulation) -> tuple[float, float]:
    """Seconds that a device's multipliers work, and bytes to and from its memory, the compressor's included.

    Where the seconds of a step were measured, the multipliers' share of them is the model's.
    """
    design = source.design
    times = compute.layer_times(
        design.workload,
        design.chip,
        design.precision,
        source.batch,
        utilization=design.utilization,
        fused=design.fused,
        fall_back=design.fall_back,
    )
    bandwidth = design.chip.memory_bytes_per_second
    multiply = float(times.compute_seconds.sum())
    if design.measured_seconds is not None:
        multiply *= design.measured_seconds / float(times.seconds.sum())
    if bandwidth is None:
        return multiply, float(times.nbytes.sum())
    passing = times.elementwise_seconds.sum() + times.conversion_seconds.sum() + np.sum(source.times.layer_compress)
    passing += np.sum(source.times.update)
    return multiply, float(times.nbytes.sum() + passing * bandwidth)
