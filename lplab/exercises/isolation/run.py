"""One run of student code: the messages about its calls, the reasons to stop it. See ``isolation``."""

import json
import signal
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.exercises.isolation.outcome import Limits, Raised, Stopped, Unusable
from lplab.exercises.isolation.wire import decode

if TYPE_CHECKING:
    from lplab.exercises.isolation.processes import Child

MAX_RESULT_BYTES = 256_000_000  # bytes, of all calls together
MAX_RESULT_PARTS = 5_000_000  # of lists, tuples and dicts, of all calls together
MAX_INT_BITS = 1023  # as in child.py
MAX_THREADS = 100
MAX_WRITTEN_MB, MAX_FILES = 64, 100  # of the files in the child's folder
BASE_MB = 200  # what Python and numpy take themselves, where only the parent can watch the memory
TIMER = getattr(signal, "SIGPROF", None)  # how the child's timer ends it; Windows has none
STACK_OVERFLOW = 0xC00000FD  # the exit code on Windows
TOO_MUCH = "a loop that never ends, or far too much work"  # the end of a sentence
MAX_WAIT_FACTOR = 10  # times the limit on waiting: the limit on the whole run, whatever the child does


class ChildRun:
    """The state of one run, updated with each message of the child."""

    def __init__(self, calls: int, limits: Limits) -> None:
        self.calls, self.limits = calls, limits
        self.values: list[Any] = []
        self.changed: list[int] = []
        self.stopped: Stopped | None = None
        self.fences: tuple[str, ...] = ()
        self.received = self.parts = 0  # bytes; parts of lists, tuples and dicts
        self.begin: float | None = None  # seconds of computing when the child was ready for student code
        self.defined = self.finished = False
        self.skipped = ""

    def follow(self, child: "Child") -> None:
        """Handle the child's messages until it is done, has to be stopped, or has ended."""
        begun = active = time.monotonic()
        max_computing = 0.0  # seconds of computing
        for line in child.lines():
            if line:
                self.on_message(line)
            else:
                now, (computing, memory, threads) = time.monotonic(), child.used()
                if computing > max_computing:
                    max_computing, active = computing, now
                self.check_time(max_computing, now - active, now - begun)
                self.check_memory(memory)
                self.check_threads(threads)
                self.check_written(*child.written(MAX_FILES))
                self.check_printed(child.printed_bytes)
            if self.finished or self.stopped:
                return
        self.stopped = self.why_ended(child)

    def on_message(self, line: bytes) -> None:
        """Handle one message. It may be anything, since student code that found the pipe may have written it."""
        self.received += len(line)
        self.parts += line.count(b",") + line.count(b"[") + line.count(b"{")
        if self.received > MAX_RESULT_BYTES:
            return self.stop("memory", f"the results together are more than {MAX_RESULT_BYTES // 10**6} MB")
        if self.parts > MAX_RESULT_PARTS:  # each takes much more memory than in the message
            return self.stop("memory", f"the results together have more than {MAX_RESULT_PARTS:,} parts")
        try:
            match json.loads(line):
                case ["ready", float(seconds), *fences] if self.begin is None:  # before any student code
                    self.begin, self.fences = seconds, tuple(map(str, fences))
                case ["defined"] if not self.defined:
                    self.defined = True
                case ["defined", str(sentence)] if not self.defined:
                    self.defined, self.skipped = True, sentence
                case ["value", form, bool(changed)]:
                    self.add_result(_result(form), changed)
                case ["unusable", str(sentence), bool(changed)]:
                    self.add_result(Unusable(sentence), changed)
                case ["raised", str(kind), str(message), int() | None as number, str(text)]:
                    self.add_result(Raised(kind, message, number, text), False)
                case ["stopped", str(reason), str(sentence)]:
                    self.stopped = Stopped(reason, sentence)
                case ["done"] if len(self.values) == self.calls:
                    self.finished = True
                case _:
                    raise ValueError("not a message")
        except Exception:  # whatever json and numpy raise for it
            self.stop("tampering", "your code wrote into the pipe that carries its results")
        return None

    def add_result(self, value: Any, changed: bool) -> None:
        """Append the result of the next call."""
        if len(self.values) == self.calls:
            raise ValueError("more results than calls")
        if changed:
            self.changed.append(len(self.values))
        self.values.append(value)

    # ---- reasons to stop ---------------------------------------------------------------------------------------------

    def stop(self, reason: str, sentence: str) -> None:
        """Record why the run stops, unless a reason is recorded already."""
        self.stopped = self.stopped or Stopped(reason, sentence)

    def what_did_not_run(self) -> str:
        """Why not all that stands above the calls has run, as a sentence; "" if it has."""
        stopped = self.stopped if not self.defined else None
        return self.skipped or (stopped.sentence if stopped and stopped.reason != "syntax" else "")

    def where(self) -> str:
        """Where the run is: before the first call, or in which call."""
        if not self.defined:
            return "before the first call"
        return f"in call {len(self.values) + 1:,} of {self.calls:,}"

    def too_slow(self) -> str:
        """The sentence for the end of the computing time."""
        limit = f"{self.limits.cpu_seconds:g} s"
        return f"stopped after {limit} of computing, {self.where()}: {TOO_MUCH}"

    def check_time(self, computing: float, waiting: float, all_in_all: float) -> None:
        """Stop code that computes or waits too long. Where the system can, the child limits its computing itself."""
        longest = MAX_WAIT_FACTOR * self.limits.wall_seconds
        if self.begin is None:
            if all_in_all > longest:
                raise RuntimeError(f"the process for student code did not start within {longest:g} s")
        elif computing - self.begin > self.limits.cpu_seconds:
            self.stop("time", self.too_slow())
        elif waiting > self.limits.wall_seconds:
            limit = f"{self.limits.wall_seconds:g} s of waiting"
            self.stop("time", f"stopped after {limit}, {self.where()}: your code waits for something that never comes")
        elif all_in_all > longest:
            self.stop("time", f"stopped after {longest:g} s, {self.where()}: your code waits again and again")

    def check_memory(self, memory: int) -> None:
        """Stop a child that uses too much memory, on systems that do not enforce the limit."""
        if memory > (BASE_MB + self.limits.memory_mb) * 1_000_000:
            self.stop("memory", f"stopped {self.where()}: more than the {self.limits.memory_mb:,} MB of memory allowed")

    def check_threads(self, threads: int) -> None:
        """Stop a child that starts threads without end."""
        if threads > MAX_THREADS:
            self.stop("memory", f"stopped {self.where()}: your code started more than {MAX_THREADS} threads")

    def check_written(self, written_bytes: int, files: int) -> None:
        """Stop a child that fills its folder."""
        if written_bytes > MAX_WRITTEN_MB * 1_000_000 or files > MAX_FILES:
            what = f"more than {MAX_WRITTEN_MB} MB into files, or more than {MAX_FILES} files"
            self.stop("printing", f"stopped {self.where()}: your code wrote {what}")

    def check_printed(self, printed_bytes: int) -> None:
        """Stop code that prints too much."""
        if printed_bytes > self.limits.printed_kb * 1000:
            self.stop("printing", f"your code printed more than {self.limits.printed_kb:,} kB: remove print from loops")

    def why_ended(self, child: "Child") -> Stopped:
        """The reason for a child that ended without a message, from its exit code."""
        code = child.exit_code()
        if self.begin is None:
            raise RuntimeError(f"the process for student code did not start; it says: {child.last_line()}")
        if TIMER is not None and code == -TIMER:
            return Stopped("time", self.too_slow())
        if code is None:
            return Stopped("tampering", f"your code closed the pipe that carries its results, {self.where()}")
        if 0 <= code < 256:
            return Stopped("exit", f"your code ended Python at once, {self.where()}; use return to end a function")
        hint = ": recursion without end?" if code in (-signal.SIGSEGV, STACK_OVERFLOW) else ""
        return Stopped("crash", f"Python itself crashed or was killed (exit code {code}), {self.where()}{hint}")


def _result(form: Any) -> Any:
    """The value of a call, of a kind that the child sends: no integer that no float holds, no random generator."""
    value = decode(form)
    inside = [value]
    while inside:
        part = inside.pop()
        if isinstance(part, list | tuple | dict):
            inside += [*part, *part.values()] if isinstance(part, dict) else part
        elif isinstance(part, np.random.Generator) or (isinstance(part, int) and part.bit_length() > MAX_INT_BITS):
            raise ValueError("not a value that the child sends")
    return value
