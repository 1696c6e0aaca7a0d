"""Many learners in one process: drives the generators in step, answers their requests, and keeps the ledger.

Sums are taken in the order of ranks, starting with rank 0: the order on which a real run can agree, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lplab.compression.protocol import Broadcast, Compressor, Context, Gather, Request, Steps, Sum
from lplab.compression.state import LayerState
from lplab.compression.values import bytes_per_value


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: what one learner put into one collective, in bytes of payload."""

    step: int
    layer: str
    kind: str
    rank: int
    payload_bytes: int


@dataclass
class Ledger:
    """All that was sent, line by line.

    >>> ledger = Ledger([Entry(0, "w", "gather", 0, 12), Entry(0, "w", "gather", 1, 20)])
    >>> ledger.total(rank=1)
    20
    """

    entries: list[Entry] = field(default_factory=list)

    def total(self, **where: Any) -> int:
        """The sum of payload bytes of the lines with these values of step, layer, kind or rank."""
        return sum(e.payload_bytes for e in self.entries if all(getattr(e, k) == v for k, v in where.items()))


def exchange(
    compressor: Compressor,
    gradients: Sequence[np.ndarray],
    states: Sequence[LayerState],
    *,
    step: int = 0,
    layer: str = "",
    seed: int = 0,
    ledger: Ledger | None = None,
) -> np.ndarray:
    """One step of one layer for all learners: the averaged gradient. What the states learned is still to be committed.

    Args:
        compressor: the algorithm.
        gradients: one for each learner, float32, of one shape.
        states: one for each learner, of :meth:`Compressor.init`.
        step, layer, seed: of the context.
        ledger: receives a line for each payload.

    Raises:
        ValueError: no learners, or other numbers of gradients and states.
        NotFiniteError: a gradient with NaN or infinity; the caller rolls all states back.

    >>> from lplab.compression import TopK
    >>> topk = TopK(density=0.5)
    >>> states = [topk.init((2,)) for _ in range(2)]
    >>> exchange(topk, [np.array([4, 1], np.float32), np.array([0, 2], np.float32)], states)
    array([2., 1.], dtype=float32)
    """
    if not gradients or len(gradients) != len(states):
        raise ValueError(f"one state for each gradient is needed, got {len(gradients)} gradients, {len(states)} states")
    world = len(gradients)
    contexts = [Context(rank, world, step, layer, seed) for rank in range(world)]
    runs = [compressor.steps(g, s, c) for g, s, c in zip(gradients, states, contexts, strict=True)]
    return drive(runs, contexts[0], ledger)


def drive(runs: Sequence[Steps], context: Context, ledger: Ledger | None = None) -> np.ndarray:
    """Run the generators of all learners in step until they return; the average, which all of them must agree on."""
    answer: Any = None
    while True:
        requests, results = _advance(runs, answer)
        if results:
            return results[0]
        answer = answer_to(requests)
        if ledger is not None:
            sizes = enumerate(map(payload_bytes, requests))
            kind = type(requests[0]).__name__.lower()
            ledger.entries += [Entry(context.step, context.layer, kind, r, n) for r, n in sizes if n is not None]


def _advance(runs: Sequence[Steps], answer: Any) -> tuple[list[Request], list[np.ndarray]]:
    """The next request of every learner, or their results."""
    requests, results = [], []
    for run in runs:
        try:
            requests.append(run.send(answer))
        except StopIteration as stop:
            results.append(stop.value)
    kinds = {type(request).__name__ for request in requests} | ({"nothing"} if results else set())
    if len(kinds) > 1:
        raise RuntimeError(f"the learners ask for different collectives: {', '.join(sorted(kinds))}")
    return requests, results


def answer_to(requests: Sequence[Request]) -> Any:
    """What all learners are told, from the requests in the order of ranks."""
    first = requests[0]
    if isinstance(first, Broadcast):
        return first.finish(requests[first.source].payload)  # type: ignore[union-attr,arg-type]
    if isinstance(first, Gather):
        return first.finish([request.payload for request in requests])  # type: ignore[union-attr,misc]
    total = first.values.copy()
    for request in requests[1:]:
        total += request.values  # type: ignore[union-attr]
    return first.finish(total)


def payload_bytes(request: Request) -> int | None:
    """The bytes of a request; None for a learner that only listens."""
    if isinstance(request, Sum):
        return request.values.size * bytes_per_value(request.wire)
    return None if request.payload is None else request.payload.size
