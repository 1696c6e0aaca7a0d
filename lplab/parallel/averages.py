"""The compressors of all layers on one rank: averages over a process group, residuals, steps, traffic.

The hooks of DistributedDataParallel (``hook.py``) and of FSDP (``fsdp.py``) hand their gradients to this class.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lplab.compression import Context, Entry, NotFiniteError, TrafficLog
from lplab.compression.compressor import Request, Steps, all_finite
from lplab.compression.exchange import payload_bytes, steps_of
from lplab.parallel.collectives import ProcessGroupTransport
from lplab.parallel.error_feedback import ErrorFeedbackState

KEPT_ENTRIES = 20_000  # of the traffic log, some 5 MB; ResNet-50 has 322 in a step


class CompressedAverages:
    """The state between steps.

    Args:
        transport: to the other ranks.
        states: of the compressors.
        seed: of all random numbers, the same on all ranks.
        keep_ledger: whether the payloads of this rank are logged: all in sums, the last KEPT_ENTRIES one by one.

    Attributes:
        step: the number of steps.
        skipped: whether a gradient, or what was made of it, was not finite on some rank in the last step. Then no
            residual has changed.
        finite: whether all buckets of the running step have been finite so far.
        not_finite: what was not finite in the last step that was skipped, and on which rank; None: none was skipped.
        ledger: traffic log of this rank, or None.
    """

    def __init__(
        self, transport: ProcessGroupTransport, states: ErrorFeedbackState, seed: int, keep_ledger: bool
    ) -> None:
        self.transport, self.states, self.seed = transport, states, seed
        self.ledger: TrafficLog | None = TrafficLog(keep=KEPT_ENTRIES) if keep_ledger else None
        self.step, self.skipped = 0, False
        self.finite = True
        self.not_finite: str | None = None

    def load(self, saved: Mapping[str, Any], step: int) -> None:
        """Begin anew from saved states: what an unfinished step has left, and the traffic log, are forgotten.

        Args:
            saved: as :meth:`ErrorFeedbackState.load_state_dict` takes it.
            step: the number of steps.

        Raises:
            ValueError: a state that does not fit; then nothing has changed.
        """
        self.states.load_state_dict(saved)
        self.step, self.skipped = step, False
        self.finite, self.not_finite = True, None
        if self.ledger is not None:
            self.ledger.clear()

    def average_if_finite(self, names: list[str], gradients: list[Any]) -> list[Any] | None:
        """The averages of one bucket; None on all ranks, if one of them has a gradient or a message that is not finite.

        Also if the sum over the ranks is not.
        """
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return self.average(names, gradients)
        except NotFiniteError as problem:
            self.not_finite = f"{problem} in step {self.step}"
            return None

    def average(self, names: list[str], gradients: list[Any]) -> list[Any]:
        """The averages of one bucket: the generators of its layers run in lockstep, with fused requests.

        Raises:
            NotFiniteError: a gradient on one rank, or what is made of it; or a sum or an average. On all ranks.
        """
        averages: list[Any] = [None] * len(names)
        runs, requests = self._begun(names, gradients, averages)
        bucket = f", in the bucket {', '.join(names)}"
        while requests:
            try:
                results = self.transport.perform([*requests.values()])
            except NotFiniteError as problem:
                raise NotFiniteError(f"{problem}{bucket}") from None
            for i, request in requests.items():
                self._log(names[i], request)
            received, requests = dict(zip(requests, results, strict=True)), {}
            for i, result in received.items():
                try:
                    requests[i] = runs[i].send(result)
                except StopIteration as stop:
                    averages[i] = stop.value
                except NotFiniteError as problem:
                    late = "raised after the first request, when the other ranks no longer skip the step"
                    raise RuntimeError(f"{names[i]}: {problem} ({late})") from problem
        if not all(map(all_finite, averages)):
            raise NotFiniteError(f"an average over {self.transport.world} ranks is too large for float32{bucket}")
        return averages

    def _begun(
        self, names: list[str], gradients: list[Any], averages: list[Any]
    ) -> tuple[list[Steps], dict[int, Request]]:
        """The generators and what each requests first; one that requests nothing has its average already.

        Raises:
            NotFiniteError: that is not possible on some rank; on all ranks.
        """
        runs: list[Steps] = []
        requests: dict[int, Request] = {}
        bad = [name for name, gradient in zip(names, gradients, strict=True) if not all_finite(gradient)]
        which = f"the gradient of {', '.join(bad)}"
        for i, (name, gradient) in enumerate(zip(names, gradients, strict=True)):
            if bad:
                break
            compressor, state = self.states.compressors[name], self.states.states[name]
            context = Context(self.transport.rank, self.transport.world, self.step, name, self.seed)
            runs.append(steps_of(compressor, gradient, state, context))
            try:
                requests[i] = next(runs[i])
            except StopIteration as stop:
                averages[i] = stop.value
            except NotFiniteError:
                bad, which = [name], f"what {compressor!r} makes of the gradient of {name}"
        rank = self.transport.first_rank_with(bool(bad))
        if bad:
            raise NotFiniteError(f"{which} on rank {self.transport.rank}")
        if rank is not None:
            raise NotFiniteError(f"a gradient of the bucket {', '.join(names)} on rank {rank}")
        return runs, requests

    def are_finite(self, averages: Tensor, names: list[str]) -> bool:
        """Whether averages are still finite in the dtype and with the loss scale of the gradients; as on all ranks."""
        if all_finite(averages):
            return True
        dtype = str(averages.dtype).removeprefix("torch.")
        self.not_finite = f"an average is too large for {dtype}, in the bucket {', '.join(names)} in step {self.step}"
        return False

    def _log(self, name: str, request: Any) -> None:
        nbytes = payload_bytes(request)
        if self.ledger is not None and nbytes is not None:
            self.ledger.append(Entry(self.step, name, request.kind, self.transport.rank, nbytes))

    def bucket_done(self, finite: bool, is_last: bool) -> None:
        """Record a bucket; after the last one of a step, commit or roll back."""
        self.finite &= finite
        if not is_last:
            return
        if self.finite:
            self.states.commit()
        else:
            self.states.rollback()
        self.skipped, self.finite = not self.finite, True
        self.step += 1


def after_backward(work: Callable[[], None]) -> None:
    """Call ``work`` at the end of the running backward pass, after PyTorch has written the averages to the gradients.

    For hooks of the last bucket: DistributedDataParallel queues a callback of its own after it, FSDP before it.
    """
    queue = torch.autograd.Variable._execution_engine.queue_callback
    queue(lambda: queue(work))  # the inner one is later than all that are queued by then
