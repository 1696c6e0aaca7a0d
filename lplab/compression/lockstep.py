"""Generators of compressors run in lockstep, one collective at a time, with a log of their traffic.

:func:`run_in_lockstep` is the only scheduler. :func:`exchange` runs one layer of all learners in this process. Between
processes (``parallel/process_group.py``) each rank runs all layers of a bucket for its own learner. In one process
values are summed in the order of ranks, from rank 0; a distributed run can use the same order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from lplab.compression.compressor import (
    AllReduce,
    Broadcast,
    Compressor,
    Context,
    NotFiniteError,
    Request,
    Steps,
    all_finite,
    sum_of_ranks,
)
from lplab.compression.computed_gradients import ComputedGradients, fit_a_block
from lplab.compression.layer_state import LayerState, StackedState
from lplab.compression.wire.values import BYTES_PER_VALUE


class Entry(NamedTuple):
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

    >>> ledger = TrafficLog([Entry(0, "w", "all_gather", 0, 12), Entry(0, "w", "all_gather", 1, 20)])
    >>> ledger.total(rank=1)
    20
    >>> ledger = TrafficLog(keep=2)
    >>> for step in range(9):
    ...     ledger.append(Entry(step, "w", "all_reduce", 0, 100))
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

        >>> TrafficLog(older={("w", "all_reduce", 0): 100}).with_older()
        [Entry(step=-1, layer='w', kind='all_reduce', rank=0, payload_bytes=100)]
        """
        return [*(Entry(-1, *key, nbytes) for key, nbytes in self.older.items()), *self.entries]


# What overflows is found, and the step skipped.
@np.errstate(over="ignore", invalid="ignore")
def exchange(
    compressor: Compressor,
    gradients: Sequence[Any],
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
    world, shape, leading = len(gradients), states[0].shape, range(0)
    if isinstance(gradients, ComputedGradients):
        # The memory of a block is that of the next block.
        overwrite = False
        if not compressor.takes_stacks:
            gradients = gradients.arrays()  # type: ignore[assignment]  # an array is a sequence, too
    if isinstance(gradients, np.ndarray):
        if compressor.takes_stacks and fit_a_block(gradients.nbytes):
            context = Context(0, world, step, layer, seed, overwrite, learners=world)
            run = compressor.steps(gradients, StackedState(states), context)
            return run_in_lockstep([LayerRuns(context, lambda _: run)], results_here, ledger)[0]
        # The ellipsis makes arrays, and no numbers, of the gradients of a scalar parameter.
        gradients = [gradients[rank, ...] for rank in range(world)]
    # A class that wraps another one may hand it values that the caller has not made sure of, such as a velocity.
    in_place &= compressor.takes_stacks
    if [transfer.kind for transfer in compressor.plan(shape)[:1]] == [Broadcast.kind]:
        leader = step % world
        leading = gradients.block_of(leader) if isinstance(gradients, ComputedGradients) else range(leader, leader + 1)

    def begin(rank: int) -> Steps:
        context = Context(rank, world, step, layer, seed, overwrite, in_place)
        return steps_of(compressor, gradients[rank], states[rank], context)

    return run_in_lockstep([LayerRuns(Context(0, world, step, layer), begin, world, leading)], results_here, ledger)[0]


def steps_of(compressor: Compressor, gradient: Any, state: Any, context: Context) -> Steps:
    """The generator of a compressor for a gradient: an array, or a tensor with a state of tensors."""
    if isinstance(gradient, np.ndarray):
        return compressor.steps(gradient, state, context)
    # The module needs PyTorch.
    from lplab.compression.tensors import tensor_steps

    return tensor_steps(compressor, gradient, state, context)


class LayerRuns:
    """The generators of one layer: of all learners in this process, or of the only one.

    Args:
        context: of the first learner.
        begin: makes the generator of a number from 0 on: one for each learner, in the order of ranks; or one alone, of
            all of them (:attr:`Compressor.takes_stacks`).
        count: how many generators there are.
        leading: the numbers of those that go on before the others: that of the step's leader, and those whose gradients
            are computed together with the leader's. Empty where no leader broadcasts, or it may be elsewhere.
    """

    def __init__(
        self, context: Context, begin: Callable[[int], Steps], count: int = 1, leading: range = range(0)
    ) -> None:
        self.context, self.begin, self.count, self.leading = context, begin, count, leading
        self._runs: list[Steps | None] = [None] * count

    def requests(self, result: Any, ledger: TrafficLog | None) -> Iterator[Any]:
        """What each generator requests next, or its end, in the order of ranks. A generator goes on when it is read.

        What the leader broadcasts, each of the others receives as soon as it asks, while its gradient is in the cache:
        then the request is the one after that.

        Args:
            result: of the last request, for all generators; None at first.
            ledger: receives an entry for each payload.

        Raises:
            NotFiniteError: by a generator that has requested nothing yet.
            RuntimeError: a generator requests another collective than those before it; or it raises NotFiniteError
                later.
        """
        broadcast: Broadcast | None = None
        received: Any = None

        def go_on(number: int) -> Any:
            request = self._next(number, result)
            if broadcast is None:
                return request
            if type(request) is not Broadcast:
                raise _different(broadcast, request)
            return self._next(number, received)

        early: dict[int, Any] = {}
        if self.leading:
            leader = self.context.leader
            request = early[leader] = self._next(leader, result)
            if isinstance(request, Broadcast) and request.source == leader:
                broadcast = request
                if ledger is not None:
                    self._log(leader, broadcast, ledger)
                received = broadcast.finish(broadcast.payload)  # type: ignore[arg-type]  # its source has the payload
                early[leader] = self._next(leader, received)
            early |= {number: go_on(number) for number in self.leading if number != leader}
        first: Any = None
        for number in range(self.count):
            request = early.pop(number) if number in early else go_on(number)
            if first is None:
                first = request
            elif type(request) is not type(first):
                raise _different(first, request)
            if ledger is not None and not isinstance(request, _End):
                self._log(number, request, ledger)
            yield request

    def _next(self, number: int, result: Any) -> Any:
        """The next request of a generator, or its end."""
        run = self._runs[number]
        if run is None:
            run = self._runs[number] = self.begin(number)
        try:
            return run.send(result)
        except StopIteration as stop:
            return _End(stop.value)
        except NotFiniteError as problem:
            problem.layer = self.context.layer
            if result is None:
                raise
            late = "raised after the first request, when the other learners no longer skip the step"
            raise RuntimeError(f"{problem.layer}: {problem} ({late})") from problem

    def _log(self, number: int, request: Request, ledger: TrafficLog) -> None:
        """An entry for each learner that sends something."""
        nbytes, context = payload_bytes(request), self.context
        if nbytes is not None:
            first = request.source if isinstance(request, Broadcast) else context.rank + number
            last = first if isinstance(request, Broadcast) else first + context.learners - 1
            for rank in range(first, last + 1):
                ledger.append(Entry(context.step, context.layer, request.kind, rank, nbytes))


class _End:
    """The end of a generator, with the average that it returned."""

    def __init__(self, average: Any) -> None:
        self.average = average


def _different(*requests: Any) -> RuntimeError:
    """The error of learners that do not request the same collective."""
    names = sorted({"nothing" if isinstance(r, _End) else type(r).__name__ for r in requests})
    return RuntimeError(f"the learners request different collectives: {', '.join(names)}")


Perform = Callable[[Sequence[Iterable[Request]]], Sequence[Any]]


def run_in_lockstep(layers: Sequence[LayerRuns], perform: Perform, ledger: TrafficLog | None = None) -> list[Any]:
    """Run the generators of some layers to their ends, one collective of each layer at a time.

    Args:
        layers: with generators of the same algorithms on all ranks.
        perform: a function of the requests of each layer that goes on, to be read in turn; it returns their results. It
            is called at least once, after each layer has begun.
        ledger: receives an entry for each payload.

    Returns:
        The average of each layer, that of its first generator.

    Raises:
        NotFiniteError: by a generator before its first request, or by ``perform``; or an average is not finite.
        RuntimeError: the generators of a layer request different collectives, or raise NotFiniteError later.
    """
    averages: list[Any] = [None] * len(layers)
    results: dict[int, Any] = dict.fromkeys(range(len(layers)))
    begun = False
    while results:
        waiting = {}
        for i, result in results.items():
            requests = layers[i].requests(result, ledger)
            first = next(requests)
            if isinstance(first, _End):
                averages[i] = first.average
                # The other generators end, too.
                deque(requests, maxlen=0)
            else:
                waiting[i] = chain((first,), requests)
        ended, begun = begun and not waiting, True
        results = {} if ended else dict(zip(waiting, perform([*waiting.values()]), strict=True))
    for layer, average in zip(layers, averages, strict=True):
        if not all_finite(average):
            raise NotFiniteError(f"an average over {layer.context.world} learners is too large for float32")
    return averages


def results_here(layers: Sequence[Iterable[Request]]) -> list[Any]:
    """The ``perform`` of :func:`run_in_lockstep` where all learners are in this process."""
    return [collective_result(requests) for requests in layers]


def collective_result(requests: Iterable[Request]) -> Any:
    """The result of a collective, from the requests in the order of ranks, which are read once.

    Raises:
        NotFiniteError: a sum that is not finite.
    """
    requests = iter(requests)
    first = next(requests)
    if isinstance(first, AllReduce):
        stacks = (request.values for request in chain((first,), requests))  # type: ignore[union-attr]
        total = sum_of_ranks(row for stack in stacks for row in (stack if stack.ndim > 1 else (stack,)))
        if not all_finite(total):
            raise NotFiniteError("a sum over the learners is too large for float32")
        return first.finish(total)
    payloads = [request.payload for request in (first, *requests) if request.payload is not None]  # type: ignore[union-attr]
    return first.finish(payloads[0] if isinstance(first, Broadcast) else payloads)  # type: ignore[arg-type]


def payload_bytes(request: Request) -> int | None:
    """The payload of one learner in bytes; None for a learner that only receives."""
    if isinstance(request, AllReduce):
        return request.values.shape[-1] * BYTES_PER_VALUE[request.wire]
    return None if request.payload is None else len(request.payload)
