"""The compressors as a communication hook of PyTorch's DistributedDataParallel.

    hook = ddp_hook(ddp_model, "scalecom:chunk=112")         # or a compressor: ScaleCom(chunk=112)
    ...
    loss.backward()
    optimizer.step()                                         # as always

If a gradient is not finite on some rank, all ranks skip the step: after the backward pass the gradients are None, which
every optimizer of PyTorch passes over. With a ``GradScaler``, give it to the hook; ``scaler.step(optimizer)`` then
skips the same steps on all ranks.

Each parameter is compressed by itself; only the messages of a bucket are fused, so PyTorch may rebuild its buckets.
Gradients on a GPU are compressed there (see :mod:`lplab.compression.tensors`), those on the CPU by numpy. With
find_unused_parameters PyTorch discards the average of a parameter that no rank used in a step, and with it the values
sent from its residual: for models that drop layers at random use the simulator. Communication does not overlap with the
backward pass. Tested over gloo; with NCCL the same bytes pass through the GPU, which is not tested.

This module needs PyTorch. It does not import annotations from __future__: PyTorch compares the hook's annotations as
objects.
"""

import os
import re
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lplab.compression import Compressor, Context, Entry, TrafficLog, catalogue
from lplab.compression.compressor import Steps
from lplab.compression.exchange import payload_bytes, steps_of
from lplab.compression.tensors.selection import divided
from lplab.parallel.collectives import ProcessGroupTransport
from lplab.parallel.error_feedback import ErrorFeedbackState, merge_ranks
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
        on_device: whether gradients are compressed on their own device; None: those on a GPU. The bits are the same;
            on a CPU numpy is faster.

    Attributes:
        skipped: whether a gradient was not finite on some rank in the last step. Then no residual has changed, and the
            gradients are None after the backward pass; with a scaler those of the bad bucket are infinite, to lower
            its scale.
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
        on_device: bool | None = None,
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
        trained = {name: p for name, p in inner.named_parameters() if p.requires_grad}
        self.devices = {n: p.device for n, p in trained.items() if (p.is_cuda if on_device is None else on_device)}
        self.states = ErrorFeedbackState(compressor, layer_infos(inner, example), self.devices)
        self.names = {id(p): name for name, p in inner.named_parameters()}
        self.seed, self.scaler = seed, scaler
        self.ledger: TrafficLog | None = TrafficLog() if keep_ledger else None
        self.step, self.skipped = 0, False
        self._finite = True

    def apply(self, optimizer: torch.optim.Optimizer) -> bool:
        """``optimizer.step()``, or ``scaler.step(optimizer)``, as if called directly; whether the step was made."""
        if self.scaler is not None:
            self.scaler.step(optimizer)  # it skips infinite gradients, and needs to see them
        elif not self.skipped:
            optimizer.step()
        return not self.skipped

    def state_dict(self) -> dict[str, Any]:
        """The state of this rank, to resume bit for bit: one file for each rank.

        For torch.distributed.checkpoint use :meth:`checkpoint`: it takes equal names on all ranks for one tensor.
        """
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

    def checkpoint(self, folder: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """The state for torch.distributed.checkpoint, which saves it with a model and loads it on any number of ranks.

            dcp.save({"model": model.state_dict(), "hook": hook.checkpoint()}, checkpoint_id=folder)
            ...
            saved = {"model": model.state_dict(), "hook": hook.checkpoint(folder)}
            dcp.load(saved, checkpoint_id=folder)
            hook.load_state_dict(saved["hook"])

        With as many ranks as before, each resumes with its own residuals, bit for bit. With another number each takes
        the mean of all residuals, so that the mean over the ranks stays: it is the part of the update that is still to
        come. For that, each rank reads the states of all ranks that saved.

        Args:
            folder: None to save; to load, the checkpoint, whose number of ranks decides what is read.

        Raises:
            ValueError: no state of a hook in the checkpoint.
        """
        here = (self.transport.rank, self.transport.world)
        saved = [here] if folder is None else _saved_ranks(folder)
        common = as_tensors(self.states.state_dict())
        layers = common.pop("layers")
        return {
            **common,
            "ranks": {
                "rank {} of {}".format(*rank): {
                    "step": torch.tensor(self.step),
                    "layers": {n: {k: a.clone() for k, a in arrays.items()} for n, arrays in layers.items()},
                }
                for rank in ([here] if here in saved else saved)
            },
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Resume from :meth:`state_dict` of the same rank, or on any number of ranks from :meth:`portable_state_dict`.

        The results of :func:`~lplab.parallel.error_feedback.merge_ranks` and of :meth:`checkpoint` are accepted, too.

        Raises:
            ValueError: the state of another rank, or of another number of ranks.
        """
        if "ranks" in saved:
            common = {"version": saved["version"], "compressor": saved["compressor"], "world": None, "rank": None}
            states = [as_arrays({**common, **one, "step": int(one["step"])}) for one in saved["ranks"].values()]
            saved = states[0] if len(states) == 1 else merge_ranks(states)
        here = (self.transport.world, self.transport.rank)
        if saved["world"] is not None and (saved["world"], saved["rank"]) != here:
            raise ValueError(
                f"this is the state of rank {saved['rank']} of {saved['world']}, here is rank {here[1]} of {here[0]}; "
                "for another number of ranks save portable_state_dict(), or call merge_ranks() with the states of all"
            )
        self.states.load_state_dict(as_arrays(saved))
        self.step = saved["step"]

    # -- called by the hook -----------------------------------------------------------------------------------

    def average(self, names: list[str], gradients: list[Any]) -> list[Any]:
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

    def unscaled(self, name: str, gradient: Tensor, scale: float) -> Any:
        """The float32 gradient without its loss scale: a tensor where it is compressed on its device, else an array."""
        if name not in self.devices:
            return _as_numpy(gradient, scale)
        scaled = gradient.detach().float()
        return (divided(scaled, scale) if scale != 1 else scaled).contiguous()

    def _run(self, name: str, gradient: Any) -> Steps:
        context = Context(self.transport.rank, self.transport.world, self.step, name, self.seed)
        return steps_of(self.states.compressors[name], gradient, self.states.states[name], context)

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


def _drop_gradients(model: nn.Module) -> None:
    """Set all gradients to None at the end of the running backward pass, after DDP has written its averages there."""
    queue = torch.autograd.Variable._execution_engine.queue_callback

    def drop() -> None:
        for parameter in model.parameters():
            parameter.grad = None

    queue(lambda: queue(drop))  # DDP queues its own callback after the hook of the last bucket: the inner one is later


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
    gradients = [state.unscaled(name, view, scale) for name, view in zip(names, views, strict=True)]
    finite = state.transport.all_true(all(_is_finite(g) for g in gradients))
    if finite:
        for view, average in zip(views, state.average(names, gradients), strict=True):
            view.copy_(torch.as_tensor(average, device=view.device) * scale)
    else:
        buffer.fill_(0 if state.scaler is None else float("inf"))
    state.bucket_done(finite, bucket.is_last())
    if bucket.is_last() and state.skipped and state.scaler is None:
        _drop_gradients(state.model)
    future = torch.futures.Future()
    future.set_result(buffer)
    return future


def ddp_hook(model: DistributedDataParallel, compressor: Compressor | str, **options: Any) -> HookState:
    """Make a HookState and register the hook.

    Args:
        model: a DistributedDataParallel model.
        compressor: of :mod:`lplab.compression`, or its name and settings, as in "scalecom:chunk=112".
        **options: as for :class:`HookState`.

    Raises:
        ValueError: an unknown name or setting.
        TypeError: as for :class:`HookState`.
    """
    state = HookState(model, catalogue.get(compressor) if isinstance(compressor, str) else compressor, **options)
    model.register_comm_hook(state, compress_hook)
    return state


def _as_numpy(gradient: torch.Tensor, scale: float) -> np.ndarray:
    """An unscaled gradient as a float32 array, copied where necessary."""
    scaled = gradient.detach().float().cpu()
    return (scaled / scale if scale != 1 else scaled).contiguous().numpy()


def _is_finite(gradient: Any) -> bool:
    return bool((np if isinstance(gradient, np.ndarray) else torch).isfinite(gradient).all())


def _saved_ranks(folder: str | os.PathLike[str]) -> list[tuple[int, int]]:
    """The ranks, each with the number of all, whose states a checkpoint holds."""
    from torch.distributed.checkpoint import FileSystemReader  # it takes a second to import

    names = FileSystemReader(folder).read_metadata().state_dict_metadata
    matches = (re.search(r"\.rank (\d+) of (\d+)\.", f".{name}") for name in names)
    found = sorted({(int(match[1]), int(match[2])) for match in matches if match})
    if not found:
        raise ValueError(f"the checkpoint {os.fspath(folder)!r} holds no state of lplab's hook: save hook.checkpoint()")
    return found
