"""Recorded trainings of learners that meet seldom: loss on the way and bytes sent, for lab 16."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np

from lplab.datasets import data_folder

ALONE, SYNCHRONOUS = "alone", "synchronous"
"""Recorded beside the meetings: one learner that never meets, and one that sees the sequences of four."""
DENSE, SMALL, FEW = "dense", "lowbit:format=e3m0", "sparseloco"
MEAN, NESTEROV = (1.0, 0.0), (0.7, 0.9)
LEARNERS, EVERY, RATES, MOMENTA = (2, 4, 8), (12, 60), (0.7, 1.0), (0.0, 0.5, 0.9)
CHUNKS, SHARES, BITS = (256, 4096), (16, 64, 256), (2, 8)


@dataclass(frozen=True)
class MeetingSetting:
    """How learners meet.

    Attributes:
        learners: how many.
        every: steps from one meeting to the next.
        rate, momentum: of the outer optimizer, SGD with Nesterov's momentum; 1 and 0 are the plain mean.
        sends: the compressor: :data:`DENSE`, :data:`SMALL` (4 bits a value), or :data:`FEW`.
        chunk, share, bits: of :data:`FEW`: elements of a chunk, of which one of so many is sent, and bits of a value.
        memory: whether what is not sent stays for later, in :data:`FEW`.

    >>> MeetingSetting().compressor, MeetingSetting(sends=FEW).compressor
    ('dense', 'sparseloco:chunk=4096,k=64,bits=2')
    """

    learners: int = 4
    every: int = 12
    rate: float = 1.0
    momentum: float = 0.0
    sends: str = DENSE
    chunk: int = 4096
    share: int = 64
    bits: int = 2
    memory: bool = True

    @property
    def compressor(self) -> str:
        """The compressor of the pseudo-gradients, as text."""
        if self.sends != FEW:
            return self.sends
        forgets = "" if self.memory else ",decay=0"
        return f"{FEW}:chunk={self.chunk},k={self.chunk // self.share},bits={self.bits}{forgets}"

    @property
    def name(self) -> str:
        """The name of the setting in the file."""
        outer = f"rate {self.rate:g}, momentum {self.momentum:g}"
        return f"{self.learners} learners, every {self.every}, {outer}, {self.compressor}"


RECORDED = tuple(
    dict.fromkeys(
        [
            MeetingSetting(),
            MeetingSetting(4, 12, *NESTEROV),
            MeetingSetting(sends=FEW),
            *(MeetingSetting(4, every, *outer) for outer in (MEAN, NESTEROV) for every in EVERY),
            MeetingSetting(sends=FEW, memory=False),
            *(MeetingSetting(rate=rate, momentum=momentum) for momentum in MOMENTA for rate in RATES),
            *(MeetingSetting(n, 12, *outer) for outer in (MEAN, NESTEROV) for n in LEARNERS),
            *(MeetingSetting(sends=FEW, share=share, bits=bits) for bits in BITS for share in SHARES),
            *(MeetingSetting(sends=FEW, chunk=256, share=share) for share in SHARES),
            *(MeetingSetting(4, 12, *outer, sends=SMALL) for outer in (NESTEROV, MEAN)),
            MeetingSetting(every=60, sends=FEW),
            MeetingSetting(4, 12, *NESTEROV, sends=FEW),
        ]
    )
)
"""Every way to meet that is recorded, the most wanted first."""


@dataclass(frozen=True, eq=False)
class MeetingRun:
    """What came of one training.

    Attributes:
        steps: int64 [looks], inner steps of a learner, from 0.
        losses: float64 [looks], of the shared weights on 32,768 test characters, in bits a character.
        sent_bytes: that one learner sent in all steps together.
    """

    steps: np.ndarray
    losses: np.ndarray
    sent_bytes: float

    @property
    def loss(self) -> float:
        """The loss at the end."""
        return float(self.losses[-1])

    @property
    def bytes_a_step(self) -> float:
        """Bytes that one learner sends, a step on average."""
        return self.sent_bytes / int(self.steps[-1])


@cache
def meeting_runs() -> MappingProxyType[str, MeetingRun]:
    """The runs by name (``data/record_meetings.py`` makes them again).

    >>> runs = meeting_runs()
    >>> runs["synchronous"].loss < runs[MeetingSetting().name].loss < runs["alone"].loss
    True
    """
    stored = json.loads((data_folder() / "meetings" / "transformer.json").read_text("utf-8"))
    return MappingProxyType({name: _run(found) for name, found in stored.items()})


def _run(found: dict[str, float]) -> MeetingRun:
    losses = {int(key.removeprefix("loss_")): loss for key, loss in found.items() if key.startswith("loss_")}
    steps = sorted(losses)
    return MeetingRun(np.array(steps), np.array([losses[step] for step in steps]), found["bytes"])
