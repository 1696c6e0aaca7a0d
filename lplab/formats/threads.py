"""A thread pool for compiled loops, which release the GIL while they run.

numba's parallel loops are not used: their OpenMP layer changes torch's thread count, and it kills forked children that
use it. A Python thread pool does not survive a fork either, so a forked child drops it and makes a new one when needed.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

PIECES_PER_THREAD = 6  # more pieces cost more calls; with fewer, threads wait longer for the last one
PIECE = 2**12  # numbers: pieces begin at multiples of so many
MIN_ELEMENTS_TO_SHARE = 2**18  # fewer are rounded by one thread
_pools: dict[int, Any] = {}


def default_threads() -> int:
    """torch's thread count if torch is loaded; else ``OMP_NUM_THREADS``, or the processors this process may use."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def parallel_for(work: Callable[[int, int], Any], count: int, threads: int, min_piece: int = 1) -> None:
    """Call ``work(first, last)`` for consecutive pieces of 0 … count, on several threads; wait for all.

    Each thread takes the next piece when it has finished one. So another program on its processor, or torch's own
    threads, which spin for milliseconds after their work, delay one piece and not half of the work.

    Args:
        work: a function that releases the GIL.
        count: number of items.
        threads: number of threads, the calling one included.
        min_piece: items in a piece at least, unless there would be fewer pieces than threads.

    >>> done = []
    >>> parallel_for(lambda first, last: done.append((first, last)), 10, 3, min_piece=4)
    >>> sorted(done)
    [(0, 3), (3, 6), (6, 10)]
    """
    threads = min(threads, count)
    if threads < 2:
        work(0, count)
        return
    pieces = max(threads, min(PIECES_PER_THREAD * threads, count // min_piece))
    cuts = [count * i // pieces for i in range(pieces + 1)]
    waiting = deque(pairwise(cuts))

    def take_pieces() -> None:
        while waiting:
            try:
                piece = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            work(*piece)

    others = [_pool(threads).submit(take_pieces) for _ in range(threads - 1)]
    take_pieces()
    for other in others:
        if not other.cancel():  # one that has not begun has nothing left to do
            other.result()


def share(work: Callable[[int, int], Any], count: int, unit: int = 1) -> None:
    """Call ``work(first, last)`` for consecutive pieces of ``count`` items: on one thread, or as many as torch has.

    Pieces begin at multiples of ``PIECE`` numbers, and threads share only what is worth it.

    Args:
        work: a function that releases the GIL.
        count: how many items there are.
        unit: how many numbers an item has.
    """
    if count * unit < MIN_ELEMENTS_TO_SHARE or (threads := default_threads()) < 2:
        work(0, count)
        return
    size = max(1, PIECE // unit)
    pieces, least = -(-count // size), MIN_ELEMENTS_TO_SHARE // 4 // (size * unit)
    parallel_for(lambda first, last: work(size * first, min(size * last, count)), pieces, threads, max(1, least))


def _pool(threads: int) -> Any:
    if threads not in _pools:
        from concurrent.futures import ThreadPoolExecutor  # slow to import; most processes need none

        _pools[threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="lplab")
    return _pools[threads]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # the threads exist in the parent only
