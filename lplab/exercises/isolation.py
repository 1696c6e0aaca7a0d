r"""Students' functions at a distance: called in a process of their own, with limits, so that nothing they do harms.

**What this protects against**: mistakes, and the shortcuts that come to mind. An endless loop, recursion without end, a
huge allocation, a crash of the interpreter, ``sys.exit``, a flood of output, threads and processes left running,
arguments changed in place, numpy functions replaced, imports that the exercise does not need, a look at the reference
solution through ``import`` or ``inspect``: each ends in one clear line, the notebook's kernel lives, and no process
stays. Results come back as numbers and text, are never unpickled, and are judged in the caller's process: code in the
child that forges them would have to know the right ones.

**What it does not protect against**: a determined attacker. It is no sandbox. Python code finds ways around guards
that are written in Python; then the file system and the network are within reach, with the rights of whoever runs the
check. Grade the work of people whom you do not trust inside a container, without network, as a user without rights,
for example, where the image ``lplab`` is one that you made with Python and ``pip install lplab[course]``::

    docker run --rm --network none --read-only --tmpfs /tmp --cap-drop ALL --user 65534 --memory 8g --pids-limit 500 \
        --volume "$PWD/submissions:/submissions:ro" --volume "$PWD/marks:/marks" lplab \
        lplab grade /submissions --output /marks

The same input gives the same result: hashing, ``random`` and ``numpy.random`` are seeded, numpy computes on one
thread, the limit on time counts the child's own computing and not the hours of a busy machine, and of the caller's
environment nothing is passed on but the paths of programs and libraries.
"""

import json
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lplab
from lplab.exercises.answers import Answer
from lplab.exercises.outcome import Limits, Outcome, Raised, Stopped, Unusable
from lplab.exercises.processes import Child
from lplab.exercises.wire import CannotTravelError, Seeded, decode, encode_argument

__all__ = ["Limits", "Outcome", "Raised", "Seeded", "Stopped", "Unusable", "run_isolated"]

DEFAULT = Limits()
MOST_RESULTS = 256_000_000  # bytes, of all calls together
BASE_MB = 200  # what Python and numpy take themselves, where only the parent can watch the memory
STACK_OVERFLOW = 0xC00000FD  # the exit code on Windows
STRETCH = 10  # times the limit on waiting: the end for code that does neither, or for a hopelessly busy machine


def run_isolated(
    answer: Answer, calls: Sequence[tuple], *, limits: Limits = DEFAULT, allowed: Sequence[str] = ("math", "numpy")
) -> Outcome:
    r"""Call the student's function once for each tuple of arguments in ``calls``, in a fresh process with limits.

    Arguments and values travel exactly: None, bool, int, float, str, list, tuple, dict, numpy scalars and arrays, and
    as an argument :class:`Seeded`; another argument raises a ValueError. Each call gets its own copies. ``allowed``
    are the modules that the code may import besides the harmless part of the standard library; modules inside them too.
    Nothing that the student's code does raises here. A child that cannot start raises a RuntimeError.

    >>> outcome = run_isolated(Answer("def half(x):\n    return x / 2", "half"), [(3,), ("3",)])
    >>> outcome.values  # doctest: +ELLIPSIS
    (1.5, Raised(type='TypeError', message="unsupported operand ...", line=2, text='return x / 2'))
    """
    begun = time.perf_counter()
    run = _Run(len(calls), limits)
    request = _request(answer, calls, limits, allowed)
    with (
        tempfile.TemporaryDirectory(prefix="lplab-", ignore_cleanup_errors=True) as folder,
        Child(request, folder, _path(allowed)) as child,
    ):
        run.follow(child)
    run.weigh_printed(child)  # once more, since the last of it may have come after the last look
    printed = child.printed.decode("utf-8", errors="replace")
    return Outcome(tuple(run.values), run.stopped, tuple(run.changed), printed, time.perf_counter() - begun)


def _request(answer: Answer, calls: Sequence[tuple], limits: Limits, allowed: Sequence[str]) -> bytes:
    header = {
        "source": answer.source,
        "name": answer.name,
        "allowed": list(allowed),
        "cpu_seconds": limits.cpu_seconds,
        "memory_mb": limits.memory_mb,
    }
    lines: list[Any] = [header]
    for number, arguments in enumerate(calls, 1):
        try:
            lines.append([encode_argument(argument) for argument in arguments])
        except CannotTravelError as error:
            raise ValueError(f"call {number} has an argument that cannot be sent: {error}") from None
    return "".join(json.dumps(line) + "\n" for line in lines).encode("ascii") + b"\n"


def _path(allowed: Sequence[str]) -> list[str]:
    """Where numpy lies (it need not be where the child looks), and lplab if the exercise allows a module of it."""
    wanted = [np, *([lplab] if any(name.partition(".")[0] == "lplab" for name in allowed) else [])]
    return list(dict.fromkeys(str(Path(str(module.__file__)).parents[1]) for module in wanted))


class _Run:
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
        except (ValueError, TypeError, RecursionError, MemoryError):
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
        elif waiting > self.limits.wall_seconds or all_in_all > longest:
            seconds = f"{min(all_in_all, longest):.0f} s"
            self.stop("time", f"stopped after {seconds}, {self.where()}: your code waits for something")

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
            raise RuntimeError(f"the process for student code did not start: {child.printed.decode(errors='replace')}")
        if code == -getattr(signal, "SIGPROF", 0):
            return Stopped("time", self.too_slow())
        if code is not None and 0 <= code < 256:
            return Stopped("exit", f"your code ended Python at once, {self.where()}; use return to end a function")
        hint = ": recursion without end?" if code in (-signal.SIGSEGV, STACK_OVERFLOW) else ""
        return Stopped("crash", f"Python itself crashed or was killed (exit code {code}), {self.where()}{hint}")
