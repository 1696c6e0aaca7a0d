"""What this machine offers to fence student code, in words: for ``lplab doctor`` and for the marks."""

from lplab.exercises.isolation import landlock, seccomp

ACCIDENTS = "accidents only: this system offers neither Landlock nor seccomp; see lplab grade --in-container"


def offered() -> dict[str, str | None]:
    """The two fences of the kernel, each with what it closes here; None for one that is not offered.

    >>> list(offered())
    ['Landlock', 'seccomp']
    """
    version = landlock.abi()
    also = ", TCP" * (version >= 4) + ", signals and abstract sockets" * (version >= 6)
    return {
        "Landlock": f"version {version}: closes all files but Python's and the answer's own{also}" if version else None,
        "seccomp": "closes processes, programs, signals, sockets, tracing" if seccomp.available() else None,
    }


def summary() -> str:
    """The fence in one line. What is offered stands around every answer, or the answer is not judged."""
    found = offered()
    if not any(found.values()):
        return ACCIDENTS
    return "; ".join(
        f"{name} {what}"
        if what
        else f"no {name}, so not all is closed: see “What the fence promises” in docs/teaching.md"
        for name, what in found.items()
    )
