"""One rank's side of gradient compression: requests on a process group, averages of buckets, residuals, steps, traffic.

The hooks of DistributedDataParallel (``hook.py``) and of FSDP (``fsdp.py``) hand their gradients to
:class:`CompressedAverages`. The requests of a bucket's layers are fused: one collective of torch.distributed for each
kind, all as bytes.

Values are summed by ``all_reduce``, which adds in the order of the backend; or all-gathered and summed in the order of
ranks ("ordered"), with the simulator's bits. The traffic of a rank then grows with the number of ranks.

Requests hold numpy arrays, or tensors on any device; results are of the same kind. Only the messages move between
their device and that of the backend: the CPU for gloo, the GPU for NCCL.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from lplab.compression import Context, TrafficLog, arrays
from lplab.compression.compressor import AllGather, AllReduce, Broadcast, NotFiniteError, Request, all_finite
from lplab.compression.lockstep import LayerRuns, collective_result, payload_bytes, run_in_lockstep, steps_of
from lplab.compression.tensors import operations
from lplab.compression.wire.values import from_bytes
from lplab.parallel.compressor_states import CompressorStates

KEPT_ENTRIES = 20_000  # of the traffic log, some 5 MB; ResNet-50 has 322 in a step


def own_group(group: Any = None) -> Any:
    """A new group of the same ranks, back end and timeout: nobody else's collectives come between those of its user.

    All ranks of ``group`` must call it, in the same order as they create other groups.
    """
    backend = dist.get_backend(group)
    device = torch.device("cuda" if backend == "nccl" else "cpu")
    # Some back ends have no options.
    options = getattr((group or dist.group.WORLD)._get_backend(device), "options", None)
    settings = {"backend": backend, "timeout": getattr(options, "_timeout", None)}
    if group is None or group is dist.group.WORLD:
        return dist.new_group(**settings)
    return dist.new_group(dist.get_process_group_ranks(group), use_local_synchronization=True, **settings)


class ProcessGroupTransport:
    """Performs requests on a process group.

    Args:
        group: of torch.distributed; None for the default one.
        ordered: whether values are summed in the order of ranks.
        device: of the model; a GPU for which the group has NCCL has the messages, too. Else they are on the CPU.
    """

    def __init__(self, group: Any = None, ordered: bool = False, device: torch.device | None = None) -> None:
        self.group, self.ordered = group, ordered
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        nccl = device is not None and "cuda:nccl" in dist.get_backend_config(group) and device.type == "cuda"
        self.device = device if nccl else torch.device("cpu")

    def perform(self, requests: Sequence[Request]) -> list[Any]:
        """The result of each request; all ranks pass the same kinds in the same order.

        Raises:
            NotFiniteError: a sum is not finite; on all ranks, since they have received the same sum.
        """
        results: list[Any] = [None] * len(requests)
        for kind, perform in ((Broadcast, self._broadcasts), (AllReduce, self._sums), (AllGather, self._gathers)):
            indices = [i for i, request in enumerate(requests) if isinstance(request, kind)]
            if indices:
                for i, result in zip(indices, perform([requests[i] for i in indices]), strict=True):
                    results[i] = result
        return results

    def first_rank_with(self, value: bool) -> int | None:
        """The first rank on which ``value`` is true, or None; sends four bytes."""
        rank = torch.tensor([self.rank if value else self.world], dtype=torch.int32, device=self.device)
        dist.all_reduce(rank, dist.ReduceOp.MIN, self.group)
        return None if rank.item() == self.world else int(rank.item())

    def gather(self, payload: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """The payloads of all ranks, whose lengths all ranks know; padded to the longest. On the backend's device."""
        own = torch.zeros(max(sizes), dtype=torch.uint8, device=self.device)
        own[: len(payload)] = payload
        rows = [torch.empty_like(own) for _ in range(self.world)]
        dist.all_gather(rows, own, self.group)
        return [row[:size] for row, size in zip(rows, sizes, strict=True)]

    def _sent(self, payload: Any) -> Tensor:
        """A payload, array or tensor, on the backend's device."""
        writable = np.require(payload, requirements="W") if isinstance(payload, np.ndarray) else payload
        return torch.as_tensor(writable).to(self.device)

    def _broadcasts(self, requests: Sequence[Any]) -> list[Any]:
        sizes = [request.nbytes for request in requests]
        source = requests[0].source
        buffer = torch.empty(sum(sizes), dtype=torch.uint8, device=self.device)
        if self.rank == source:
            torch.cat([self._sent(request.payload) for request in requests], out=buffer)
        dist.broadcast(buffer, dist.get_global_rank(self.group or dist.group.WORLD, source), self.group)
        payloads = buffer.split(sizes)
        return [
            request.finish(payload.cpu().numpy() if request.device is None else payload.to(request.device))
            for request, payload in zip(requests, payloads, strict=True)
        ]

    def _sums(self, requests: Sequence[Any]) -> list[Any]:
        return self._ordered_sums(requests) if self.ordered else self._reduced_sums(requests)

    def _ordered_sums(self, requests: Sequence[Any]) -> list[Any]:
        messages = [arrays.of(request.values).float_bytes(request.values, request.wire) for request in requests]
        payload = torch.cat([self._sent(message) for message in messages])
        sizes = [payload_bytes(request) for request in requests]
        rows = [row.split(sizes) for row in self.gather(payload, [len(payload)] * self.world)]
        columns = zip(*rows, strict=True)
        return [_ordered_sum(request, column) for request, column in zip(requests, columns, strict=True)]

    def _reduced_sums(self, requests: Sequence[Any]) -> list[Any]:
        """One all-reduce for each format; the backend sums half precision in half precision, which may overflow."""
        results: list[Any] = [None] * len(requests)
        for wire in dict.fromkeys(request.wire for request in requests):
            indices = [i for i, request in enumerate(requests) if request.wire == wire]
            values = [torch.as_tensor(requests[i].values).to(self.device, operations.DTYPES[wire]) for i in indices]
            # A copy, into which the sum is written.
            total = torch.cat(values)
            dist.all_reduce(total, group=self.group)
            summed = total.float()
            if not all_finite(_received(summed, requests[indices[0]].values)):
                raise NotFiniteError(f"a sum over {self.world} ranks is too large for {wire}")
            for i, part in zip(indices, summed.split([len(one) for one in values]), strict=True):
                results[i] = requests[i].finish(_received(part, requests[i].values))
        return results

    def _gathers(self, requests: Sequence[Any]) -> list[Any]:
        sizes = torch.tensor([len(request.payload) for request in requests], device=self.device)
        tables = [sizes.new_empty(sizes.shape) for _ in range(self.world)]
        dist.all_gather(tables, sizes, self.group)
        lengths = torch.stack(tables).tolist()
        payload = torch.cat([self._sent(request.payload) for request in requests])
        rows = self.gather(payload, [sum(table) for table in lengths])
        split = [row.split(table) for row, table in zip(rows, lengths, strict=True)]
        return [
            request.finish([_received(part, request.payload) for part in column])
            for request, column in zip(requests, zip(*split, strict=True), strict=True)
        ]


def _received(tensor: Tensor, like: Any) -> Any:
    """A tensor as what its request holds: an array, or a tensor on its device."""
    return tensor.cpu().numpy() if isinstance(like, np.ndarray) else tensor.to(like.device)


def _ordered_sum(request: AllReduce, payloads: Sequence[Tensor]) -> Any:
    """The simulator's result, from the bytes of all ranks."""
    size = len(request.values)
    values = (_received(from_bytes(p, request.wire, size), request.values) for p in payloads)
    return collective_result([replace(request, values=v) for v in values])


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
        self, transport: ProcessGroupTransport, states: CompressorStates, seed: int, keep_ledger: bool
    ) -> None:
        self.transport, self.states, self.seed = transport, states, seed
        self.ledger: TrafficLog | None = TrafficLog(keep=KEPT_ENTRIES) if keep_ledger else None
        self.step, self.skipped = 0, False
        self.finite = True
        self.not_finite: str | None = None

    def load(self, saved: Mapping[str, Any], step: int) -> None:
        """Begin anew from saved states: what an unfinished step has left, and the traffic log, are forgotten.

        Args:
            saved: as :meth:`CompressorStates.load_state_dict` takes it.
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
            return transport.perform([next(iter(of_layer)) for of_layer in requests])

        bucket = ", ".join(names)
        bad = [name for name, gradient in zip(names, gradients, strict=True) if not all_finite(gradient)]
        try:
            if bad:
                raise NotFiniteError(f"the gradient of {', '.join(bad)}")
            averages = run_in_lockstep(layers, perform, sent)
        except NotFiniteError as problem:
            if agreed:
                raise NotFiniteError(f"{problem}, in the bucket {bucket}") from None
            transport.first_rank_with(True)
            which, layer = str(problem), problem.layer
            if layer is not None:
                which = f"what {self.states.compressors[layer]!r} makes of the gradient of {layer}"
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
    # The inner callback is later than all that are queued by then.
    queue(lambda: queue(work))
