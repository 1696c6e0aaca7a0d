"""Shared by trainings of one learner and of several: checkpoints, Ctrl-C."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any


@contextmanager
def reading_checkpoint(path: Path, owner: str) -> Iterator[None]:
    """Turn the errors of reading a checkpoint into a ValueError with a message of one line.

    Args:
        path: of the checkpoint.
        owner: what it must be a checkpoint of, as in "this model and recipe".

    Raises:
        ValueError: there is no such file, or it is no such checkpoint.

    >>> with reading_checkpoint(Path("no.pt"), "this model"):
    ...     pass
    Traceback (most recent call last):
    ValueError: there is no file no.pt
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        yield
    except (LookupError, TypeError, AttributeError, EOFError, RuntimeError, UnpicklingError) as problem:
        message = (str(problem).splitlines() or [type(problem).__name__])[0].partition(". ")[0]
        raise ValueError(f"{path} is no checkpoint of {owner}: {message}") from None


@contextmanager
def deferred_sigint() -> Iterator[threading.Event]:
    """Ctrl-C takes effect after the current step, so that no checkpoint holds half an update; a second one at once."""
    interrupted = threading.Event()

    def on_interrupt(number: int, frame: Any) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    if threading.current_thread() is not threading.main_thread():  # which alone gets Ctrl-C
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
