"""The compressors as a communication hook of PyTorch's DistributedDataParallel.

    state = HookState(ddp_model, ScaleCom(chunk=100))
    ddp_model.register_comm_hook(state, compress_hook)       # or in one call: ddp_hook(ddp_model, ScaleCom(chunk=100))
    ...
    loss.backward()
    state.apply(optimizer)                                   # instead of optimizer.step(): skips the steps that all
                                                             # ranks must skip

Each parameter is compressed by itself; only the messages of a bucket are fused, so PyTorch may rebuild its buckets.
With find_unused_parameters PyTorch discards the average of a parameter that no rank used in a step, and with it the
values sent from its residual: for models that drop layers at random use the simulator. Communication does not overlap
with the backward pass. Tested over gloo; with NCCL the same bytes pass through the GPU, which is not tested.

This module needs PyTorch. It does not import annotations from __future__: PyTorch compares the hook's annotations as
objects.
"""

from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lplab.compression import Compressor, Context, Entry, TrafficLog
from lplab.compression.compressor import Steps
from lplab.compression.exchange import payload_bytes
from lplab.parallel.collectives import ProcessGroupTransport
from lplab.parallel.error_feedback import ErrorFeedbackState
from lplab.parallel.layers import layer_infos
from lplab.parallel.state_tensors import as_arrays, as_tensors


class HookState:
    """The state of the hook between steps.

    Args:
        model: a DistributedDataParallel model.
        compressor: of :mod:`lplab.compression`; ``DenseIfSmall(TopK(0.01))`` sends small tensors dense, as AdaComp
            and ScaleCom do.
        process_group: None for the default one.
        ordered: whether values are summed in the order of ranks, with the simulator's bits; else by ``all_reduce``.
        seed: of all random numbers, the same on all ranks.
        example: an input, for compressors that use ``LayerInfo.weight_reuse``.
        scaler: a ``torch.amp.GradScaler``, if the loss is scaled: residuals are stored unscaled.
        keep_ledger: whether the payloads of this rank are logged.

    Attributes:
        skipped: whether a gradient was not finite on some rank in the last step. Then no residual has changed, and the
            gradients are not valid: those of the bad bucket are zero (infinite with a scaler, to lower its scale).
        ledger: traffic log of this rank; of a skipped step it has the buckets before the bad one.

    Raises:
        TypeError: not a DistributedDataParallel model (FSDP and compiled models pass gradients in other ways), or one
            with complex parameters.
    """

    def __init__(
        self,
        model: nn.Module,
        compressor: Compressor,
        process_group: Any = None,
        *,
        ordered: bool = True,
        seed: int = 0,
        example: Any = None,
        scaler: Any = None,
        keep_ledger: bool = True,
    ) -> None:
        if not isinstance(model, DistributedDataParallel):
            raise TypeError(
                f"lplab's hook is for DistributedDataParallel, got {type(model).__name__}; FSDP and torch.compile "
                "pass gradients in other ways: wrap the original model in DistributedDataParallel"
            )
        inner = model.module
        if any(hasattr(m, "_orig_mod") or getattr(m, "_compiled_call_impl", None) for m in model.modules()):
            raise TypeError("a model under torch.compile is not supported: wrap the original model")
        if any(p.is_complex() for p in inner.parameters() if p.requires_grad):
            raise TypeError("complex parameters are not supported: gradients are sent as real float32 values")
        self.model = model
        self.transport = ProcessGroupTransport(process_group, ordered)
        self.states = ErrorFeedbackState(compressor, layer_infos(inner, example))
        self.names = {id(p): name for name, p in inner.named_parameters()}
        self.seed, self.scaler = seed, scaler
        self.ledger: TrafficLog | None = TrafficLog() if keep_ledger else None
        self.step, self.skipped = 0, False
        self._finite = True

    def apply(self, optimizer: torch.optim.Optimizer) -> bool:
        """``optimizer.step()``, unless this step is skipped; whether it was made."""
        if self.scaler is not None:
            self.scaler.step(optimizer)  # it skips infinite gradients, and needs to see them
        elif not self.skipped:
            optimizer.step()
        return not self.skipped

    def state_dict(self) -> dict[str, Any]:
        """The state of this rank, to resume bit for bit: one file for each rank."""
        saved = as_tensors(self.states.state_dict())
        return {"step": self.step, "world": self.transport.world, "rank": self.transport.rank, **saved}

    def portable_state_dict(self) -> dict[str, Any]:
        """The mean of all ranks' states, equal on all of them: one file, for any number of ranks."""
        saved = self.states.state_dict()
        for arrays in saved["layers"].values():
            for name, array in arrays.items():
                total = torch.from_numpy(array.copy()).to(self.transport.device)
                dist.all_reduce(total, group=self.transport.group)
                arrays[name] = total.cpu().numpy() / np.float32(self.transport.world)
        return {"step": self.step, "world": None, "rank": None, **as_tensors(saved)}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Resume from :meth:`state_dict` of the same rank, or on any number of ranks from :meth:`portable_state_dict`.

        The result of :func:`~lplab.parallel.error_feedback.merge_ranks` is accepted like the latter.

        Raises:
            ValueError: the state of another rank, or of another number of ranks.
        """
        here = (self.transport.world, self.transport.rank)
        if saved["world"] is not None and (saved["world"], saved["rank"]) != here:
            raise ValueError(
                f"this is the state of rank {saved['rank']} of {saved['world']}, here is rank {here[1]} of {here[0]}; "
                "for another number of ranks save portable_state_dict(), or call merge_ranks() with the states of all"
            )
        self.states.load_state_dict(as_arrays(saved))
        self.step = saved["step"]

    # -- called by the hook -----------------------------------------------------------------------------------

    def average(self, names: list[str], gradients: list[np.ndarray]) -> list[np.ndarray]:
        """The averages of one bucket: the generators of its layers run in lockstep, with fused requests."""
        runs = [self._run(name, gradient) for name, gradient in zip(names, gradients, strict=True)]
        averages: list[Any] = [None] * len(runs)
        running, results = list(range(len(runs))), [None] * len(runs)
        while running:
            requests = []
            for i in running:
                try:
                    requests.append((i, runs[i].send(results[i])))
                except StopIteration as stop:
                    averages[i] = stop.value
            running = [i for i, _ in requests]
            for (i, request), result in zip(requests, self.transport.perform([r for _, r in requests]), strict=True):
                results[i] = result
                self._log(names[i], request)
        return averages

    def _run(self, name: str, gradient: np.ndarray) -> Steps:
        context = Context(self.transport.rank, self.transport.world, self.step, name, self.seed)
        return self.states.compressors[name].steps(gradient, self.states.states[name], context)

    def _log(self, name: str, request: Any) -> None:
        nbytes = payload_bytes(request)
        if self.ledger is not None and nbytes is not None:
            self.ledger.entries.append(Entry(self.step, name, request.kind, self.transport.rank, nbytes))

    def bucket_done(self, finite: bool, is_last: bool) -> None:
        """Record a bucket; after the last one of a step, commit or roll back."""
        self._finite &= finite
        if not is_last:
            return
        if self._finite:
            self.states.commit()
        else:
            self.states.rollback()
        self.skipped, self._finite = not self._finite, True
        self.step += 1


def compress_hook(state, bucket):
    """For ``register_comm_hook``: takes a HookState and a GradBucket, returns a Future of the averaged buffer."""
    if state.model._join_config.enable:
        raise RuntimeError(
            "join() is not supported: ranks without data would still lead and send their residuals; "
            "give all ranks equally many batches"
        )
    buffer = bucket.buffer()
    if buffer.is_sparse:
        raise TypeError("sparse gradients are not supported: make embeddings with sparse=False")
    views = bucket.gradients()
    names = [state.names[id(p)] for p in bucket.parameters()]
    scale = 1.0 if state.scaler is None else float(state.scaler.get_scale())
    gradients = [_as_numpy(view, scale) for view in views]
    finite = state.transport.all_true(all(bool(np.isfinite(g).all()) for g in gradients))
    if finite:
        for view, average in zip(views, state.average(names, gradients), strict=True):
            view.copy_(torch.from_numpy(average).to(view.device) * scale)
    else:
        buffer.fill_(0 if state.scaler is None else float("inf"))
    state.bucket_done(finite, bucket.is_last())
    future = torch.futures.Future()
    future.set_result(buffer)
    return future


def ddp_hook(model: DistributedDataParallel, compressor: Compressor, **options: Any) -> HookState:
    """Make a HookState and register the hook; options as for :class:`HookState`."""
    state = HookState(model, compressor, **options)
    model.register_comm_hook(state, compress_hook)
    return state


def _as_numpy(gradient: torch.Tensor, scale: float) -> np.ndarray:
    """An unscaled gradient as a float32 array, copied where necessary."""
    scaled = gradient.detach().float().cpu()
    return (scaled / scale if scale != 1 else scaled).contiguous().numpy()
