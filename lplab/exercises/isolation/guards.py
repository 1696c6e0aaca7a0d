"""What student code must not do, and its limits of time, memory and files.

``child.py`` loads this file by its path, so it imports the standard library only.

The guards stop mistakes with a one-line message. Python code finds ways around them; behind them stand the kernel's
fences, ``landlock.py`` and ``seccomp.py``. See :mod:`lplab.exercises.isolation`.
"""

import contextlib
import math
import mmap
import operator
import os
import signal
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

try:
    import resource
except ImportError:  # Windows: there the parent alone watches time and memory
    resource = None  # type: ignore[assignment]

EXERCISES = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
HARMLESS = (  # modules that every answer may import
    "__future__", "abc", "array", "bisect", "cmath", "collections", "contextlib", "copy", "dataclasses", "decimal",
    "enum", "fractions", "functools", "heapq", "itertools", "math", "numbers", "operator", "random", "re",
    "statistics", "string", "struct", "textwrap", "types", "typing", "warnings",
)  # fmt: skip
PROCESSES = ("os.exec", "os.fork", "os.kill", "os.posix_spawn", "os.spawn", "os.startfile", "os.system", "subprocess.")
MAX_FILE_BYTES = 64_000_000  # bytes
MAX_OPEN_FILES = 64
RESERVE_BYTES = 64_000_000  # of address space, kept for the report after a MemoryError
_reserve: list[mmap.mmap] = []
_ALL, _MAP, _IS = all, map, operator.is_  # as they are before an answer can replace them


class RefusedError(ImportError):
    """What an answer may not do. An ImportError, so that ``try: import numba`` works as where numba is missing."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason, self.sentence = reason, sentence


def limit(cpu_seconds: float, memory_mb: int) -> None:
    """End this process after ``cpu_seconds`` of computing, however busy the machine is; refuse too much memory.

    No limit can be raised again, not even by root where seccomp stands.
    """
    if resource is None:
        return
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)  # RLIMIT_CPU knows whole seconds only
    _lower(resource.RLIMIT_CPU, math.ceil(time.process_time() + cpu_seconds) + 2)  # for code that stops the timer
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    _lower(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    if os.path.exists("/proc/self/statm"):  # Linux; elsewhere the parent watches
        _reserve.append(mmap.mmap(-1, RESERVE_BYTES))
        with open("/proc/self/statm", encoding="ascii") as file:
            mapped = int(file.read().split()[0]) * resource.getpagesize()  # numpy's libraries: not the student's
        _lower(resource.RLIMIT_AS, mapped + memory_mb * 1_000_000)


def _lower(which: int, wanted: int) -> None:
    _, highest = resource.getrlimit(which)
    with contextlib.suppress(ValueError):  # macOS refuses some (python/cpython#78783)
        lower = wanted if highest == resource.RLIM_INFINITY else min(wanted, highest)
        resource.setrlimit(which, (lower, lower))


def release_reserve() -> None:
    """Make room for the report after a MemoryError."""
    while _reserve:
        _reserve.pop().close()


def importer(allowed: Sequence[str]) -> Callable:
    """An ``__import__`` for the student's code alone: numpy and the rest of Python go on importing what they need."""

    def permitted(name: str) -> bool:
        return any(name == root or name.startswith(root + ".") for root in (*HARMLESS, *allowed))

    def guarded(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        parts = [f"{name}.{part}" for part in fromlist or ()]
        if level or not (permitted(name) or (parts and all(map(permitted, parts)))):
            needs = " and ".join(", ".join(sorted(allowed)).rsplit(", ", 1)) or "plain Python"
            sentence = f"importing {'.' * level + name} is not for this exercise; it needs only {needs}"
            raise RefusedError("import", sentence)
        return __import__(name, globals, locals, fromlist, level)

    return guarded


def audit(event: str, arguments: tuple) -> None:
    """Refuse other processes, the network, and the files of the exercises (for ``sys.addaudithook``)."""
    if event.startswith(PROCESSES):
        raise RefusedError("tampering", f"your code uses other processes ({event}); an answer only computes")
    if event.startswith("socket."):
        raise RefusedError("tampering", f"your code uses the network ({event}); an answer only computes")
    path = arguments[0] if event == "open" else None  # or the number of an open file
    if isinstance(path, str | bytes) and os.path.realpath(os.fsdecode(path)).startswith(EXERCISES + os.sep):
        raise RefusedError("tampering", "your code opens a file of the exercises; an answer only computes")


def snapshot(*modules: types.ModuleType) -> dict[types.ModuleType, dict[str, Any]]:
    """The attributes of ``modules`` as they are now, for :func:`changed_builtins`."""
    return {module: dict(vars(module)) for module in modules}


def changed_builtins(originals: dict[types.ModuleType, dict[str, Any]]) -> str | None:
    """The name of the first attribute that is no longer what it was; None if there is none."""
    for module, before in originals.items():
        now = module.__dict__
        if _ALL(_MAP(_IS, _MAP(now.get, before), before.values())):  # quick: this is asked after each answer
            continue
        for name, value in before.items():
            if now.get(name) is not value:
                return f"{module.__name__}.{name}"
    return None
