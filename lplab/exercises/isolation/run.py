"""One run of student code, from outside: what the child sends, and the reasons to stop it. See :mod:`.isolation`."""

import json
import signal
import time
from typing import Any

from lplab.exercises.isolation.outcome import Limits, Raised, Stopped, Unusable
from lplab.exercises.isolation.processes import Child
from lplab.exercises.isolation.wire import decode

MOST_RESULTS = 256_000_000  # bytes, of all calls together
BASE_MB = 200  # what Python and numpy take themselves, where only the parent can watch the memory
TIMER = getattr(signal, "SIGPROF", None)  # how the child's timer ends it; Windows has none
STACK_OVERFLOW = 0xC00000FD  # the exit code on Windows
STRETCH = 10  # times the limit on waiting: the end for code that does neither, or for a hopelessly busy machine


class Run:
    """What is known so far of one run: filled line by line from what the child sends."""

    def __init__(self, calls: int, limits: Limits) -> None:
        self.calls, self.limits = calls, limits
        self.values: list[Any] = []
        self.changed: list[int] = []
        self.stopped: Stopped | None = None
        self.received = 0  # bytes
        self.begin: float | None = None  # seconds of computing when the child was ready for student code
        self.defined = self.finished = False

    def follow(self, child: Child) -> None:
        """Take the child's messages until it is done, has to be stopped, or has ended itself."""
        begun = active = time.monotonic()
        most = 0.0  # seconds of computing
        for line in child.lines():
            if line:
                self.take(line)
            else:
                now, (computing, memory) = time.monotonic(), child.used()
                if computing > most:
                    most, active = computing, now
                self.weigh_time(most, now - active, now - begun)
                self.weigh_memory(memory)
                self.weigh_printed(child)
            if self.finished or self.stopped:
                return
        self.stopped = self.why_ended(child)

    def take(self, line: bytes) -> None:
        """One message of the child. Student code that found the pipe may have written it: it may be anything."""
        self.received += len(line)
        try:
            match json.loads(line):
                case ["ready", float(seconds)]:
                    self.begin = seconds
                case ["defined"]:
                    self.defined = True
                case ["value", form, bool(changed)]:
                    self.note(decode(form), changed)
                case ["unusable", str(sentence), bool(changed)]:
                    self.note(Unusable(sentence), changed)
                case ["raised", str(kind), str(message), int() | None as number, str(text)]:
                    self.note(Raised(kind, message, number, text), False)
                case ["stopped", str(reason), str(sentence)]:
                    self.stopped = Stopped(reason, sentence)
                case ["done"] if len(self.values) == self.calls:
                    self.finished = True
                case _:
                    raise ValueError("not a message")
        except Exception:  # whatever json and numpy raise for it
            self.stop("tampering", "your code wrote into the pipe that carries its results")
        if self.received > MOST_RESULTS:
            self.stop("memory", f"the results together are more than {MOST_RESULTS // 10**6} MB")

    def note(self, value: Any, changed: bool) -> None:
        """The result of the next call."""
        if len(self.values) == self.calls:
            raise ValueError("more results than calls")
        if changed:
            self.changed.append(len(self.values))
        self.values.append(value)

    # ---- reasons to stop ---------------------------------------------------------------------------------------------

    def stop(self, reason: str, sentence: str) -> None:
        """Note why, unless a reason is known already."""
        self.stopped = self.stopped or Stopped(reason, sentence)

    def where(self) -> str:
        """What is being done."""
        if not self.defined:
            return "before the first call"
        return f"in call {len(self.values) + 1:,} of {self.calls:,}"

    def too_slow(self) -> str:
        """The sentence for the end of the computing time."""
        limit = f"{self.limits.cpu_seconds:g} s"
        return f"stopped after {limit} of computing, {self.where()}: a loop that never ends, or far too much work"

    def weigh_time(self, computing: float, waiting: float, all_in_all: float) -> None:
        """Stop code that computes or waits for too long; the child itself minds its computing where it can."""
        longest = STRETCH * self.limits.wall_seconds
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

    def weigh_memory(self, memory: int) -> None:
        """Stop a child that takes too much memory where its system does not refuse it."""
        if memory > (BASE_MB + self.limits.memory_mb) * 1_000_000:
            self.stop("memory", f"stopped {self.where()}: more than the {self.limits.memory_mb:,} MB of memory allowed")

    def weigh_printed(self, child: Child) -> None:
        """Stop a flood of output."""
        if child.printed_bytes > self.limits.printed_kb * 1000:
            self.stop("printing", f"your code printed more than {self.limits.printed_kb:,} kB: remove print from loops")

    def why_ended(self, child: Child) -> Stopped:
        """The reason of a child that ended without a word, from its exit code."""
        code = child.exit_code()
        if self.begin is None:
            raise RuntimeError(f"the process for student code did not start; it says: {child.last_words()}")
        if TIMER is not None and code == -TIMER:
            return Stopped("time", self.too_slow())
        if code is None:
            return Stopped("tampering", f"your code closed the pipe that carries its results, {self.where()}")
        if 0 <= code < 256:
            return Stopped("exit", f"your code ended Python at once, {self.where()}; use return to end a function")
        hint = ": recursion without end?" if code in (-signal.SIGSEGV, STACK_OVERFLOW) else ""
        return Stopped("crash", f"Python itself crashed or was killed (exit code {code}), {self.where()}{hint}")
