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

**Where there are no processes**, in a browser or without the package psutil, nothing of this can stand. A notebook then
runs answers in its own process (:func:`run_answer`, :mod:`.in_process`) and says in one line that there is no fence.
:func:`run_isolated`, which grading calls, refuses.

The same input gives the same result: hashing, ``random`` and ``numpy.random`` are seeded, numpy computes on one
thread, the limit on time counts the child's own computing and not the hours of a busy machine, and of the caller's
environment nothing is passed on but the paths of libraries, and the choice of OpenBLAS's loops.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

import lplab
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.isolation.outcome import Limits, Outcome, Raised, Stopped, Unusable
from lplab.exercises.isolation.request import as_bytes, encode_calls
from lplab.exercises.isolation.run import ChildRun
from lplab.exercises.isolation.wire import Seeded

__all__ = [
    "Limits",
    "Outcome",
    "Raised",
    "Seeded",
    "Stopped",
    "Unusable",
    "run_answer",
    "run_isolated",
    "why_no_process",
]

DEFAULT = Limits()


def run_isolated(
    answer: Answer, calls: Sequence[tuple], *, limits: Limits = DEFAULT, allowed: Sequence[str] = ("math", "numpy")
) -> Outcome:
    r"""Call the student's function once for each tuple of arguments in ``calls``, in a fresh process with limits.

    Arguments and values travel exactly: None, bool, int, float, str, list, tuple, dict, numpy scalars and arrays, and
    as an argument :class:`Seeded`; another argument raises a ValueError. Each call gets its own copies. ``allowed``
    are the modules that the code may import besides the harmless part of the standard library; modules inside them too.
    Nothing that the student's code does raises here. A child that cannot start raises a RuntimeError, and so does a
    place where there are no processes.

    >>> outcome = run_isolated(Answer("def half(x):\n    return x / 2", "half"), [(3,), ("3",)])
    >>> outcome.values  # doctest: +ELLIPSIS
    (1.5, Raised(type='TypeError', message="unsupported operand ...", line=2, text='return x / 2'))
    """
    if reason := why_no_process():
        raise RuntimeError(f"student code cannot run in a process of its own: {reason}; pip install 'lplab[course]'")
    from lplab.exercises.isolation.processes import Child

    begun = time.perf_counter()
    run = ChildRun(len(calls), limits)
    request = as_bytes(*encode_calls(answer, calls, limits, allowed))
    with (
        tempfile.TemporaryDirectory(prefix="lplab-", ignore_cleanup_errors=True) as folder,
        Child(request, folder, _path(allowed)) as child,
    ):
        run.follow(child)
    run.check_printed(child.printed_bytes)  # again: output may have arrived after the last measurement
    seconds = time.perf_counter() - begun
    return Outcome(
        tuple(run.values), run.stopped, tuple(run.changed), child.beginning(), seconds, run.fences,
        run.what_did_not_run(),
    )  # fmt: skip


def run_answer(
    answer: Answer, calls: Sequence[tuple], *, limits: Limits = DEFAULT, allowed: Sequence[str] = ("math", "numpy")
) -> Outcome:
    r"""Run an answer as :func:`run_isolated`; where there are no processes, in this one, without a fence.

    For notebooks, in which people check their own answers. Grading calls :func:`run_isolated`, which refuses.

    >>> run_answer(Answer("def half(x):\n    return x / 2", "half"), [(3,)]).values
    (1.5,)
    """
    if not why_no_process():
        return run_isolated(answer, calls, limits=limits, allowed=allowed)
    from lplab.exercises.isolation.in_process import run_in_process

    return run_in_process(answer, calls, limits=limits, allowed=allowed)


@cache
def why_no_process() -> str:
    """Why Python can start no process for student code here, in words; "" where it can.

    >>> why_no_process()
    ''
    """
    if sys.platform in ("emscripten", "wasi"):
        return "Python has no processes in a browser"
    try:
        import psutil  # noqa: F401
    except ImportError:
        return "psutil is not installed"
    return ""


def _path(allowed: Sequence[str]) -> list[str]:
    """The folders of numpy (the child might not find it), and of lplab if the exercise allows one of its modules."""
    wanted = [np, *([lplab] if any(name.partition(".")[0] == "lplab" for name in allowed) else [])]
    return list(dict.fromkeys(str(Path(str(module.__file__)).parents[1]) for module in wanted))
