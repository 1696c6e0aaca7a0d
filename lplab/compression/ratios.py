"""Compression ratios counted in three ways that are never mixed: as in the paper, as payload, on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lplab.compression.compressor import Transfer
from lplab.compression.lockstep import Entry


def wire_bytes(kind: str, payload_bytes: float, world: int) -> float:
    """Bytes that a learner sends for one collective, without headers, averaged over learners and leaders.

    All-reduce: a ring, 2·(n − 1)/n of the payload. All-gather: the payload n − 1 times, once to each other
    learner. Broadcast: a ring or tree forwards it n − 1 times in total, (n − 1)/n for each learner.

    Args:
        kind: "all_reduce", "all_gather" or "broadcast".
        payload_bytes: of one learner; where they differ, the largest, since gathers are padded.
        world: learners, n.

    Raises:
        ValueError: an unknown kind, or no learners.

    >>> [wire_bytes(kind, 1000, world=4) for kind in ("all_reduce", "all_gather", "broadcast")]
    [1500.0, 3000.0, 750.0]
    """
    if world < 1:
        raise ValueError(f"world must be 1 or more, got {world}")
    factors = {"all_reduce": 2 * (world - 1) / world, "all_gather": float(world - 1), "broadcast": (world - 1) / world}
    if kind not in factors:
        raise ValueError(f"unknown kind {kind!r} of collective; allowed: {', '.join(factors)}")
    return factors[kind] * payload_bytes


def total_wire_bytes(entries: Iterable[Entry], world: int, ordered: bool = False) -> float:
    """Bytes that all learners together send for the collectives of a traffic log, by :func:`wire_bytes`, unpadded.

    Args:
        entries: of all learners, or of some of them; results of parts can be added.
        world: learners, n.
        ordered: whether each learner sends the values of a sum to every other one, as with ``ddp_hook(ordered=True)``.

    >>> from lplab.compression import Entry
    >>> sums = [Entry(0, "w", "all_reduce", rank, 100) for rank in range(4)]
    >>> total_wire_bytes(sums[:1], 4), total_wire_bytes(sums[:1], 4, ordered=True)
    (150.0, 300.0)
    >>> total_wire_bytes([Entry(0, "w", "all_gather", rank, 100) for rank in range(4)], 4)
    1200.0
    >>> total_wire_bytes([*sums, Entry(0, "w", "broadcast", 1, 10)], 4)
    630.0
    """
    return sum(
        wire_bytes("all_gather" if ordered and entry.kind == "all_reduce" else entry.kind, entry.payload_bytes, world)
        * (world if entry.kind == "broadcast" else 1)
        for entry in entries
    )


@dataclass(frozen=True)
class CompressionRatios:
    """How many times smaller than float32 one step of one tensor is.

    Attributes:
        paper: 4·numel over the bytes that the algorithm's paper counts: AdaComp's elements without scale and codes of
            empty bins, ScaleCom's values without their indices. Equal to ``payload`` where the paper counts all.
        payload: 4·numel over the bytes that a learner packs, including 1/n of the leader's broadcast.
        wire: bytes on the wire of a dense all-reduce over those of this step.
    """

    paper: float
    payload: float
    wire: float


def compression_ratios(transfers: Iterable[Transfer], numel: int, world: int) -> CompressionRatios:
    """The compression ratios of a plan.

    >>> compression_ratios([Transfer("all_gather", 80)], numel=1000, world=2)
    CompressionRatios(paper=50.0, payload=50.0, wire=50.0)
    >>> compression_ratios([Transfer("all_gather", 80, paper_bytes=40)], numel=1000, world=8)  # a gather grows with n
    CompressionRatios(paper=100.0, payload=50.0, wire=12.5)
    """
    transfers = tuple(transfers)
    payload = sum(t.payload_bytes / _senders(t, world) for t in transfers)
    paper = sum((t.payload_bytes if t.paper_bytes is None else t.paper_bytes) / _senders(t, world) for t in transfers)
    sent = sum(wire_bytes(t.kind, t.payload_bytes, world) for t in transfers)
    dense = wire_bytes("all_reduce", 4 * numel, world)
    return CompressionRatios(_over(4 * numel, paper), _over(4 * numel, payload), _over(dense, sent))


def _senders(transfer: Transfer, world: int) -> int:
    """Learners that share a payload: a broadcast is one payload for all."""
    return world if transfer.kind == "broadcast" else 1


def _over(dense: float, sent: float) -> float:
    """dense / sent; infinite if nothing is sent, NaN for a single learner, who sends nothing either way."""
    if sent:
        return dense / sent
    return float("inf") if dense else float("nan")


def adacomp_paper_ratio(bin: int, sent_per_bin: float) -> float:
    """The ratio as AdaComp's paper counts: 8 bits an element in bins of up to 63, else 16; no scale, no empty bins.

    >>> adacomp_paper_ratio(50, 5), adacomp_paper_ratio(500, 5)
    (40.0, 200.0)
    """
    return 32 * bin / (sent_per_bin * (8 if bin < 64 else 16))


def entropy_bound(density: float, bits_per_value: float = 1.0) -> float:
    """Lower bound on bits per element if each is sent independently with probability ``density``.

    H2(q) + q·bits_per_value: the entropy of the mask, and the values.

    >>> round(32 / entropy_bound(0.01)), round(32 / entropy_bound(0.1))
    (352, 56)
    """
    if not 0 <= density <= 1:
        raise ValueError(f"density must be from 0 to 1, got {density}")
    shares = np.array([s for s in (density, 1 - density) if s > 0])
    return float(-(shares * np.log2(shares)).sum() + density * bits_per_value)


def build_up(density: float, learners: int) -> float:
    """The share of a vector that is in the union of n independent masks: 1 − (1 − q)^n.

    >>> round(build_up(1 / 112, 64), 3)
    0.437
    """
    return 1 - (1 - density) ** learners
