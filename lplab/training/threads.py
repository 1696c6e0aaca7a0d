"""One BLAS thread for small matrices: more of them wait for each other longer than they work.

On a machine that also does something else the product of a 100 × 128 and a 128 × 128 matrix on two threads takes up to
thirty times as long as on one. The result is the same: the sums are exact.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_inside = 0  # how many blocks are open, in all threads: the first sets the limit, the last takes it back
_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within the block, BLAS uses one thread, in the whole process; without the package threadpoolctl nothing changes.

    >>> with one_blas_thread():
    ...     pass
    """
    global _inside, _limit
    with _lock:
        if _inside == 0:
            controller = _controller()
            _limit = controller.limit(limits=1, user_api="blas") if controller else None
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None


@cache
def _controller() -> Any:
    """The BLAS libraries of this process, looked for once; None without threadpoolctl."""
    try:
        from threadpoolctl import ThreadpoolController
    except ModuleNotFoundError:
        return None
    return ThreadpoolController()
