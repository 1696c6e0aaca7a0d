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
sent from its residual: for models that drop layers at random use the simulator. Tested over gloo; with NCCL the same
bytes pass through the GPU, which is not tested.

Communication runs behind the backward pass: a bucket is compressed and exchanged by a thread of the hook while the
layers before it compute their gradients (:mod:`lplab.parallel.bucket_queue`). Collectives of other origin, such as
those of SyncBatchNorm or DistributedDataParallel's own, run at the same time; so the hook has a process group of its
own. Before a bucket is exchanged, all ranks agree whether it is finite everywhere: no rank leaves a bucket out alone.
Residuals change after the last bucket, and only if all buckets were finite. The bits are those of the simulator, and
of ``overlap=False``, which exchanges each bucket before the backward pass goes on.

If a rank ends, the backward passes of the others raise a RuntimeError.

This module needs PyTorch. It does not import annotations from __future__: PyTorch compares the hook's annotations as
objects.
"""

import os
import re
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lplab.compression import Compressor, catalogue
from lplab.compression.tensors.selection import divided
from lplab.parallel.averages import CompressedAverages, after_backward, is_finite
from lplab.parallel.bucket_queue import BucketQueue
from lplab.parallel.collectives import ProcessGroupTransport, own_group
from lplab.parallel.error_feedback import ErrorFeedbackState, merge_ranks
from lplab.parallel.layers import layer_infos
from lplab.parallel.state_tensors import as_arrays, as_tensors


class HookState(CompressedAverages):
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
        overlap: whether buckets are exchanged behind the backward pass. Then all ranks must make their hooks in the
            same order as they create process groups, since each hook creates one.
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
        overlap: bool = True,
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
        self.queue = BucketQueue() if overlap else None
        transport = ProcessGroupTransport(own_group(process_group) if overlap else process_group, ordered)
        trained = {name: p for name, p in inner.named_parameters() if p.requires_grad}
        self.devices = {n: p.device for n, p in trained.items() if (p.is_cuda if on_device is None else on_device)}
        states = ErrorFeedbackState(compressor, layer_infos(inner, example), self.devices)
        super().__init__(transport, states, seed, keep_ledger)
        self.names = {id(p): name for name, p in inner.named_parameters()}
        self.scaler = scaler

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

    def checkpoint(self, folder: str | os.PathLike[str] | None = None) -> "HookCheckpoint":
        """The state for torch.distributed.checkpoint, which saves it with a model and loads it on any number of ranks.

            dcp.save({"model": model.state_dict(), "hook": hook.checkpoint()}, checkpoint_id=folder)
            ...
            saved = {"model": model.state_dict(), "hook": hook.checkpoint(folder)}
            dcp.load(saved, checkpoint_id=folder)  # the hook then has its state

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
        ranks = {
            "rank {} of {}".format(*rank): {
                "step": torch.tensor(self.step),
                "layers": {n: {k: a.clone() for k, a in arrays.items()} for n, arrays in layers.items()},
            }
            for rank in ([here] if here in saved else saved)
        }
        return HookCheckpoint(self, {**common, "ranks": ranks})

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

    def exchange(self, names: list[str], views: list[Tensor], buffer: Tensor, scale: float, is_last: bool) -> None:
        """Average one bucket over all ranks: its ``views``, parts of ``buffer``, receive the averages.

        Args:
            names: of the parameters.
            views: their gradients, multiplied by ``scale``.
            buffer: of the bucket.
            scale: of the loss.
            is_last: whether this is the last bucket of the step.
        """
        gradients = [self.unscaled(name, view, scale) for name, view in zip(names, views, strict=True)]
        finite = self.transport.all_true(all(is_finite(g) for g in gradients))
        if finite:
            for view, average in zip(views, self.average(names, gradients), strict=True):
                view.copy_(torch.as_tensor(average, device=view.device) * scale)
        else:
            buffer.fill_(0 if self.scaler is None else float("inf"))
        self.bucket_done(finite, is_last)

    def finish(self) -> None:
        """Raise the error of a bucket that failed; set the gradients of a skipped step to None."""
        if self.queue is not None and self.queue.error is not None:
            error = self.queue.error
            if not isinstance(error, RuntimeError):  # not one of a collective
                raise error
            rank, world = self.transport.rank, self.transport.world
            raise RuntimeError(
                f"the exchange of gradients failed in step {self.step} on rank {rank} of {world}; if another rank has "
                f"ended, restart all from a checkpoint. The back end says: {error}"
            ) from error
        if self.skipped and self.scaler is None:
            for parameter in self.model.parameters():
                parameter.grad = None

    def unscaled(self, name: str, gradient: Tensor, scale: float) -> Any:
        """The float32 gradient without its loss scale: a tensor where it is compressed on its device, else an array."""
        if name not in self.devices:
            return _as_numpy(gradient, scale)
        scaled = gradient.detach().float()
        return (divided(scaled, scale) if scale != 1 else scaled).contiguous()


class HookCheckpoint(dict[str, Any]):
    """What :meth:`HookState.checkpoint` gives, a dictionary of tensors.

    It is a ``Stateful`` of torch.distributed.checkpoint, which hands what it has loaded to the hook.

    Args:
        hook: whose state it is.
        state: of the hook.
    """

    def __init__(self, hook: HookState, state: dict[str, Any]) -> None:
        super().__init__(state)
        self.hook = hook

    def state_dict(self) -> dict[str, Any]:
        """The tensors, which loading fills in place."""
        return dict(self)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Called after loading: :meth:`HookState.load_state_dict`."""
        self.hook.load_state_dict(saved)


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
    names = [state.names[id(p)] for p in bucket.parameters()]
    scale = 1.0 if state.scaler is None else float(state.scaler.get_scale())
    exchange = partial(state.exchange, names, bucket.gradients(), buffer, scale, bucket.is_last())
    if bucket.is_last():
        after_backward(state.finish)
    if state.queue is not None:
        return state.queue.submit(exchange, buffer)
    exchange()
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


def _saved_ranks(folder: str | os.PathLike[str]) -> list[tuple[int, int]]:
    """The ranks, each with the number of all, whose states a checkpoint holds."""
    from torch.distributed.checkpoint import FileSystemReader  # it takes a second to import

    names = FileSystemReader(folder).read_metadata().state_dict_metadata
    matches = (re.search(r"\.rank (\d+) of (\d+)\.", f".{name}") for name in names)
    found = sorted({(int(match[1]), int(match[2])) for match in matches if match})
    if not found:
        raise ValueError(f"the checkpoint {os.fspath(folder)!r} holds no state of lplab's hook: save hook.checkpoint()")
    return found
