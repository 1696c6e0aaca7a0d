"""Our own threads for compiled loops, which release Python's lock while they run.

numba's parallel loops are not used: their OpenMP layer changes torch's thread count, and a forked child that comes near
it is killed. A pool of ours does not survive a fork either, so the child drops it and makes a new one when needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

_pools: dict[int, ThreadPoolExecutor] = {}


def default_threads() -> int:
    """As many as torch would use, or else one for each processor that this process may use."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def share_out(work: Callable[[int, int], Any], count: int, threads: int) -> None:
    """Call ``work(first, last)`` for consecutive parts of 0 … count, each on a thread of its own; wait for all.

    >>> done = []
    >>> share_out(lambda first, last: done.append((first, last)), 10, 3)
    >>> sorted(done)
    [(0, 3), (3, 6), (6, 10)]
    """
    threads = min(threads, count)
    if threads < 2:
        work(0, count)
        return
    cuts = [count * i // threads for i in range(threads + 1)]
    parts = [_pool(threads).submit(work, first, last) for first, last in pairwise(cuts[1:])]
    work(cuts[0], cuts[1])  # this thread is one of them
    for part in parts:
        part.result()


def _pool(threads: int) -> ThreadPoolExecutor:
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="lplab")
    return _pools[threads]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # their threads stayed behind in the parent
