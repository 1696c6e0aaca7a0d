"""One thread for small matrices: several threads wait for each other longer than they compute.

On a machine with other work, the product of a 100 × 128 and a 128 × 128 matrix on two threads takes up to
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


_torch_inside = 0  # how many blocks of torch_threads are open, in all threads
_torch_threads = 1


@contextmanager
def torch_threads(count: int = 1) -> Iterator[None]:
    """Within the block, PyTorch computes with so many threads: in this thread, and in threads started within it.

    A Transformer's step of 30 ms on two threads takes up to 3 s where a browser draws beside it: each of some thousand
    small products waits for both. Counts and sums are alike up to the order of additions.

    >>> import torch
    >>> with torch_threads(1):
    ...     torch.get_num_threads()
    1
    """
    global _torch_inside, _torch_threads
    import torch

    with _lock:
        if _torch_inside == 0:
            _torch_threads = torch.get_num_threads()
        _torch_inside += 1
        torch.set_num_threads(count)
    try:
        yield
    finally:
        with _lock:
            _torch_inside -= 1
            if _torch_inside == 0:
                torch.set_num_threads(_torch_threads)


@cache
def _controller() -> Any:
    """The BLAS libraries of this process, searched once; None without threadpoolctl."""
    try:
        from threadpoolctl import ThreadpoolController
    except ModuleNotFoundError:
        return None
    return ThreadpoolController()
