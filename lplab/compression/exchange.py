"""Many learners in one process: run their generators in lockstep, compute their collectives, log their traffic.

Values are summed in the order of ranks, from rank 0; a distributed run can use the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lplab.compression.compressor import (
    AllGather,
    AllReduce,
    Broadcast,
    Compressor,
    Context,
    NotFiniteError,
    Request,
    Steps,
    all_finite,
    ensure_finite,
    sum_of_ranks,
)
from lplab.compression.computed_gradients import ComputedGradients
from lplab.compression.state import LayerState
from lplab.compression.wire.values import bytes_per_value


@dataclass(frozen=True)
class Entry:
    """One line of the traffic log: the payload of one learner in one collective, in bytes."""

    step: int
    layer: str
    kind: str
    rank: int
    payload_bytes: int


@dataclass
class TrafficLog:
    """Everything that was sent, one entry for each payload; of older steps the sums alone, if ``keep`` is given.

    Attributes:
        entries: the recent ones.
        keep: how many entries are kept at least; there are never more than twice as many. None: all.
        older: payload bytes of the entries that are not kept, by layer, kind and rank.
        forgotten: the last step of which entries are not kept; None: no entry was dropped.

    >>> ledger = TrafficLog([Entry(0, "w", "gather", 0, 12), Entry(0, "w", "gather", 1, 20)])
    >>> ledger.total(rank=1)
    20
    >>> ledger = TrafficLog(keep=2)
    >>> for step in range(9):
    ...     ledger.append(Entry(step, "w", "sum", 0, 100))
    >>> len(ledger.entries), ledger.total(), ledger.total(step=8)
    (3, 900, 100)
    """

    entries: list[Entry] = field(default_factory=list)
    keep: int | None = None
    older: dict[tuple[str, str, int], int] = field(default_factory=dict)
    forgotten: int | None = None

    def append(self, entry: Entry) -> None:
        """Add an entry; when there are twice as many as are kept, the older half becomes sums."""
        self.entries.append(entry)
        if self.keep is not None and len(self.entries) >= 2 * self.keep:
            for old in self.entries[: self.keep]:
                key = (old.layer, old.kind, old.rank)
                self.older[key] = self.older.get(key, 0) + old.payload_bytes
            self.forgotten = self.entries[self.keep - 1].step
            del self.entries[: self.keep]

    def clear(self) -> None:
        """Forget everything, sums included."""
        self.entries.clear()
        self.older.clear()
        self.forgotten = None

    def total(self, **where: Any) -> int:
        """The sum of payload bytes of the entries with these values of step, layer, kind or rank.

        Raises:
            ValueError: entries of this step are not kept any more.
        """
        if "step" in where and self.forgotten is not None and where["step"] <= self.forgotten:
            raise ValueError(
                f"entries up to step {self.forgotten} are kept as sums by layer, kind and rank alone; asked for step "
                f"{where['step']}: read it sooner"
            )
        everything = self.entries if "step" in where else self.with_older()
        if not where:
            return sum(e.payload_bytes for e in everything)
        return sum(e.payload_bytes for e in everything if all(getattr(e, k) == v for k, v in where.items()))

    def with_older(self) -> list[Entry]:
        """The recent entries, behind one of step -1 for each sum of older ones.

        >>> TrafficLog(older={("w", "sum", 0): 100}).with_older()
        [Entry(step=-1, layer='w', kind='sum', rank=0, payload_bytes=100)]
        """
        return [*(Entry(-1, *key, nbytes) for key, nbytes in self.older.items()), *self.entries]


@np.errstate(over="ignore", invalid="ignore")  # what overflows is found, and the step skipped
def exchange(
    compressor: Compressor,
    gradients: Sequence[np.ndarray],
    states: Sequence[LayerState],
    *,
    step: int = 0,
    layer: str = "",
    seed: int = 0,
    ledger: TrafficLog | None = None,
    overwrite: bool = False,
    in_place: bool = False,
) -> np.ndarray:
    """One step of one layer for all learners: the averaged gradient. The caller commits the states.

    Args:
        compressor: the algorithm.
        gradients: one for each learner, float32, of one shape; arrays, one array of all learners, or tensors on one
            device; or :class:`~lplab.compression.computed_gradients.ComputedGradients`.
        states: one for each learner, of :meth:`Compressor.init`; of :func:`tensors.tensor_state` for tensors.
        step, layer, seed: of the context.
        ledger: receives an entry for each payload.
        overwrite: whether the states may keep the memory of the gradients, which the caller then does not use again.
        in_place: whether the states may change at once, and the gradients be overwritten, because the caller has made
            sure that all gradients of the step are finite and no sum overflows, and does not roll back.

    Raises:
        ValueError: no learners, or the numbers of gradients and states differ.
        NotFiniteError: a gradient with NaN or infinity, or a sum that overflows; the caller rolls all states back.

    >>> from lplab.compression import TopK
    >>> topk = TopK(density=0.5)
    >>> states = [topk.init((2,)) for _ in range(2)]
    >>> exchange(topk, [np.array([4, 1], np.float32), np.array([0, 2], np.float32)], states)
    array([2., 1.], dtype=float32)
    """
    if not len(gradients) or len(gradients) != len(states):
        raise ValueError(f"one state for each gradient is needed, got {len(gradients)} gradients, {len(states)} states")
    world = len(gradients)
    if isinstance(gradients, ComputedGradients):
        overwrite = False  # their memory is that of the next block
    if isinstance(gradients, (np.ndarray, ComputedGradients)) or all(isinstance(g, np.ndarray) for g in gradients):
        done = compressor.together(gradients, states, Context(0, world, step, layer, seed, overwrite, in_place))
        if done is not None:
            if ledger is not None:
                for rank, kind, count in done[1]:
                    ledger.append(Entry(step, layer, kind, rank, count))
            return ensure_finite(done[0], "the average")
    arrays = gradients.arrays() if isinstance(gradients, ComputedGradients) else gradients
    if isinstance(arrays, np.ndarray):
        arrays = [arrays[rank, ...] for rank in range(world)]  # of a scalar parameter arrays, too, and no numbers
    contexts = [Context(rank, world, step, layer, seed, overwrite) for rank in range(world)]
    runs = [steps_of(compressor, g, s, c) for g, s, c in zip(arrays, states, contexts, strict=True)]
    return ensure_finite(run_in_lockstep(runs, contexts[0], ledger), "the average")


def steps_of(compressor: Compressor, gradient: Any, state: Any, context: Context) -> Steps:
    """The generator of a compressor for a gradient: an array, or a tensor with a state of tensors."""
    if isinstance(gradient, np.ndarray):
        return compressor.steps(gradient, state, context)
    from lplab.compression.tensors import tensor_steps  # it needs PyTorch

    return tensor_steps(compressor, gradient, state, context)


def run_in_lockstep(runs: Sequence[Steps], context: Context, ledger: TrafficLog | None = None) -> np.ndarray:
    """Run the generators of all learners to the end, one collective at a time; return the average of rank 0.

    The leader of the step begins: what it broadcasts, each of the others receives as soon as it asks, while its
    gradient is in the cache.
    """
    leader, result = context.leader, None
    while True:
        first = _next(runs[leader], result)
        if isinstance(first, Broadcast) and first.source == leader:
            received = first.finish(first.payload)  # type: ignore[arg-type]  # its source has the payload
            requests = []
            for rank, run in enumerate(runs):
                if rank != leader:
                    _check_kinds((first, _next(run, result)))
                requests.append(_next(run, received))
            _log(enumerate([first], leader), context, ledger)
        else:
            requests = [first if rank == leader else _next(run, result) for rank, run in enumerate(runs)]
        _check_kinds(requests)
        if isinstance(requests[0], _End):
            return requests[0].average
        result = collective_result(requests)
        _log(enumerate(requests), context, ledger)


@dataclass(frozen=True, eq=False)
class _End:
    """A generator has ended."""

    average: Any


def _next(run: Steps, result: Any) -> Any:
    """The next request of a learner, or its end."""
    try:
        return run.send(result)
    except StopIteration as stop:
        return _End(stop.value)


def _check_kinds(requests: Sequence[Any]) -> None:
    """Refuse requests of learners for different collectives."""
    kind = type(requests[0])
    if any(type(request) is not kind for request in requests):
        names = sorted({"nothing" if isinstance(r, _End) else type(r).__name__ for r in requests})
        raise RuntimeError(f"the learners request different collectives: {', '.join(names)}")


def _log(requests: Iterable[tuple[int, Request]], context: Context, ledger: TrafficLog | None) -> None:
    """An entry for each rank that sends something."""
    if ledger is not None:
        sizes = [(rank, request.kind, payload_bytes(request)) for rank, request in requests]
        entries = [Entry(context.step, context.layer, kind, rank, n) for rank, kind, n in sizes if n is not None]
        ledger.entries += entries


def collective_result(requests: Sequence[Request]) -> Any:
    """The result of a collective, from the requests in the order of ranks.

    Raises:
        NotFiniteError: a sum that is not finite.
    """
    first = requests[0]
    if isinstance(first, Broadcast):
        return first.finish(requests[first.source].payload)  # type: ignore[union-attr,arg-type]
    if isinstance(first, AllGather):
        return first.finish([request.payload for request in requests])  # type: ignore[union-attr,misc]
    total = sum_of_ranks([request.values for request in requests])  # type: ignore[union-attr]
    if not all_finite(total):
        raise NotFiniteError(f"a sum over {len(requests)} learners is too large for float32")
    return first.finish(total)


def payload_bytes(request: Request) -> int | None:
    """The payload size of a request in bytes; None for a learner that only receives."""
    if isinstance(request, AllReduce):
        return len(request.values) * bytes_per_value(request.wire)
    return None if request.payload is None else len(request.payload)
