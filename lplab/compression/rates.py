"""How much smaller? As papers count, as payload, and on the wire: three answers that are never mixed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lplab.compression.exchange import Entry
from lplab.compression.protocol import Transfer


def wire_bytes(kind: str, payload_bytes: float, world: int) -> float:
    """Bytes that a learner sends for one collective, without headers, averaged over learners and leaders.

    Sum: ring all-reduce, 2·(n − 1)/n of the payload. Gather: its payload to each of the others, (n − 1) times.
    Broadcast: a ring or tree passes it n − 1 times in all, (n − 1)/n for each learner.

    Args:
        kind: "sum", "gather" or "broadcast".
        payload_bytes: of one learner; where they differ, the largest, as gathers are padded.
        world: learners, n.

    Raises:
        ValueError: an unknown kind, or no learners.

    >>> wire_bytes("sum", 1000, world=4), wire_bytes("gather", 1000, world=4), wire_bytes("broadcast", 1000, world=4)
    (1500.0, 3000.0, 750.0)
    """
    if world < 1:
        raise ValueError(f"world must be 1 or more, got {world}")
    factors = {"sum": 2 * (world - 1) / world, "gather": float(world - 1), "broadcast": (world - 1) / world}
    if kind not in factors:
        raise ValueError(f"unknown kind {kind!r} of collective; allowed: {', '.join(factors)}")
    return factors[kind] * payload_bytes


def sent_by_all(entries: Iterable[Entry], world: int) -> float:
    """Bytes that all learners together send for the collectives of a ledger, by :func:`wire_bytes`, unpadded.

    Args:
        entries: of all learners, or of some of them: parts add up.
        world: learners, n.

    >>> from lplab.compression import Entry
    >>> ranks = range(4)
    >>> sent_by_all([Entry(0, "w", "gather", rank, 100) for rank in ranks], 4)
    1200.0
    >>> sent_by_all([Entry(0, "w", "sum", rank, 100) for rank in ranks] + [Entry(0, "w", "broadcast", 1, 10)], 4)
    630.0
    """
    return sum(
        wire_bytes(entry.kind, entry.payload_bytes, world) * (world if entry.kind == "broadcast" else 1)
        for entry in entries
    )


@dataclass(frozen=True)
class Rates:
    """Sizes of one step of one tensor against float32.

    Attributes:
        paper: 4·numel over the bytes that the algorithm's paper counts: AdaComp's elements without scale and ends of
            bins, ScaleCom's values without their places. As ``payload`` where a paper counts no other way.
        payload: 4·numel over the bytes that a learner packs, the leader's share of a broadcast included.
        wire: bytes on the wire of a dense all-reduce over those of this step.
    """

    paper: float
    payload: float
    wire: float


def rates(transfers: Iterable[Transfer], numel: int, world: int) -> Rates:
    """The rates of a plan.

    >>> rates([Transfer("gather", 80)], numel=1000, world=2)
    Rates(paper=50.0, payload=50.0, wire=50.0)
    >>> rates([Transfer("gather", 80, paper_bytes=40)], numel=1000, world=8)  # a gather grows with the learners
    Rates(paper=100.0, payload=50.0, wire=12.5)
    """
    transfers = tuple(transfers)
    payload = sum(t.payload_bytes / _senders(t, world) for t in transfers)
    paper = sum((t.payload_bytes if t.paper_bytes is None else t.paper_bytes) / _senders(t, world) for t in transfers)
    sent = sum(wire_bytes(t.kind, t.payload_bytes, world) for t in transfers)
    dense = wire_bytes("sum", 4 * numel, world)
    return Rates(_over(4 * numel, paper), _over(4 * numel, payload), _over(dense, sent))


def _senders(transfer: Transfer, world: int) -> int:
    """Learners among whom a payload is counted: the leader's is that of all."""
    return world if transfer.kind == "broadcast" else 1


def _over(dense: float, sent: float) -> float:
    """Infinite if nothing is sent; NaN for one learner, who has nobody to send to."""
    if sent:
        return dense / sent
    return float("inf") if dense else float("nan")


def adacomp_paper_rate(bin: int, sent_per_bin: float) -> float:
    """As AdaComp's paper counts: 8 bits for each element sent in bins of up to 63, else 16; no scale, no ends of bins.

    >>> adacomp_paper_rate(50, 5), adacomp_paper_rate(500, 5)
    (40.0, 200.0)
    """
    return 32 * bin / (sent_per_bin * (8 if bin < 64 else 16))


def entropy_bound(density: float, bits_per_value: float = 1.0) -> float:
    """Bits an element needs at least if a share ``density`` is sent, each anywhere, with so many bits for its value.

    H2(q) + q·bits: the entropy of independent choices, and the values.

    >>> round(32 / entropy_bound(0.01)), round(32 / entropy_bound(0.1))
    (352, 56)
    """
    if not 0 <= density <= 1:
        raise ValueError(f"density must be from 0 to 1, got {density}")
    shares = np.array([s for s in (density, 1 - density) if s > 0])
    return float(-(shares * np.log2(shares)).sum() + density * bits_per_value)


def build_up(density: float, learners: int) -> float:
    """The share of a vector that the union of n independent masks fills: 1 − (1 − q)^n.

    >>> round(build_up(1 / 112, 64), 3)
    0.437
    """
    return 1 - (1 - density) ** learners
