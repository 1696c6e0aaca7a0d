"""LogGP: a link with separate latency of the wire and overhead of the processors.

Alexandrov, Ionescu, Schauser and Scheiman, SPAA 1995. One message costs what a Hockney link of latency L + 2o − G says;
the difference shows where many messages follow one another: a sender may go on after max(o, g), long before they
arrive. Every argument may be an array.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from lplab.checks import check_numbers
from lplab.hardware.collectives import checked_bytes, checked_ranks, unwrap_scalar
from lplab.hardware.links import Floats, Link


@dataclass(frozen=True)
class LogGP:
    """The four numbers of the model, seconds.

    Args:
        latency_seconds: L, on the wire.
        overhead_seconds: o, that a processor is busy to send or to receive a message.
        gap_seconds: g, at least between two messages of one sender.
        byte_seconds: G, for each byte after the first: 1 / bandwidth.

    Raises:
        ValueError: a negative number, or no time for a byte.

    >>> round(1e6 * LogGP(5e-6, 1e-6, 2e-6, 1e-10).message_seconds(1), 6)
    7.0
    """

    latency_seconds: float
    overhead_seconds: float
    gap_seconds: float
    byte_seconds: float

    def __post_init__(self) -> None:
        for field in fields(self):
            value = check_numbers(field.name, getattr(self, field.name))
            if value.ndim:
                raise ValueError(f"{field.name} must be a single number, got {value.tolist()}")
            if not 0 <= value < np.inf:
                raise ValueError(f"{field.name} must be 0 or more, got {getattr(self, field.name)}")
        if self.byte_seconds == 0:
            raise ValueError("byte_seconds must be above 0; it is 1 / bandwidth")

    def message_seconds(self, nbytes: Floats) -> Any:
        """One message, until the receiver has it: L + 2o + (n − 1)·G; 0 bytes count as one."""
        more = np.maximum(checked_bytes(nbytes) - 1, 0) * self.byte_seconds
        return unwrap_scalar(self.latency_seconds + 2 * self.overhead_seconds + more)

    def stream_seconds(self, count: Floats, nbytes: Floats) -> Any:
        """So many messages to one receiver, sent one after the other: the sender goes on after max(o, g) + (n − 1)·G.

        >>> link = LogGP(5e-6, 1e-6, 2e-6, 1e-9)
        >>> link.stream_seconds(10, 1) < 10 * link.message_seconds(1)
        True
        """
        each = max(self.overhead_seconds, self.gap_seconds)
        each = each + np.maximum(checked_bytes(nbytes) - 1, 0) * self.byte_seconds
        return unwrap_scalar((checked_ranks(count) - 1) * each + self.message_seconds(nbytes))

    def ring_seconds(self, ranks: Floats, nbytes: Floats) -> Any:
        """A ring all-reduce: 2(p − 1) messages of n / p bytes, each of which waits for the one before.

        >>> LogGP(5e-6, 1e-6, 2e-6, 1e-9).ring_seconds(1, 1e6)
        0.0
        """
        p = checked_ranks(ranks)
        return unwrap_scalar(2 * (p - 1) * self.message_seconds(checked_bytes(nbytes) / p))

    def link(self) -> Link:
        """The Hockney link that takes as long for every single message of a byte or more.

        >>> model = LogGP(5e-6, 1e-6, 2e-6, 1e-9)
        >>> round(model.link().seconds(1e6), 9), round(model.message_seconds(1e6), 9)  # seconds
        (0.001006999, 0.001006999)
        """
        latency = max(self.latency_seconds + 2 * self.overhead_seconds - self.byte_seconds, 0.0)
        return Link(latency, 1 / self.byte_seconds, "loggp")
