"""ScaleCom's model of performance, rebuilt: ResNet-50, servers, links of 32 GB/s, workers of 100 or 300 TFLOPS.

What could be read of the paper are speedups and the share of communication; bandwidth, batch sizes and servers are
recalled. A step is computing and then sending, nothing hidden. A worker computes at 80 % of its peak, and gradients go
in 16 bits where nothing compresses them; with 32 bits at the full peak the shares are far off.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from lplab.compression import ScaleCom
from lplab.compression.ratios import build_up
from lplab.hardware import amdahl, precisions, workloads
from lplab.hardware.accelerators import Accelerator
from lplab.hardware.network.fabric import Fabric
from lplab.hardware.network.links import Link
from lplab.hardware.step import Design, step

LINK = Link(0.0, 32e9)
UTILIZATION = 0.8
COMPRESSION_RATIO = 112  # elements for one that is sent
DENSE, SCALECOM, LOCAL = "dense", "ScaleCom", "local top-k"


@dataclass(frozen=True)
class Estimate:
    """Seconds of computing and of sending in one step."""

    compute_seconds: float
    send_seconds: float

    @property
    def share(self) -> float:
        """The share of the step that is sending."""
        return self.send_seconds / self.seconds

    @property
    def seconds(self) -> float:
        """Seconds of the step."""
        return self.compute_seconds + self.send_seconds


@cache
def estimate(
    scheme: str = DENSE,
    *,
    teras: float = 100.0,
    batch: int = 8,
    workers: int = 8,
    utilization: float = UTILIZATION,
    precision: str = "fp16_mixed",
) -> Estimate:
    """One step by the simulator of ``lplab.hardware``.

    Args:
        scheme: "dense", "ScaleCom" with one element of each 112 and FP32 values, or "local top-k" of the same ratio.
        teras: peak of a worker, 10¹² operations a second.
        batch: images of a worker.
        workers: how many.
        utilization: share of the peak that is reached.
        precision: says in how many bits a gradient travels that nothing compresses.

    >>> round(estimate().share, 2), round(estimate(batch=32).share, 2)
    (0.57, 0.25)
    """
    chip = Accelerator("worker", "a worker", {"fp16": utilization * teras * 1e12, "fp32": utilization * teras * 1e12})
    network = Fabric(LINK, algorithm="sharded_server")
    compressor = ScaleCom(chunk=COMPRESSION_RATIO, small="compressed") if scheme == SCALECOM else None
    design = Design(workloads.get("resnet50"), chip, precisions.get(precision), compressor)
    simulated = step(design, network, workers, batch, overlap=0.0)
    send = float(simulated.communication[0])
    if scheme == LOCAL:
        send = _local_seconds(workers)
    return Estimate(float(simulated.forward[0] + simulated.backward[0]), send)


def _local_seconds(workers: int) -> float:
    """Everybody sends its own largest elements; the server returns the union of all, at most the whole gradient."""
    elements = workloads.get("resnet50").parameters
    sent, value, index = elements / COMPRESSION_RATIO, 4, 4
    union = build_up(1 / COMPRESSION_RATIO, workers) * elements
    returned = min(union * (value + index), elements * value)
    return (sent * (value + index) + returned) / float(LINK.bytes_per_second)


def speedup(scheme: str = SCALECOM, **design: Any) -> float:
    """The speedup of a step against the dense one, everything else the same.

    >>> 1 < speedup(batch=32) < speedup(batch=8)
    True
    """
    dense, other = (estimate(which, **design) for which in (DENSE, scheme))
    return dense.seconds / other.seconds


def limit(share: float, faster: float = 1.0) -> float:
    """The speedup if nothing were sent, for a share of communication, after computing has become ``faster``.

    >>> [round(limit(share, faster), 2) for share in (0.56, 0.20) for faster in (1, 3)]
    [2.27, 4.82, 1.25, 1.75]
    """
    times = [(1 - share) / faster, share]
    return float(amdahl.speedup(times, [1.0, float("inf")]))
