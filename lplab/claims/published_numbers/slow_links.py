"""Published ratios and utilizations of training across slow links: rows T54 to T57."""

from __future__ import annotations

from math import inf

from lplab.claims.published_numbers.published_number import Published
from lplab.compression import SparseLoCo
from lplab.hardware import Cluster, Link, network, simulate_local_steps

COVENANT = "the 72-billion run, arXiv 2603.08163 (second-hand)"
INTELLECT = "Jaghouar et al. 2024, INTELLECT-1, abstract"
RECALLED = "The seconds are recalled."
SIDE = 4096  # of a square matrix


def message_bytes(weights: float) -> float:
    """Bytes of a SparseLoCo message about so many weights in large matrices."""
    [transfer] = SparseLoCo().plan((SIDE, SIDE))
    return weights / SIDE**2 * transfer.payload_bytes


def utilization(steps_seconds: float, transfer_seconds: float, every: int = 30) -> float:
    """Per cent of the time in which learners compute that wait for each transfer, by the simulator.

    >>> round(utilization(90, 10), 1)
    90.0
    """
    # Two learners, whose ring has two messages; what they send takes the latency alone.
    cluster = Cluster("h100", 2, Link(transfer_seconds / 2, inf), "ring")
    return 100 * simulate_local_steps("gpt", cluster, every=every, measured_seconds=steps_seconds / every).efficiency


ROWS: tuple[Published, ...] = (
    Published("T54", "SparseLoCo's ratio against float32", "64 of 4,096 sent, 12 bits a position, 2 bits a value", 146,
              "×", "at least", 0, "B", "Sarfi et al. 2025 (second-hand)", lambda: 4 * SIDE**2 / message_bytes(SIDE**2),
              "Against 16 bits it is half of that; six of seven bits are positions."),
    Published("T55a", "utilization of a run over home connections", "20 learners; 20 minutes of steps, 70 s of sending",
              94.5, "%", "absolute", 0.1, "A", COVENANT, lambda: utilization(20 * 60, 70)),
    Published("T55b", "the 70 s themselves", "20 learners with 500 Mb/s, 72·10⁹ weights, every message to all", 70, "s",
              "relative", 20, "C", COVENANT,
              lambda: float(network.all_gather_seconds(20, message_bytes(72e9), "home_500m")),
              "In 70 s a learner receives two of the other 19 messages at this rate. What we could read does not say "
              "how the others arrive."),
    Published("T56", "utilization over two continents", "OpenDiLoCo: a billion weights, 16-bit pseudo-gradients", 90,
              "%", "at least", 0, "B", "Jaghouar et al. 2024, OpenDiLoCo, abstract (90 to 95 %)",
              untestable="The abstract gives neither the bandwidth nor the time of the steps between two meetings."),
    Published("T57a", "utilization over the United States", "100 steps in 38 minutes, then an all-reduce of 103 s", 96,
              "%", "absolute", 0.5, "B", INTELLECT, lambda: utilization(38 * 60, 103, 100), RECALLED),
    Published("T57b", "utilization over three continents", "100 steps in 38 minutes, then an all-reduce of 469 s", 83,
              "%", "absolute", 0.5, "B", INTELLECT, lambda: utilization(38 * 60, 469, 100), RECALLED),
)  # fmt: skip
"""Rows of the table; each computes our value when it is asked."""
