"""The limits of a run of student code, and its outcome, as plain data. See :mod:`lplab.exercises.isolation`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What student code may use. Every limit is above zero; anything else raises a ValueError.

    ``cpu_seconds`` is time in which the process computes, so that a busy machine changes nothing; ``wall_seconds`` is
    time in which it waits (asleep, for a lock); ``memory_mb`` counts from what numpy has taken (1 MB is 10⁶ bytes);
    ``printed_kb`` is output, in 1,000 bytes.

    >>> Limits(cpu_seconds=1).memory_mb
    1024
    """

    cpu_seconds: float = 5
    wall_seconds: float = 20
    memory_mb: int = 1024
    printed_kb: int = 256

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} must be above zero, not {value!r}")


@dataclass(frozen=True)
class Raised:
    """An exception in student code: ``line`` counts in the student's source, and ``text`` is that line; or None, ''."""

    type: str
    message: str
    line: int | None
    text: str


@dataclass(frozen=True)
class Unusable:
    """A returned value that cannot be encoded: ``sentence`` goes on after "it returned", such as "a generator: …"."""

    sentence: str


@dataclass(frozen=True)
class Stopped:
    """Why a run ended early.

    ``reason`` is time, memory, printing, exit, crash, import, syntax, definition (an exception before the function
    was there, or no function of that name) or tampering; ``sentence`` tells the student in one line.
    """

    reason: str
    sentence: str


@dataclass(frozen=True)
class Outcome:
    """The results of the calls.

    ``values`` holds, for each finished call in order, the value, a :class:`Raised` or an :class:`Unusable`; ``stopped``
    says why calls are missing, or, where none is, that the code tampered or printed too much; ``changed`` are the
    indices of the calls that changed their arguments in place; ``printed`` is the beginning of the output, 2 kB at
    most; ``seconds`` is the time it all took; ``fences`` are those of the kernel that stood, such as "seccomp";
    ``skipped`` says why not all that stands above the calls has run, "" if it has.
    """

    values: tuple
    stopped: Stopped | None
    changed: tuple[int, ...]
    printed: str
    seconds: float
    fences: tuple[str, ...] = ()
    skipped: str = ""
