"""What a way to meet costs: the bytes that a learner sends, counted from its messages, and what they are made of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lplab.exercises.capstone.scores import CostAxis

if TYPE_CHECKING:
    from lplab.parallel import LocalSteps

BUDGET = 109_312
"""Bytes: one thousandth of what a learner sends that adds a float32 gradient of 113,867 weights in each of 240 steps.
Fixed from the bytes alone, before any gap of the field was measured: SparseLoCo keeps it if it meets every 15 steps."""


@dataclass(frozen=True)
class MeetingTraffic:
    """What a learner sends in a training, the mean of all learners.

    Attributes:
        sent: bytes of all messages. Before the training is over, what they will be if the messages stay as long.
        positions: bytes of these that say which elements a message is about. 0 where all elements are sent, and where
            place and value share a word, as in AdaComp.
        meetings: how many there are.

    >>> MeetingTraffic.read(MeetingTraffic(92_192.0, 60_000.0, 16).line)
    MeetingTraffic(sent=92192.0, positions=60000.0, meetings=16.0)
    """

    AXES: ClassVar[tuple[CostAxis, ...]] = (CostAxis("bytes that a learner sends", "bytes sent", 0, BUDGET, True),)

    sent: float = 0.0
    positions: float = 0.0
    meetings: float = 0.0

    @property
    def keeps_budget(self) -> bool:
        """Whether the bytes are within :data:`BUDGET`."""
        return self.sent <= BUDGET

    @property
    def on_axes(self) -> tuple[float]:
        """The bytes."""
        return (self.sent,)

    @property
    def text(self) -> str:
        """The costs in words.

        >>> MeetingTraffic(92_192.0, 60_000.0, 16).text
        '92,192 bytes a learner in 16 meetings, of which 65 % say where'
        """
        where = f", of which {self.positions / self.sent:.0%}".replace("%", " % say where") if self.positions else ""
        return f"{self.sent:,.0f} bytes a learner in {self.meetings:.0f} meetings{where}"

    @property
    def over(self) -> str:
        """How far the bytes are above the budget, and what they are made of; "" if they are not.

        >>> print(MeetingTraffic(200_000.0, 120_000.0, 20).over)
        Over the budget of 109,312 bytes by 83 %: 20 meetings of 10,000 bytes, 6,000 for places and 4,000 for values.
        """
        if self.keeps_budget:
            return ""
        each, places = self.sent / self.meetings, self.positions / self.meetings
        parts = f", {places:,.0f} for places and {each - places:,.0f} for values" if places else ""
        return (
            f"Over the budget of {BUDGET:,} bytes by {100 * (self.sent / BUDGET - 1):,.0f} %: {self.meetings:.0f} "
            f"meeting{'s' * (self.meetings != 1)} of {each:,.0f} bytes{parts}."
        )

    @property
    def line(self) -> str:
        """The costs with the digits that the marks of a class keep."""
        return (
            f"{self.sent:.2f} bytes a learner, {self.positions:.2f} of them for places, in {self.meetings:.0f} meetings"
        )

    @classmethod
    def read(cls, line: str) -> MeetingTraffic | None:
        """The costs of a :attr:`line`; None if it is none."""
        found = re.fullmatch(r"([\d.]+) bytes a learner, ([\d.]+) of them for places, in ([\d.]+) meetings", line)
        return found and cls(*map(float, found.groups()))


def traffic_of(run: LocalSteps, meetings: int) -> MeetingTraffic:
    """What the messages so far amount to, if there will be so many meetings."""
    share = meetings / max(run.number, 1) / run.learners
    positions = sum(_positions(run, entry) for entry in run.ledger.entries)
    return MeetingTraffic(round(run.ledger.total() * share, 6), round(positions * share, 6), meetings)


def _positions(run: LocalSteps, entry: Any) -> int:
    """The bytes of one message that say which elements it is about."""
    if entry.kind == "broadcast":  # of ScaleCom, whose leader says for all of them where the values are
        return int(entry.payload_bytes)
    told = getattr(run.states[0].compressors[entry.layer], "position_bytes", None)
    return int(told(run.shared.weights[entry.layer].shape)) if told else 0
