"""The compressors as a communication hook of PyTorch's DistributedDataParallel.

    hook = ddp_hook(ddp_model, "scalecom:chunk=112")         # or a compressor: ScaleCom(chunk=112)
    ...
    loss.backward()
    optimizer.step()                                         # as always

If a gradient is not finite on some rank, all ranks skip the step: after the backward pass the gradients are None, which
every optimizer of PyTorch passes over. With a ``GradScaler``, give it to the hook; ``scaler.step(optimizer)`` then
skips the same steps on all ranks, for every optimizer of the model. What overflows on the way counts as a gradient that
is not finite: the sum with a residual, a number in a message, a sum over the ranks, the average in float32, or in the
dtype of the gradients.

One backward pass of a step averages; those before it belong under ``no_sync()``.

Each parameter is compressed by itself; only the messages of a bucket are fused, so PyTorch may rebuild its buckets.
Gradients and states are in the order of the parameter's indices, however the parameter lies in memory: a transposed or
``channels_last`` parameter sends the messages of a contiguous one, and checkpoints serve both.
Gradients on a GPU are compressed there (see :mod:`lplab.compression.tensors`), those on the CPU by numpy. With
find_unused_parameters PyTorch discards the average of a parameter that no rank used in a step, and with it the values
sent from its residual: for models that drop layers at random use the simulator. Tested over gloo; with NCCL the same
bytes pass through the model's GPU, which is not tested.

Communication runs behind the backward pass: a bucket is compressed and exchanged by a thread of the hook while the
layers before it compute their gradients (:mod:`lplab.parallel.bucket_queue`). Collectives of other origin, such as
those of SyncBatchNorm or DistributedDataParallel's own, run at the same time; so the hook has a process group of its
own. Before a bucket is exchanged, all ranks agree whether it is finite everywhere: no rank leaves a bucket out alone.
Residuals change after the last bucket, and only if all buckets were finite. The bits are those of ``overlap=False``,
which exchanges each bucket before the backward pass goes on; with ``ordered=True`` they are the simulator's.

If a rank ends, the backward passes of the others raise a RuntimeError. After an error in one process alone, such as one
of memory, ``load_state_dict`` begins anew.

This module needs PyTorch. It does not import annotations from __future__: PyTorch compares the hook's annotations as
objects.
"""

import os
import re
import weakref
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.weak import TensorWeakRef

from lplab.compression import Compressor, compressor_catalogue
from lplab.compression.compressor import all_finite
from lplab.compression.module_layers import trainable_parameters
from lplab.compression.tensors.operations import divided
from lplab.parallel.bucket_queue import BucketQueue
from lplab.parallel.compressor_states import CompressorStates, as_arrays, as_tensors, layer_infos, merge_ranks
from lplab.parallel.process_group import CompressedAverages, ProcessGroupTransport, after_backward, own_group


class HookState(CompressedAverages):
    """The state of the hook between steps.

    Args:
        model: a DistributedDataParallel model. The state does not keep it alive.
        compressor: of :mod:`lplab.compression`; ``DenseIfSmall(TopK(0.01))`` sends small tensors dense, as AdaComp
            and ScaleCom do.
        process_group: None for the default one.
        ordered: whether values are summed in the order of ranks, with the simulator's bits: for comparisons, since each
            rank then sends its values to every other one. Else by ``all_reduce``.
        seed: of all random numbers, the same on all ranks.
        example: an input, for compressors that use ``LayerInfo.weight_reuse``.
        scaler: a ``torch.amp.GradScaler``, if the loss is scaled: residuals are stored unscaled.
        keep_ledger: whether the payloads of this rank are logged: all in sums, recent ones one by one.
        overlap: whether buckets are exchanged behind the backward pass. Then all ranks must make their hooks in the
            same order as they create process groups, since each hook creates one.
        on_device: whether gradients are compressed on their own device; None: those on a GPU. The bits are the same;
            on a CPU numpy is faster.

    Attributes:
        skipped: whether a gradient, or what was made of it, was not finite on some rank in the last step. Then no
            residual has changed, and the gradients are None after the backward pass; with a scaler they are infinite,
            to lower its scale.
        not_finite: what was not finite in the last skipped step, and on which rank.
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
        ordered: bool = False,
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
        # PyTorch's reducer keeps this state, which must not keep the model.
        self._model = weakref.ref(model)
        self.queue = BucketQueue() if overlap else None
        trained = trainable_parameters(inner)
        # DistributedDataParallel wants all parameters on one device.
        device = next(p.device for p in inner.parameters() if p.requires_grad)
        self._group = own_group(process_group) if overlap else None
        transport = ProcessGroupTransport(self._group if overlap else process_group, ordered, device)
        self.devices = {n: p.device for n, p in trained.items() if (p.is_cuda if on_device is None else on_device)}
        states = CompressorStates(compressor, layer_infos(inner, example), self.devices)
        super().__init__(transport, states, seed, keep_ledger)
        self.names = {id(p): name for name, p in trained.items()}
        self.scaler = scaler
        self.averaged = AveragedGradients(trained)
        # What the running backward pass should not compress.
        self.averaged_twice: list[str] = []

    @property
    def model(self) -> DistributedDataParallel:
        """The model.

        Raises:
            ReferenceError: it is not in use any more.
        """
        model = self._model()
        if model is None:
            raise ReferenceError("the model of this hook has been deleted")
        return model

    def close(self) -> None:
        """End the thread and the process group of the hook; all ranks call it, in the same order as for other groups.

        The model can have no backward pass over all ranks afterwards. Only needed in a process that makes many hooks:
        without it, a deleted model takes all with it but the group.
        """
        self.averaged.remove()
        if self.queue is not None:
            self.queue.close()
            dist.destroy_process_group(self._group)

    def apply(self, optimizer: torch.optim.Optimizer) -> bool:
        """``optimizer.step()``, or ``scaler.step(optimizer)``, as if called directly; whether the step was made."""
        if self.scaler is not None:
            # The scaler skips infinite gradients, and needs to see them.
            self.scaler.step(optimizer)
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
        saved, world = self.states.state_dict(), np.float32(self.transport.world)
        for arrays in saved["layers"].values():
            for name, array in arrays.items():
                total = self._sum(array)
                arrays[name] = total / world if all_finite(total) else self._sum(array / world)
        return {"step": self.step, "world": None, "rank": None, **as_tensors(saved)}

    def _sum(self, array: np.ndarray) -> np.ndarray:
        """The sum over all ranks."""
        total = torch.from_numpy(array.copy()).to(self.transport.device)
        dist.all_reduce(total, group=self.transport.group)
        return total.cpu().numpy()

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

        The results of :func:`~lplab.parallel.merge_ranks` and of :meth:`checkpoint` are accepted, too.

        What an unfinished or failed step has left is forgotten, and so is the traffic log.

        Raises:
            ValueError: the state of another rank, or of another number of ranks, or one that does not fit; then nothing
                has changed.
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
        if self.queue is not None:
            self.queue.wait()
        self.load(as_arrays(saved), saved["step"])
        self.averaged.forget()
        self.averaged_twice = []
        if self.queue is not None:
            self.queue.error = None

    # -- called by the hook -----------------------------------------------------------------------------------

    def exchange(
        self,
        names: list[str],
        gradients: list[Tensor],
        views: list[Tensor],
        buffer: Tensor,
        scale: float,
        is_last: bool,
    ) -> None:
        """Average one bucket over all ranks.

        Args:
            names: of the parameters.
            gradients: theirs, multiplied by ``scale``.
            views: the parts of ``buffer`` that receive the averages.
            buffer: of the bucket.
            scale: of the loss.
            is_last: whether this is the last bucket of the step.
        """
        own = [self.unscaled(name, gradient, scale) for name, gradient in zip(names, gradients, strict=True)]
        averages = self.average_if_finite(names, own)
        finite = averages is not None
        if averages is not None:
            for view, average in zip(views, averages, strict=True):
                view.copy_(torch.as_tensor(average, device=view.device) * scale)
            if scale != 1 or buffer.dtype != torch.float32:
                finite = self.are_finite(buffer, names)
        if not finite:
            buffer.zero_()
        self.bucket_done(finite, is_last)

    def finish(self) -> None:
        """Raise the error of a bucket; set the gradients of a skipped step to None, or with a scaler to infinity.

        A scaler looks at the gradients of one optimizer at a time: all are infinite, so that all optimizers skip.
        """
        if self.averaged_twice:
            name = self.averaged_twice[0]
            self.forget_step()
            raise RuntimeError(
                f"the gradient of {name} holds an average already, which would be compressed again: use no_sync() for "
                "all but the last backward pass of a step, and optimizer.zero_grad() after the step"
            )
        if self.queue is not None and self.queue.error is not None:
            error = self.queue.error
            # The error is not that of a collective.
            if not isinstance(error, RuntimeError) or isinstance(error, torch.OutOfMemoryError):
                raise error
            rank, world = self.transport.rank, self.transport.world
            raise RuntimeError(
                f"the exchange of gradients failed in step {self.step} on rank {rank} of {world}; if another rank has "
                f"ended, restart all from a checkpoint. The back end says: {error}"
            ) from error
        for parameter in self.model.parameters() if self.skipped else ():
            if self.scaler is None:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.fill_(float("inf"))
        self.averaged.note()

    def forget_step(self) -> None:
        """Forget what the running step has left."""
        self.states.rollback()
        self.finite, self.averaged_twice = True, []

    def unscaled(self, name: str, gradient: Tensor, scale: float) -> Any:
        """The float32 gradient without its loss scale: a tensor where it is compressed on its device, else an array."""
        on_device = name in self.devices
        scaled = gradient.detach().float() if on_device else gradient.detach().float().cpu()
        own = (divided(scaled, scale) if scale != 1 else scaled).contiguous()
        return own if on_device else own.numpy()


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


class AveragedGradients:
    """Which gradients still hold an average of an earlier backward pass, so that they must not be compressed again.

    PyTorch adds the gradients of a pass to those that are there. If these are averages already, the sum of an average
    and of a gradient would be compressed, and errors would add up. So an average must be cleared
    (``optimizer.zero_grad()``) before the next backward pass. The parameters are not kept alive.

    Args:
        parameters: by name.

    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> watched = AveragedGradients({"weight": weight})
    >>> weight.sum().backward()
    >>> watched.note()  # as if this gradient were an average
    >>> weight.sum().backward()
    >>> watched.still_there(["weight"])
    ['weight']
    >>> weight.grad = None
    >>> weight.sum().backward()
    >>> watched.still_there(["weight"])
    []
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._parameters = {name: TensorWeakRef(p) for name, p in parameters.items()}
        self._noted: dict[str, tuple[TensorWeakRef, int]] = {}
        self._handles = [p.register_hook(partial(self._before, name)) for name, p in parameters.items()]

    def note(self) -> None:
        """All gradients are averages now."""
        self._noted = {}
        for name, parameter in self._parameters.items():
            grad = getattr(parameter(), "grad", None)
            if grad is not None:
                self._noted[name] = (TensorWeakRef(grad), grad._version)

    def forget(self) -> None:
        """No gradient is an average."""
        self._noted = {}

    def still_there(self, names: Iterable[str]) -> list[str]:
        """The parameters, of some, to whose averages this pass has added gradients, or which it leaves as they are."""
        return [name for name in names if self._is_average(name)]

    def remove(self) -> None:
        """Watch no longer."""
        for handle in self._handles:
            handle.remove()
        self.forget()

    def _before(self, name: str, _: Tensor) -> None:
        """Called in a backward pass before the new gradient is added to the one that is there."""
        self._is_average(name)

    def _is_average(self, name: str) -> bool:
        """Whether the average is still in the parameter's gradient: not set to None, replaced, or zero since."""
        if name not in self._noted:
            return False
        average, version = self._noted[name]
        grad = getattr(self._parameters[name](), "grad", None)
        is_average = grad is not None and grad is average() and (grad._version == version or bool(grad.any()))
        if not is_average:
            del self._noted[name]
        return is_average


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
    trained = [(p, part) for p, part in zip(bucket.parameters(), bucket.gradients(), strict=True) if p.numel()]
    names = [state.names[id(p)] for p, _ in trained]
    if bucket.is_last():
        after_backward(state.finish)
    state.averaged_twice += state.averaged.still_there(names)
    # No bucket of this pass is sent any more; finish() raises.
    if state.averaged_twice:
        return _completed(buffer)
    scale = 1.0 if state.scaler is None else float(state.scaler.get_scale())
    views = [_laid_out(part, p) for p, part in trained]
    gradients = [view if p.grad is None else p.grad for (p, _), view in zip(trained, views, strict=True)]
    exchange = partial(state.exchange, names, gradients, views, buffer, scale, bucket.is_last())
    if state.queue is not None:
        return state.queue.submit(exchange, buffer)
    exchange()
    return _completed(buffer)


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
    state = HookState(model, compressor_catalogue.from_text(compressor), **options)
    model.register_comm_hook(state, compress_hook)
    return state


def _laid_out(part: Tensor, parameter: Tensor) -> Tensor:
    """A parameter's part of a bucket, as DistributedDataParallel reads it: ``bucket.gradients()`` ignores strides.

    It reads an average with the strides of the gradient, where that is a view of the bucket; else with those of the
    parameter, if the parameter has no gaps in memory.
    """
    grad = parameter.grad
    if grad is not None and grad.untyped_storage().data_ptr() == part.untyped_storage().data_ptr():
        return part.as_strided(grad.shape, grad.stride())
    if parameter.is_contiguous() or torch.empty_like(parameter, device="meta").stride() != parameter.stride():
        return part
    return part.as_strided(parameter.shape, parameter.stride())


def _completed(buffer: Tensor) -> torch.futures.Future:
    """A Future that has its result."""
    future = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
    future.set_result(buffer)
    return future


def _saved_ranks(folder: str | os.PathLike[str]) -> list[tuple[int, int]]:
    """The ranks, each with the number of all, whose states a checkpoint holds."""
    # The module takes a second to import.
    from torch.distributed.checkpoint import FileSystemReader

    names = FileSystemReader(folder).read_metadata().state_dict_metadata
    matches = (re.search(r"\.rank (\d+) of (\d+)\.", f".{name}") for name in names)
    ranks = sorted({(int(match[1]), int(match[2])) for match in matches if match})
    if not ranks:
        raise ValueError(f"the checkpoint {os.fspath(folder)!r} holds no state of lplab's hook: save hook.checkpoint()")
    return ranks
