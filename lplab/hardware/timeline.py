"""The events of one simulated step: when each device computes, reduces, gathers or idles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lplab.hardware.overlap import transfers
from lplab.hardware.step import StepTimes

COMPUTE, NETWORK = "compute", "network"
LANES = (COMPUTE, NETWORK)
"""Every device has two lanes: one computes, one sends."""
KINDS = ("forward", "backward", "compress", "reduce", "gather", "broadcast", "update", "idle")
_NAMES = {"all_reduce": "reduce", "all_gather": "gather", "broadcast": "broadcast"}


@dataclass(frozen=True)
class Event:
    """One interval of work, or of waiting, of a device.

    Attributes:
        device: from 0.
        lane: "compute" or "network".
        kind: one of :data:`KINDS`; "idle" is a device that waits for other devices or for the network.
        what: the name of the layer or bucket.
        start_seconds, end_seconds: from the start of the step.
    """

    device: int
    lane: str
    kind: str
    what: str
    start_seconds: float
    end_seconds: float


def timeline(
    times: StepTimes,
    layers: Sequence[str],
    kinds: Sequence[str],
    *,
    devices: int,
    shown: int = 4,
    straggler: float = 0.0,
    overlap: float = 1.0,
) -> tuple[Event, ...]:
    """The events of the first devices of a simulated step.

    With stragglers the speeds of all devices are spread evenly, device 0 the fastest, and of the devices shown the last
    one is the slowest of all. A collective begins when the slowest device has its bucket ready.

    Args:
        times: of the step, for a single point.
        layers: names of the layers, in the order of the forward pass.
        kinds: of each bucket's collectives, in their order: "all_reduce", "all_gather", "broadcast".
        devices: how many there are.
        shown: of how many to list the events, 1 or more; of all, if there are fewer.
        straggler: by how much the slowest device is slower.
        overlap: how fast the network goes while devices compute, 0 to 1.

    Raises:
        ValueError: no devices are shown.

    >>> from lplab.hardware import Cluster, simulate
    >>> events = simulate("resnet50", Cluster("h100", 8)).timeline(devices=2)
    >>> sorted({event.kind for event in events})
    ['backward', 'forward', 'idle', 'reduce', 'update']
    """
    if isinstance(shown, bool) or not isinstance(shown, int | np.integer) or shown < 1:
        raise ValueError(f"a timeline shows 1 device or more, got {shown!r}")
    count = min(shown, devices)
    if devices == 1:
        straggler = 0.0
    network = list(_network(times, kinds, overlap)) if devices > 1 else []
    events: list[Event] = []
    for device in range(count):
        share = device / (count - 1) if count > 1 else 1.0
        slow = (1 + straggler * share) / (1 + straggler)
        events += _computing(times, layers, device, slow)
        events += [Event(device, NETWORK, kind, what, start, end) for kind, what, start, end in network]
    return tuple(replace(e, start_seconds=float(e.start_seconds), end_seconds=float(e.end_seconds)) for e in events)


def _computing(times: StepTimes, layers: Sequence[str], device: int, slow: float) -> Iterator[Event]:
    """Forward and backward pass layer by layer, waiting, update; ``slow``: this device's time over the slowest's."""
    now = 0.0
    for name, seconds in zip(layers, times.layer_forward[:, 0], strict=True):
        if seconds:
            yield Event(device, COMPUTE, "forward", name, now, now := now + slow * seconds)
    for i in reversed(range(len(layers))):
        compress = times.layer_compress[i, 0]
        for kind, seconds in (("backward", times.layer_backward[i, 0] - compress), ("compress", compress)):
            if seconds:
                yield Event(device, COMPUTE, kind, layers[i], now, now := now + slow * seconds)
    back = (times.forward + times.backward + times.exposed).item()
    if back > now:
        yield Event(device, COMPUTE, "idle", "waits for gradients", now, back)
    now = back
    if times.update.item():
        yield Event(device, COMPUTE, "update", "weights", now, now := now + times.update.item())
    if times.weights.item():
        yield Event(device, COMPUTE, "idle", "waits for weights", now, times.total.item())


def _network(times: StepTimes, kinds: Sequence[str], overlap: float) -> Iterator[tuple[str, str, float, float]]:
    """Kind, what, start and end of every transfer; a bucket's collectives follow one another."""
    seconds, forward = times.request_seconds[:, :, 0], times.forward.item()
    starts, ends = transfers(times.ready_seconds[:, 0], seconds.sum(axis=0), times.ready_seconds[-1, 0], overlap)
    for k in range(seconds.shape[1]):
        whole = seconds[:, k].sum()
        edges = starts[k] + (ends[k] - starts[k]) * np.cumsum([0.0, *seconds[:, k]]) / (whole or 1.0)
        for kind, start, end in zip(kinds, edges[:-1], edges[1:], strict=True):
            if end > start:
                yield _NAMES[kind], f"bucket {k + 1}", forward + start, forward + end
    if times.weights.item():
        end = times.total.item()
        yield "gather", "new weights", end - times.weights.item(), end
