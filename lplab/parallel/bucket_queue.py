"""One thread that exchanges the buckets of a backward pass, in the order in which they are handed over.

The backward pass hands a bucket over when its gradients are there, receives a Future of the averages at once, and goes
on. The collectives of different ranks belong together by their order alone. DistributedDataParallel hands its buckets
over in the same order on all ranks, and one thread keeps that order; several threads would not.

This module needs PyTorch. It does not import annotations from __future__, as hook.py.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor


class BucketQueue:
    """A thread, and the first error in it.

    Attributes:
        error: of the first bucket that failed; no later bucket is exchanged, since the other ranks may be elsewhere.

    >>> queue, buffer = BucketQueue(), torch.ones(2)
    >>> queue.submit(lambda: buffer.mul_(3), buffer).wait()
    tensor([3., 3.])
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lplab hook")
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def submit(self, exchange: Callable[[], object], buffer: Tensor) -> torch.futures.Future:
        """Have ``exchange`` called in the thread; a Future of ``buffer``, into which it writes.

        The Future is completed in any case: DistributedDataParallel waits for all buckets, and is left in an odd state
        by one whose result is an exception. The caller raises ``error`` after the backward pass.
        """
        if not buffer.is_cuda:
            future: torch.futures.Future = torch.futures.Future()
            self._thread.submit(self._run, exchange, buffer, future)
            return future
        future = torch.futures.Future(devices=[buffer.device])
        if buffer.device not in self._streams:
            self._streams[buffer.device] = torch.cuda.Stream(buffer.device)
        ready = torch.cuda.current_stream(buffer.device).record_event()
        self._thread.submit(self._run_on_gpu, exchange, buffer, future, ready)
        return future

    def wait(self) -> None:
        """Return when nothing is left to exchange."""
        self._thread.submit(int).result()

    def close(self) -> None:
        """End the thread, after what it still has to exchange."""
        self._thread.shutdown()

    def _run(self, exchange: Callable[[], object], buffer: Tensor, future: torch.futures.Future) -> None:
        try:
            if self.error is None:
                with torch.no_grad():
                    exchange()
        except Exception as error:
            self.error = error
        _complete(future, buffer)

    def _run_on_gpu(
        self, exchange: Callable[[], object], buffer: Tensor, future: torch.futures.Future, ready: torch.cuda.Event
    ) -> None:
        """Run ``exchange`` on a stream of this thread's own: it waits for the gradients, and the Future for it."""
        try:
            with torch.cuda.device(buffer.device), torch.cuda.stream(self._streams[buffer.device]):
                ready.wait()
                self._run(exchange, buffer, future)
        # An error of the device: _run itself raises none.
        except Exception as error:
            self.error = error
            _complete(future, buffer)


def _complete(future: torch.futures.Future, buffer: Tensor) -> None:
    """Give the Future its result; if that fails, as it may on a device in error, the exception for a result."""
    if future.done():
        return
    try:
        future.set_result(buffer)
    except Exception as error:
        future.set_exception(error)
