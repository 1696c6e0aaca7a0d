"""A part of a step that Ctrl-C does not split."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C takes effect at the end of the block; a second one at once, in case that the block does not end.

    >>> with uninterrupted():
    ...     pass
    """
    before = signal.getsignal(signal.SIGINT)
    # The main thread alone gets Ctrl-C.
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[Any] = []

    def deliver() -> None:
        frames, waiting[:] = waiting[:], []
        for frame in frames:
            before(signal.SIGINT, frame)

    def on_interrupt(number: int, frame: Any) -> None:
        waiting.append(frame)
        if len(waiting) > 1:
            deliver()

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        deliver()
