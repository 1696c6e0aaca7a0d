"""Meetings of processes through a store: who does not come in time, or dies, is left out, and the others go on.

Collectives of a process group wait for every rank, and fail for all when one is lost. Between processes that are far
apart, each rank instead writes its message to a store of torch.distributed, such as a ``TCPStore``, and reads those of
the others. SparseLoCo's learners meet in that way, too, through files in a cloud.

In each round

1. every rank writes whether it takes part. The first rank that has all answers it expects, or whose patience is over,
   writes the list of members. This list holds for all;
2. the members exchange the messages of their compressors, in the order of ranks, with the same bits as ``LocalSteps``.
   A rank that is no member reads along, and so has the average, too;
3. a rank that has read everything writes "done". A rank that misses a message writes "again". The first of these words
   holds for all: "again" repeats the round with those who then answer.

A rank that was left out writes that it comes to the next round, so that the others expect it.

This module needs PyTorch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from lplab.compression import Context, NotFiniteError, TrafficLog, arrays
from lplab.compression.compressor import AllReduce, Broadcast, Request
from lplab.compression.lockstep import LayerRuns, collective_result, run_in_lockstep, steps_of
from lplab.compression.wire.values import from_bytes
from lplab.parallel.compressor_states import CompressorStates

KEPT_ROUNDS = 8  # of messages in the store, for ranks that are late
PAUSE = 0.01  # seconds between two looks into the store
NOBODY = "nobody"
REFUSED, SENT = b"\0", b"\1"  # the first byte of a message; what is refused is not finite


@dataclass(frozen=True)
class Meeting:
    """What came of a round.

    Attributes:
        members: the ranks that took part.
        averages: float32, by layer; None if nobody took part, or something was not finite.
        sent: the messages of this rank.
    """

    members: tuple[int, ...]
    averages: dict[str, np.ndarray] | None
    sent: TrafficLog


class _Again(Exception):
    """The round is repeated, because a member's message is missing."""


class StoreMeetings:
    """The meetings of one rank.

    Args:
        store: of torch.distributed; all ranks use the same one.
        rank, world: this rank, and how many there are.
        patience: seconds that a rank waits for the others' answers, and for a message.

    Attributes:
        number: of the next round.
    """

    def __init__(self, store: Any, rank: int, world: int, patience: float) -> None:
        self.store, self.rank, self.world, self.patience = store, rank, world, patience
        self.number = 0
        self._expected = set(range(world))
        # What this rank has written, by round.
        self._written: deque[list[str]] = deque([[]])

    @property
    def decided(self) -> bool:
        """Whether the members of the next round are known already: then this rank is too late for it."""
        return bool(self.store.check([self._key(0, "members")]))

    def join(self, number: int) -> None:
        """Come to a later round next, and let the others expect this rank."""
        self.number = number
        self._announce()

    @np.errstate(over="ignore", invalid="ignore")
    def meet(
        self,
        states: CompressorStates,
        deltas: Mapping[str, np.ndarray] | None,
        seed: int,
        layers: Sequence[str] | None = None,
        step: int | None = None,
    ) -> Meeting:
        """Meet once; commits the states of a member, if the round is one.

        Args:
            states: of this rank.
            deltas: what this rank sends, float32, by layer; None to read along.
            seed: of the context, the same on all ranks.
            layers: that are met about; None: all.
            step: of the context; None: the number of the round.

        Raises:
            RuntimeError: this rank comes so late that the messages are not in the store any more.
        """
        names, step = list(states.compressors) if layers is None else layers, self.number if step is None else step
        for attempt in count():
            members = self._members(attempt, deltas is not None)
            sent = TrafficLog()
            try:
                averages = (
                    self._exchange(attempt, members, states, deltas, seed, names, step, sent) if members else None
                )
                if self._agree(self._key(attempt, "outcome"), "done") == "done":
                    break
            except _Again:
                pass
            states.rollback()
        if averages is not None and self.rank in members:
            states.commit()
        else:
            states.rollback()
            sent.clear()
        # Who has answered, if only to say no, comes again; who died in this round has not answered its last attempt.
        self._expected, self.number = self._answered(attempt), self.number + 1
        self._written.append([])
        if len(self._written) > KEPT_ROUNDS + 1:
            for key in self._written.popleft():
                self.store.delete_key(key)
        self._announce()
        return Meeting(members, averages, sent)

    def _members(self, attempt: int, takes_part: bool) -> tuple[int, ...]:
        """Write whether this rank takes part, and wait for the list of those who do."""
        self._write(self._key(attempt, "answer", self.rank), b"yes" if takes_part else b"no")
        end, decision = time.monotonic() + self.patience, self._key(attempt, "members")
        while not self.store.check([decision]):
            answered, coming = self._answered(attempt), self._ranks_with("comes")
            if self._expected | coming <= answered or time.monotonic() > end:
                here = [rank for rank in sorted(answered) if self._read(self._key(attempt, "answer", rank)) == b"yes"]
                self._agree(decision, ",".join(map(str, here)) or NOBODY)
            else:
                time.sleep(PAUSE)
        text = self._read(decision).decode()
        return () if text == NOBODY else tuple(map(int, text.split(",")))

    def _answered(self, attempt: int) -> set[int]:
        return self._ranks_with(attempt, "answer")

    def _ranks_with(self, *parts: Any) -> set[int]:
        """The ranks that have written something in this round."""
        return {rank for rank in range(self.world) if self.store.check([self._key(*parts, rank)])}

    def _exchange(
        self,
        attempt: int,
        members: tuple[int, ...],
        states: CompressorStates,
        deltas: Mapping[str, np.ndarray] | None,
        seed: int,
        names: Sequence[str],
        step: int,
        sent: TrafficLog,
    ) -> dict[str, np.ndarray] | None:
        """The averages over the members; None if something is not finite, as for all of them."""
        own = self.rank in members and deltas is not None
        layers = []
        for name in names:
            compressor, state = states.compressors[name], states.states[name]
            delta = deltas[name] if own and deltas is not None else np.zeros(state.shape, np.float32)
            context = Context(members.index(self.rank) if own else 0, len(members), step, name, seed)
            layers.append(LayerRuns(context, [steps_of(compressor, delta, state, context)].__getitem__))
        phases = count()
        begun = False

        def perform(waiting: Sequence[Iterable[Request]]) -> list[Any]:
            nonlocal begun
            begun, phase = True, next(phases)
            requests = [next(iter(of_layer)) for of_layer in waiting]
            if own:
                self._write(self._key(attempt, "message", phase, self.rank), SENT + packed(requests))
            messages = [self._message(attempt, phase, member) for member in members]
            if any(message[:1] == REFUSED for message in messages):
                raise NotFiniteError("what a member makes of its pseudo-gradient is not finite")
            columns = zip(*(unpacked(message[1:], len(requests)) for message in messages), strict=True)
            return [_result(request, column) for request, column in zip(requests, columns, strict=True)]

        log = TrafficLog()
        try:
            averages = run_in_lockstep(layers, perform, log)
        except NotFiniteError:
            if own and not begun:
                self._write(self._key(attempt, "message", 0, self.rank), REFUSED)
                # The round is over when all have sent, as for those who read this.
                for member in members:
                    self._message(attempt, 0, member)
            return None
        sent.entries += [entry._replace(rank=self.rank, step=self.number) for entry in log.entries]
        return dict(zip(names, averages, strict=True))

    def _message(self, attempt: int, phase: int, member: int) -> bytes:
        """A member's message, when it is there.

        Raises:
            _Again: it does not come in time, or other ranks have waited for one in vain.
            RuntimeError: the round is over, and its messages have been deleted.
        """
        key, outcome = self._key(attempt, "message", phase, member), self._key(attempt, "outcome")
        end = time.monotonic() + self.patience
        while not self.store.check([key]):
            if self.store.check([outcome]):
                if self._read(outcome) == b"again":
                    raise _Again
                if not self.store.check([key]):
                    raise RuntimeError(
                        f"rank {self.rank} comes too late to round {self.number}, whose messages are deleted: start it "
                        "from a checkpoint of another rank"
                    )
            elif time.monotonic() > end:
                self._agree(outcome, "again")
            else:
                time.sleep(PAUSE)
        return self._read(key)

    def _announce(self) -> None:
        self._write(self._key("comes", self.rank), b"yes")

    def _key(self, *parts: Any) -> str:
        return "/".join(map(str, ("lplab", self.number, *parts)))

    def _read(self, key: str) -> bytes:
        return bytes(self.store.get(key))

    def _write(self, key: str, value: bytes) -> None:
        self.store.set(key, value)
        self._written[-1].append(key)

    def _agree(self, key: str, word: str) -> str:
        """Write a word unless there is one; the word that holds."""
        return bytes(self.store.compare_set(key, "", word)).decode()


def packed(requests: Sequence[Request]) -> bytes:
    """What one rank sends for some layers: the lengths, 8 bytes each, little-endian, then the payloads.

    >>> from lplab.compression.compressor import AllGather
    >>> packed([AllGather(np.array([7, 8], np.uint8), len)]).hex()
    '02000000000000000708'
    """
    payloads: list[bytes] = []
    for request in requests:
        if isinstance(request, AllReduce):
            payloads.append(arrays.of(request.values).float_bytes(request.values, request.wire).tobytes())
        else:
            payloads.append(b"" if request.payload is None else request.payload.tobytes())
    return np.array([len(payload) for payload in payloads], "<u8").tobytes() + b"".join(payloads)


def unpacked(message: bytes, layers: int) -> list[np.ndarray]:
    """The payloads of :func:`packed`, uint8.

    Raises:
        ValueError: the message has another length than it says.

    >>> unpacked(bytes.fromhex("02000000000000000708"), layers=1)[0].tolist()
    [7, 8]
    """
    lengths = [int.from_bytes(message[8 * i : 8 * i + 8], "little") for i in range(layers)]
    if len(message) != 8 * layers + sum(lengths):
        raise ValueError(f"a message for {layers} layers is damaged: it has {len(message):,} bytes")
    return np.split(np.frombuffer(message, np.uint8)[8 * layers :], np.cumsum(lengths)[:-1])


def _result(request: Request, payloads: Sequence[np.ndarray]) -> Any:
    """The result of a collective, from the payloads of all members."""
    if isinstance(request, AllReduce):
        values = (from_bytes(payload, request.wire, len(request.values)) for payload in payloads)
        return collective_result([replace(request, values=one) for one in values])
    return request.finish(payloads[request.source] if isinstance(request, Broadcast) else payloads)  # type: ignore[arg-type]
