"""The compressors as a communication hook of PyTorch's DistributedDataParallel.

    state = HookState(ddp_model, ScaleCom(chunk=100))
    ddp_model.register_comm_hook(state, compress_hook)       # or in one call: ddp_hook(ddp_model, ScaleCom(chunk=100))
    ...
    loss.backward()
    state.apply(optimizer)                                   # instead of optimizer.step(): leaves out what all must
    leave out

Each parameter is compressed by itself; only the messages of a bucket are fused, so buckets may be rebuilt at will. With
find_unused_parameters PyTorch throws away the average of a parameter that no rank used in a step, and with it what its
residue sent: a model that leaves out layers by chance does better with the simulator.
Communication waits until it is done: there is no overlap with the backward pass yet. Tested over gloo; over NCCL the
same bytes pass through the GPU, which has not been run yet.

This module needs PyTorch. It does not import annotations from __future__: PyTorch compares the hook's annotations as
objects.
"""

from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lplab.compression import Compressor, Context, Entry, Ledger
from lplab.compression.exchange import payload_bytes
from lplab.compression.protocol import Steps
from lplab.parallel.checkpoints import as_arrays, as_tensors
from lplab.parallel.collectives import Wire
from lplab.parallel.layers import layer_infos
from lplab.parallel.memory import Memory


class HookState:
    """What the hook remembers between steps.

    Args:
        model: a DistributedDataParallel model.
        compressor: of :mod:`lplab.compression`; ``LargeOnly(TopK(0.01))`` leaves small tensors dense, as AdaComp and
            ScaleCom do by themselves.
        process_group: None for the default one.
        ordered: whether sums are taken in the order of ranks, bit for bit as in the simulator; else by ``all_reduce``.
        seed: of all coins, the same on all ranks.
        example: an input, for compressors that ask how often a weight is used.
        scaler: a ``torch.amp.GradScaler``, if the loss is scaled: residues are kept in true units.
        keep_ledger: whether the payloads of this rank are written down.

    Attributes:
        skipped: whether the last step met a gradient that is not finite on some rank; then no residue has changed, and
            the gradients are of no use: those of the bad bucket are zero (infinite with a scaler, to lower its scale).
        ledger: payloads of this rank; of a step that is left out, what buckets before the bad one sent.

    Raises:
        TypeError: not a DistributedDataParallel model (FSDP and compiled models hand over gradients in other ways), or
            one with complex parameters.
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
                "hand over gradients in other ways: wrap the plain model in DistributedDataParallel"
            )
        inner = model.module
        if any(hasattr(m, "_orig_mod") or getattr(m, "_compiled_call_impl", None) for m in model.modules()):
            raise TypeError("a model under torch.compile is not supported: wrap the plain model")
        if any(p.is_complex() for p in inner.parameters() if p.requires_grad):
            raise TypeError("complex parameters are not supported: gradients travel as real float32 values")
        self.model = model
        self.wire = Wire(process_group, ordered)
        self.memory = Memory(compressor, layer_infos(inner, example))
        self.names = {id(p): name for name, p in inner.named_parameters()}
        self.seed, self.scaler = seed, scaler
        self.ledger: Ledger | None = Ledger() if keep_ledger else None
        self.step, self.skipped = 0, False
        self._finite = True

    def apply(self, optimizer: torch.optim.Optimizer) -> bool:
        """``optimizer.step()``, unless this step has to be left out; whether it was made."""
        if self.scaler is not None:
            self.scaler.step(optimizer)  # leaves out infinite gradients by itself, and has to see them
        elif not self.skipped:
            optimizer.step()
        return not self.skipped

    def state_dict(self) -> dict[str, Any]:
        """This rank's state: a file for each rank goes on bit for bit."""
        saved = as_tensors(self.memory.state_dict())
        return {"step": self.step, "world": self.wire.world, "rank": self.wire.rank, **saved}

    def portable_state_dict(self) -> dict[str, Any]:
        """The mean of all ranks' states, equal on all of them: one file, for any number of ranks."""
        saved = self.memory.state_dict()
        for arrays in saved["layers"].values():
            for name, array in arrays.items():
                total = torch.from_numpy(array.copy()).to(self.wire.device)
                dist.all_reduce(total, group=self.wire.group)
                arrays[name] = total.cpu().numpy() / np.float32(self.wire.world)
        return {"step": self.step, "world": None, "rank": None, **as_tensors(saved)}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict` of the same rank, or on any number of ranks from :meth:`portable_state_dict`.

        What :func:`~lplab.parallel.memory.portable` makes of the states of all ranks is as good as the latter.

        Raises:
            ValueError: the state of another rank, or of another number of ranks.
        """
        here = (self.wire.world, self.wire.rank)
        if saved["world"] is not None and (saved["world"], saved["rank"]) != here:
            raise ValueError(
                f"this is the state of rank {saved['rank']} of {saved['world']}, here is rank {here[1]} of {here[0]}; "
                "for another number of ranks save portable_state_dict(), or give portable() the states of all"
            )
        self.memory.load_state_dict(as_arrays(saved))
        self.step = saved["step"]

    # -- what the hook calls ----------------------------------------------------------------------------------

    def average(self, names: list[str], gradients: list[np.ndarray]) -> list[np.ndarray]:
        """The averages of one bucket: the generators of its layers run in step, their requests are fused."""
        runs = [self._run(name, gradient) for name, gradient in zip(names, gradients, strict=True)]
        results: list[Any] = [None] * len(runs)
        waiting, answers = list(range(len(runs))), [None] * len(runs)
        while waiting:
            asked = []
            for i in waiting:
                try:
                    asked.append((i, runs[i].send(answers[i])))
                except StopIteration as stop:
                    results[i] = stop.value
            waiting = [i for i, _ in asked]
            for (i, request), answer in zip(asked, self.wire.answers([r for _, r in asked]), strict=True):
                answers[i] = answer
                self._note(names[i], request)
        return results

    def _run(self, name: str, gradient: np.ndarray) -> Steps:
        context = Context(self.wire.rank, self.wire.world, self.step, name, self.seed)
        return self.memory.compressors[name].steps(gradient, self.memory.states[name], context)

    def _note(self, name: str, request: Any) -> None:
        nbytes = payload_bytes(request)
        if self.ledger is not None and nbytes is not None:
            kind = type(request).__name__.lower()
            self.ledger.entries.append(Entry(self.step, name, kind, self.wire.rank, nbytes))

    def bucket_done(self, finite: bool, is_last: bool) -> None:
        """Note a bucket; after the last one of a step, commit or roll back."""
        self._finite &= finite
        if not is_last:
            return
        if self._finite:
            self.memory.commit()
        else:
            self.memory.rollback()
        self.skipped, self._finite = not self._finite, True
        self.step += 1


def compress_hook(state, bucket):
    """For ``register_comm_hook``: takes a HookState and a GradBucket, returns a Future of the averaged buffer."""
    if state.model._join_config.enable:
        raise RuntimeError(
            "join() is not supported: ranks without data would go on to lead and to send their residues; "
            "give all ranks equally many batches"
        )
    buffer = bucket.buffer()
    if buffer.is_sparse:
        raise TypeError("sparse gradients are not supported: make embeddings with sparse=False")
    views = bucket.gradients()
    names = [state.names[id(p)] for p in bucket.parameters()]
    scale = 1.0 if state.scaler is None else float(state.scaler.get_scale())
    gradients = [_as_numpy(view, scale) for view in views]
    finite = state.wire.all_agree(all(bool(np.isfinite(g).all()) for g in gradients))
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
    """A gradient in true units: float32 of numpy, a copy where that is needed."""
    plain = gradient.detach().float().cpu()
    return (plain / scale if scale != 1 else plain).contiguous().numpy()
