"""Fused requests of many layers: one collective of torch.distributed for each kind, all as bytes.

Values are all-gathered and summed in the order of ranks ("ordered"), as in the simulator; or summed by ``all_reduce``,
which sends fewer bytes and adds in the order of the backend.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from lplab.compression.compressor import AllGather, AllReduce, Broadcast, Request
from lplab.compression.exchange import collective_result
from lplab.compression.wire.values import bytes_per_value, from_bytes, round_to_wire, to_bytes


class ProcessGroupTransport:
    """Performs requests on a process group.

    Args:
        group: of torch.distributed; None for the default one.
        ordered: whether values are summed in the order of ranks.
    """

    def __init__(self, group: Any = None, ordered: bool = True) -> None:
        self.group, self.ordered = group, ordered
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        nccl = dist.get_backend(group) == "nccl"
        self.device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")

    def perform(self, requests: Sequence[Request]) -> list[Any]:
        """The result of each request; all ranks pass the same kinds in the same order."""
        results: list[Any] = [None] * len(requests)
        for kind, perform in ((Broadcast, self._broadcasts), (AllReduce, self._sums), (AllGather, self._gathers)):
            indices = [i for i, request in enumerate(requests) if isinstance(request, kind)]
            if indices:
                for i, result in zip(indices, perform([requests[i] for i in indices]), strict=True):
                    results[i] = result
        return results

    def all_true(self, value: bool) -> bool:
        """Whether ``value`` is true on all ranks; sends one byte."""
        flag = torch.tensor([value], dtype=torch.uint8, device=self.device)
        dist.all_reduce(flag, dist.ReduceOp.MIN, self.group)
        return bool(flag.item())

    def gather(self, payload: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
        """The payloads of all ranks, whose lengths all ranks know; padded to the longest."""
        own = torch.zeros(max(sizes), dtype=torch.uint8, device=self.device)
        own[: payload.size] = torch.from_numpy(payload.copy())
        rows = [torch.empty_like(own) for _ in range(self.world)]
        dist.all_gather(rows, own, self.group)
        return [row.cpu().numpy()[:size] for row, size in zip(rows, sizes, strict=True)]

    def _broadcasts(self, requests: Sequence[Any]) -> list[np.ndarray]:
        sizes = [request.nbytes for request in requests]
        source = requests[0].source
        buffer = torch.empty(sum(sizes), dtype=torch.uint8, device=self.device)
        if self.rank == source:
            buffer.copy_(torch.from_numpy(np.concatenate([request.payload for request in requests])))
        dist.broadcast(buffer, dist.get_global_rank(self.group or dist.group.WORLD, source), self.group)
        payloads = _split(buffer.cpu().numpy(), sizes)
        return [request.finish(payload) for request, payload in zip(requests, payloads, strict=True)]

    def _sums(self, requests: Sequence[Any]) -> list[np.ndarray]:
        return self._ordered_sums(requests) if self.ordered else self._reduced_sums(requests)

    def _ordered_sums(self, requests: Sequence[Any]) -> list[np.ndarray]:
        payload = np.concatenate([to_bytes(request.values, request.wire) for request in requests])
        sizes = [request.values.size * bytes_per_value(request.wire) for request in requests]
        rows = [_split(row, sizes) for row in self.gather(payload, [payload.size] * self.world)]
        columns = zip(*rows, strict=True)
        return [_ordered_sum(request, column) for request, column in zip(requests, columns, strict=True)]

    def _reduced_sums(self, requests: Sequence[Any]) -> list[np.ndarray]:
        types = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
        results = []
        for request in requests:
            values = torch.from_numpy(request.values.copy()).to(self.device, types[request.wire])
            dist.all_reduce(values, group=self.group)
            total = (
                values.float().cpu().numpy()
            )  # the backend sums half precision in half precision, which may overflow
            results.append(request.finish(round_to_wire(total, request.wire)))
        return results

    def _gathers(self, requests: Sequence[Any]) -> list[np.ndarray]:
        sizes = np.array([request.payload.size for request in requests], "<i8")
        tables = [row.view("<i8") for row in self.gather(sizes.view(np.uint8), [sizes.nbytes] * self.world)]
        payload = np.concatenate([request.payload for request in requests])
        rows = self.gather(payload, [int(table.sum()) for table in tables])
        split = [_split(row, table.tolist()) for row, table in zip(rows, tables, strict=True)]
        return [
            request.finish(list(column)) for request, column in zip(requests, zip(*split, strict=True), strict=True)
        ]


def _ordered_sum(request: AllReduce, payloads: Sequence[np.ndarray]) -> Any:
    """The simulator's result, from the bytes of all ranks."""
    size = request.values.size
    return collective_result([replace(request, values=from_bytes(p, request.wire, size)) for p in payloads])


def _split(buffer: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    return np.split(buffer, np.cumsum(sizes)[:-1])
