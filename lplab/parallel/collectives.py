"""Fused requests of many layers: one collective of torch.distributed for each kind, all as bytes.

Values are summed by ``all_reduce``, which adds in the order of the backend; or all-gathered and summed in the order of
ranks ("ordered"), with the simulator's bits. The traffic of a rank then grows with the number of ranks.

Requests hold numpy arrays, or tensors on any device; results are of the same kind. Only the messages move between
their device and that of the backend: the CPU for gloo, the GPU for NCCL.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from lplab.compression.compressor import AllGather, AllReduce, Broadcast, NotFiniteError, Request, all_finite
from lplab.compression.exchange import collective_result
from lplab.compression.tensors import operations
from lplab.compression.wire.values import bytes_per_value, from_bytes, to_bytes


def own_group(group: Any = None) -> Any:
    """A new group of the same ranks, back end and timeout: nobody else's collectives come between those of its user.

    All ranks of ``group`` must call it, in the same order as they create other groups.
    """
    backend = dist.get_backend(group)
    device = torch.device("cuda" if backend == "nccl" else "cpu")
    options = getattr((group or dist.group.WORLD)._get_backend(device), "options", None)  # some back ends have none
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
            request.finish(operations.host(payload) if request.device is None else payload.to(request.device))
            for request, payload in zip(requests, payloads, strict=True)
        ]

    def _sums(self, requests: Sequence[Any]) -> list[Any]:
        return self._ordered_sums(requests) if self.ordered else self._reduced_sums(requests)

    def _ordered_sums(self, requests: Sequence[Any]) -> list[Any]:
        payload = torch.cat([self._sent(to_bytes(request.values, request.wire)) for request in requests])
        sizes = [len(request.values) * bytes_per_value(request.wire) for request in requests]
        rows = [row.split(sizes) for row in self.gather(payload, [len(payload)] * self.world)]
        columns = zip(*rows, strict=True)
        return [_ordered_sum(request, column) for request, column in zip(requests, columns, strict=True)]

    def _reduced_sums(self, requests: Sequence[Any]) -> list[Any]:
        """One all-reduce for each format; the backend sums half precision in half precision, which may overflow."""
        results: list[Any] = [None] * len(requests)
        for wire in dict.fromkeys(request.wire for request in requests):
            indices = [i for i, request in enumerate(requests) if request.wire == wire]
            values = [torch.as_tensor(requests[i].values).to(self.device, operations.DTYPES[wire]) for i in indices]
            total = torch.cat(values)  # a copy, into which the sum is written
            dist.all_reduce(total, group=self.group)
            if not all_finite(total):
                raise NotFiniteError(f"a sum over {self.world} ranks is too large for {wire}")
            for i, part in zip(indices, total.float().split([len(one) for one in values]), strict=True):
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
    return operations.host(tensor) if isinstance(like, np.ndarray) else tensor.to(like.device)


def _ordered_sum(request: AllReduce, payloads: Sequence[Tensor]) -> Any:
    """The simulator's result, from the bytes of all ranks."""
    size = len(request.values)
    values = (_received(from_bytes(p, request.wire, size), request.values) for p in payloads)
    return collective_result([replace(request, values=v) for v in values])
