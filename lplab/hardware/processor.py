"""The processor of this machine, as far as the system tells it: what measured times and stored numbers name."""

from __future__ import annotations

import platform
from pathlib import Path


def processor() -> tuple[str, set[str]]:
    """The processor's name and its instruction sets; off Linux no sets.

    >>> name, flags = processor()
    >>> bool(name)
    True
    """
    try:
        lines = [line.split(":", 1) for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines() if ":" in line]
    except OSError:  # not Linux
        return platform.processor() or platform.machine(), set()
    about = {key.strip(): value.strip() for key, value in lines}
    flags = about.get("flags", about.get("Features", ""))
    return about.get("model name") or platform.processor() or platform.machine(), set(flags.split())
