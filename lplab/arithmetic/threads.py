"""Our own threads for compiled loops, which release Python's lock while they run.

numba's parallel loops are not used: their OpenMP layer changes torch's thread count, and a forked child that comes near
it is killed. A pool of ours does not survive a fork either, so the child drops it and makes a new one when needed.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

PIECES = 6  # for each thread: more cost more calls, fewer leave a thread waiting for longer
_pools: dict[int, ThreadPoolExecutor] = {}


def default_threads() -> int:
    """As many as torch would use, or else one for each processor that this process may use."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def share_out(work: Callable[[int, int], Any], count: int, threads: int, least: int = 1) -> None:
    """Call ``work(first, last)`` for consecutive pieces of 0 … count, on several threads; wait for all.

    Each thread takes the next piece when it is done with one: another program on its processor, or torch's own threads,
    which keep busy for milliseconds after their work, hold up one piece and not half of everything.

    Args:
        work: releases Python's lock.
        count: of what is to be done.
        threads: how many; this one is one of them.
        least: in a piece, unless there would be fewer pieces than threads.

    >>> done = []
    >>> share_out(lambda first, last: done.append((first, last)), 10, 3, least=4)
    >>> sorted(done)
    [(0, 3), (3, 6), (6, 10)]
    """
    threads = min(threads, count)
    if threads < 2:
        work(0, count)
        return
    pieces = max(threads, min(PIECES * threads, count // least))
    cuts = [count * i // pieces for i in range(pieces + 1)]
    left = deque(pairwise(cuts))

    def take_pieces() -> None:
        while left:
            try:
                piece = left.popleft()
            except IndexError:  # another thread has just taken the last one
                return
            work(*piece)

    others = [_pool(threads).submit(take_pieces) for _ in range(threads - 1)]
    take_pieces()
    for other in others:
        other.result()


def _pool(threads: int) -> ThreadPoolExecutor:
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="lplab")
    return _pools[threads]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # their threads stayed behind in the parent
