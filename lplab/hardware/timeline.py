"""What devices do from moment to moment in one simulated step: compute, reduce, gather, idle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lplab.hardware import overlap

if TYPE_CHECKING:
    from lplab.hardware.simulation import Simulation

COMPUTE, NETWORK = "compute", "network"
LANES = (COMPUTE, NETWORK)
"""What a device has two of: a part that computes, and a part that sends."""
KINDS = ("forward", "backward", "compress", "reduce", "gather", "broadcast", "update", "idle")
_NAMES = {"sum": "reduce", "gather": "gather", "broadcast": "broadcast"}


@dataclass(frozen=True)
class Event:
    """Something that a device does.

    Attributes:
        device: from 0.
        lane: "compute" or "network".
        kind: one of :data:`KINDS`; "idle" is a device that waits for others or for the network.
        what: the layer, or the bucket.
        start_seconds, end_seconds: from the start of the step.
    """

    device: int
    lane: str
    kind: str
    what: str
    start_seconds: float
    end_seconds: float


def timeline(simulation: Simulation, devices: int = 4) -> tuple[Event, ...]:
    """The events of the first devices of a simulated step.

    With stragglers the speeds of all devices are spread evenly, device 0 the fastest, and of the devices shown the last
    one is the slowest of all. A collective begins when the slowest device has its bucket ready.

    Args:
        simulation: the step.
        devices: how many to show, 1 or more; those that there are, if there are fewer.

    Raises:
        ValueError: no devices.

    >>> from lplab.hardware import Cluster, simulate
    >>> events = simulate("resnet50", Cluster("h100", 8)).timeline(devices=2)
    >>> sorted({event.kind for event in events})
    ['backward', 'forward', 'idle', 'reduce', 'update']
    """
    if devices < 1:
        raise ValueError(f"a timeline shows 1 device or more, got {devices}")
    shown = min(devices, simulation.cluster.devices)
    straggler = simulation.cluster.straggler if simulation.cluster.devices > 1 else 0.0  # alone, nobody is slower
    network = list(_network(simulation))
    events: list[Event] = []
    for device in range(shown):
        share = device / (shown - 1) if shown > 1 else 1.0
        slow = (1 + straggler * share) / (1 + straggler)
        events += _computing(simulation, device, slow)
        events += [Event(device, NETWORK, kind, what, start, end) for kind, what, start, end in network]
    return tuple(replace(e, start_seconds=float(e.start_seconds), end_seconds=float(e.end_seconds)) for e in events)


def _computing(simulation: Simulation, device: int, slow: float) -> Iterator[Event]:
    """Forward and backward pass layer by layer, waiting, update; ``slow``: this device's time over the slowest's."""
    times, names = simulation.times, [layer.name for layer in simulation.design.workload.layers]
    now = 0.0
    for name, seconds in zip(names, times.layer_forward[:, 0], strict=True):
        if seconds:
            yield Event(device, COMPUTE, "forward", name, now, now := now + slow * seconds)
    for i in reversed(range(len(names))):
        compress = times.layer_compress[i, 0]
        for kind, seconds in (("backward", times.layer_backward[i, 0] - compress), ("compress", compress)):
            if seconds:
                yield Event(device, COMPUTE, kind, names[i], now, now := now + slow * seconds)
    back = (times.forward + times.backward + times.exposed).item()
    if back > now:
        yield Event(device, COMPUTE, "idle", "waits for gradients", now, back)
    now = back
    if times.update.item():
        yield Event(device, COMPUTE, "update", "weights", now, now := now + times.update.item())
    if times.weights.item():
        yield Event(device, COMPUTE, "idle", "waits for weights", now, simulation.step_seconds)


def _network(simulation: Simulation) -> Iterator[tuple[str, str, float, float]]:
    """Kind, what, start and end of every transfer; a bucket's collectives follow one another."""
    times, kinds = simulation.times, simulation.design.traffic.kinds
    seconds, forward = times.request_seconds[:, :, 0], times.forward.item()
    if simulation.cluster.devices == 1:
        return
    starts, ends = overlap.transfers(
        times.ready_seconds[:, 0], seconds.sum(axis=0), times.ready_seconds[-1, 0], simulation.overlap
    )
    for k in range(seconds.shape[1]):
        whole = seconds[:, k].sum()
        edges = starts[k] + (ends[k] - starts[k]) * np.cumsum([0.0, *seconds[:, k]]) / (whole or 1.0)
        for kind, start, end in zip(kinds, edges[:-1], edges[1:], strict=True):
            if end > start:
                yield _NAMES[kind], f"bucket {k + 1}", forward + start, forward + end
    if times.weights.item():
        end = simulation.step_seconds
        yield "gather", "new weights", end - times.weights.item(), end
