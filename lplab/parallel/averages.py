"""The compressors of all layers on one rank: averages over a process group, residuals, steps, traffic.

The hooks of DistributedDataParallel (``hook.py``) and of FSDP (``fsdp.py``) hand their gradients to this class.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lplab.compression import Context, NotFiniteError, TrafficLog
from lplab.compression.compressor import Request, all_finite
from lplab.compression.exchange import LayerRuns, run_in_lockstep, steps_of
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
        transport, layers = self.transport, []
        for name, gradient in zip(names, gradients, strict=True):
            context = Context(transport.rank, transport.world, self.step, name, self.seed)
            run = steps_of(self.states.compressors[name], gradient, self.states.states[name], context)
            layers.append(LayerRuns(context, [run].__getitem__))
        sent, agreed = TrafficLog(), False

        def perform(requests: Sequence[Iterable[Request]]) -> list[Any]:
            nonlocal agreed
            if not agreed:
                agreed, rank = True, transport.first_rank_with(False)
                if rank is not None:
                    raise NotFiniteError(f"a gradient is not finite on rank {rank}")
            return transport.perform([request for [request] in requests])

        bucket = ", ".join(names)
        try:
            averages = run_in_lockstep(layers, perform, sent)
        except NotFiniteError as problem:
            if agreed:
                raise NotFiniteError(f"{problem}, in the bucket {bucket}") from None
            transport.first_rank_with(True)
            bad = [name for name, gradient in zip(names, gradients, strict=True) if not all_finite(gradient)]
            made = f"what {self.states.compressors[problem.layer or '']!r} makes of the gradient of {problem.layer}"
            which = f"the gradient of {', '.join(bad)}" if bad else made
            raise NotFiniteError(f"{which} on rank {transport.rank}") from None
        if self.ledger is not None:
            for entry in sent.entries:
                self.ledger.append(entry)
        return averages

    def are_finite(self, averages: Tensor, names: list[str]) -> bool:
        """Whether averages are still finite in the dtype and with the loss scale of the gradients; as on all ranks."""
        if all_finite(averages):
            return True
        dtype = str(averages.dtype).removeprefix("torch.")
        self.not_finite = f"an average is too large for {dtype}, in the bucket {', '.join(names)} in step {self.step}"
        return False

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
