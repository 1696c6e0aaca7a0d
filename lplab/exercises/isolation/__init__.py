r"""Run students' functions in a process of their own, with limits, so that nothing they do harms the caller.

**What this protects against, everywhere**: mistakes, and the shortcuts that come to mind. An endless loop, recursion
without end, a huge allocation, a crash of the interpreter, ``sys.exit``, a flood of output, threads and processes left
running, arguments changed in place, numpy functions replaced, imports that the exercise does not need, access to the
reference solution through ``import`` or ``inspect``: each ends in one clear line, the notebook's kernel lives, and no
process stays. Results come back as numbers and text, are never unpickled, and are judged in the caller's process: code
in the child that forges them would have to know the right ones.

**On Linux also against people who mean it**: before student code is compiled, the child puts itself behind fences of
the kernel, without rights of root. Landlock (:mod:`.landlock`) leaves it its own empty folder, Python's standard
library, numpy, and what the exercise allows; it writes into its folder alone. seccomp (:mod:`.seccomp`) leaves it the
system calls that computing, threads and reading files need: no other processes, programs, sockets, signals to others,
no debugger. Python code cannot take them down. ``Outcome.fences`` says which stood; ``lplab doctor`` says what this
machine offers, and ``lplab grade`` writes it into the marks. A fence that the kernel offers and then refuses raises an
error: nothing runs with less than was promised.

**What it does not protect against**: a fault of the kernel or of Python; code that finds out by ``stat`` whether a file
of a given name is there, or what the time is; a class that keeps all cores busy up to its limits. Without Landlock and
seccomp (macOS, Windows, old kernels) only accidents are fenced, and memory is limited by looking ten times a second.
There, grade the work of people whom you do not trust in a container, ``lplab grade --in-container``, which uses the
image that the repository's ``Dockerfile`` builds.

The same input gives the same result: hashing, ``random`` and ``numpy.random`` are seeded, numpy computes on one
thread, the limit on time counts the child's own computing and not the hours of a busy machine, and of the caller's
environment nothing is passed on but the paths of libraries.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lplab
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.isolation.outcome import Limits, Outcome, Raised, Stopped, Unusable
from lplab.exercises.isolation.processes import Child
from lplab.exercises.isolation.run import Run
from lplab.exercises.isolation.wire import Seeded, UnserializableError, encode_argument

__all__ = ["Limits", "Outcome", "Raised", "Seeded", "Stopped", "Unusable", "run_isolated"]

DEFAULT = Limits()


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
    run = Run(len(calls), limits)
    request = _request(answer, calls, limits, allowed)
    with (
        tempfile.TemporaryDirectory(prefix="lplab-", ignore_cleanup_errors=True) as folder,
        Child(request, folder, _path(allowed)) as child,
    ):
        run.follow(child)
    run.check_printed(child)  # again: output may have arrived after the last measurement
    seconds = time.perf_counter() - begun
    return Outcome(tuple(run.values), run.stopped, tuple(run.changed), child.beginning(), seconds, run.fences)


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
        except UnserializableError as error:
            raise ValueError(f"call {number} has an argument that cannot be sent: {error}") from None
    return "".join(json.dumps(line) + "\n" for line in lines).encode("ascii") + b"\n"


def _path(allowed: Sequence[str]) -> list[str]:
    """The folders of numpy (the child might not find it), and of lplab if the exercise allows one of its modules."""
    wanted = [np, *([lplab] if any(name.partition(".")[0] == "lplab" for name in allowed) else [])]
    return list(dict.fromkeys(str(Path(str(module.__file__)).parents[1]) for module in wanted))
