"""The sharded update with weights in 8 bits between processes: reduce-scatter, update, all-gather (Sun et al. 2019).

    update = ShardedWeightUpdate(model.parameters())          # instead of DistributedDataParallel and an optimizer
    ...
    loss.backward()
    update.step()                                             # on all ranks

The parameters then hold values of the 8-bit format. Layers that stay in 16 bits need a second ShardedWeightUpdate, with
``ShardedUpdateFormats(weight="dlfloat16", residual=None)``. Gradients must not be averaged before (no
DistributedDataParallel).

The owner's part is :class:`lplab.compression.sharded_weights.WeightShard`, in the simulation and here, so the bits are
the same. Communication starts after the backward pass. Tested over gloo; with NCCL the codes pass through the GPU,
which is not tested.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from lplab.compression.compressor import all_finite
from lplab.compression.lockstep import Entry, TrafficLog
from lplab.compression.sharded_weights import (
    LEARNING_RATE,
    MOMENTUM,
    ShardedUpdateFormats,
    WeightShard,
    from_bytes,
    shard_sizes,
    to_bytes,
)
from lplab.parallel.process_group import ProcessGroupTransport

LAYER = "all weights"  # in the traffic log: shards are cut from all weights together


class ShardedWeightUpdate:
    """One rank of the sharded update: reduce-scatter of gradients, all-gather of weights.

    Args:
        parameters: of the model, float32, the same values and the same order on all ranks.
        scheme: formats of messages and states.
        learning_rate, momentum: of the update (SGD); for a schedule set ``shard.learning_rate`` on all ranks.
        group: of torch.distributed; None for the default one.

    Attributes:
        shard: the weights that this rank owns.
        ledger: bytes that this rank sent, from the buffers: kinds "reduce_scatter" and "all_gather".

    Raises:
        ValueError: no parameters.
        TypeError: parameters that are not float32.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        scheme: ShardedUpdateFormats | None = None,
        *,
        learning_rate: float = LEARNING_RATE,
        momentum: float = MOMENTUM,
        group: Any = None,
    ) -> None:
        self.parameters, self.scheme, self.group = check_parameters(parameters), scheme or ShardedUpdateFormats(), group
        # NCCL needs tensors on the GPU; all computation here is on the CPU.
        device = next((p.device for p in self.parameters if p.is_cuda), None)
        if device is None and dist.get_backend(group) == "nccl":
            device = torch.device("cuda", torch.cuda.current_device())
        self.transport = ProcessGroupTransport(group, device=device)
        self.rank, self.world, self.device = self.transport.rank, self.transport.world, self.transport.device
        first = flatten(p.detach() for p in self.parameters)
        self.sizes = shard_sizes(first.size, self.world)
        self.cuts = np.cumsum(self.sizes)[:-1]
        self.shard = WeightShard(np.split(first, self.cuts)[self.rank], self.scheme, learning_rate, momentum)
        self.ledger, self.number = TrafficLog(), 0
        # All ranks start from the rounded weights.
        self._all_gather(to_bytes(self.shard.sent, self.scheme.weight))
        self.ledger.entries.clear()

    def step(self) -> bool:
        """Exchange the gradients, update, send the weights to all; whether the step was made.

        If a gradient, or what is made of it, is not finite on any rank, all ranks skip the step.
        """
        gradient = flatten(torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters)
        if self.transport.first_rank_with(not all_finite(gradient)) is not None:
            return False
        new = self.shard.updated(self._reduce_scatter(gradient))
        if self.transport.first_rank_with(new is None) is not None or new is None:
            return False
        self._all_gather(self.shard.store(*new))
        self.number += 1
        return True

    def master(self) -> np.ndarray:
        """The master weights, gathered from all owners: float32 [n], the same on all ranks; for checkpoints.

        All ranks must call it.
        """
        return self._gathered(to_bytes(self.shard.weights, self.scheme.state), self.scheme.state)

    def state_dict(self) -> dict[str, Any]:
        """The state to resume from, bit for bit, on any number of ranks: master weights and momentum.

        All ranks must call it; the result is the same on all.
        """
        velocity = self._gathered(to_bytes(self.shard.velocity, self.scheme.state), self.scheme.state)
        return {"number": self.number, "scheme": repr(self.scheme), "master": self.master(), "velocity": velocity}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Resume from :meth:`state_dict`; without a residual, from the rounded weights.

        Raises:
            ValueError: a checkpoint with another scheme or another number of weights.
        """
        if saved["scheme"] != repr(self.scheme) or saved["master"].size != sum(self.sizes):
            raise ValueError(
                f"the checkpoint is of {saved['master'].size:,} weights with {saved['scheme']}, here are "
                f"{sum(self.sizes):,} with {self.scheme!r}"
            )
        share, velocity = (np.split(saved[name], self.cuts)[self.rank] for name in ("master", "velocity"))
        self.shard = WeightShard(share, self.scheme, self.shard.learning_rate, self.shard.momentum)
        self.shard.velocity = velocity.copy()
        self.number = saved["number"]
        entries = list(self.ledger.entries)
        self._all_gather(to_bytes(self.shard.sent, self.scheme.weight))
        self.ledger.entries[:] = entries

    # -- communication ---------------------------------------------------------------------------------------

    def _reduce_scatter(self, gradient: np.ndarray) -> list[bytes]:
        """The reduce-scatter without its sum: the gradients of all ranks for this shard, in the order of ranks."""
        parts = [to_bytes(part, self.scheme.gradient) for part in np.split(gradient, self.cuts)]
        send = self._tensor(b"".join(parts))
        lengths = [len(part) for part in parts]
        receive = torch.empty(len(parts[self.rank]) * self.world, dtype=torch.uint8, device=self.device)
        dist.all_to_all_single(receive, send, [len(parts[self.rank])] * self.world, lengths, self.group)
        self._log("reduce_scatter", send.numel() - lengths[self.rank])
        return [row.tobytes() for row in receive.cpu().numpy().reshape(self.world, -1)]

    def _all_gather(self, codes: bytes) -> None:
        """All-gather of the codes, which become the parameters on all ranks."""
        weights = self._gathered(codes, self.scheme.weight)
        self._log("all_gather", len(codes) * (self.world - 1))
        load_flat(weights, self.parameters)

    def _gathered(self, codes: bytes, name: str) -> np.ndarray:
        """The shards of all ranks in one array."""
        width = len(to_bytes(np.zeros(1, np.float32), name))
        rows = self.transport.gather(self._tensor(codes), [size * width for size in self.sizes])
        return np.concatenate([from_bytes(row.cpu().numpy().tobytes(), name) for row in rows])

    def _tensor(self, data: bytes) -> Tensor:
        return torch.from_numpy(np.frombuffer(data, np.uint8).copy()).to(self.device)

    def _log(self, kind: str, nbytes: int) -> None:
        self.ledger.entries.append(Entry(self.number, LAYER, kind, self.rank, nbytes))


def check_parameters(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """Check the parameters and return them as a list.

    Raises:
        ValueError: no parameters.
        TypeError: a parameter that is not float32.
    """
    checked = list(parameters)
    if not checked:
        raise ValueError("there are no parameters to shard")
    wrong = {str(p.dtype) for p in checked} - {"torch.float32"}
    if wrong:
        raise TypeError(f"sharded weights must be float32 parameters, got {', '.join(sorted(wrong))}")
    return checked


def flatten(tensors: Iterable[Tensor]) -> np.ndarray:
    """Tensors as one array: float32 [n], a copy."""
    return torch.cat([t.detach().float().cpu().reshape(-1) for t in tensors]).numpy()


@torch.no_grad()
def load_flat(weights: np.ndarray, parameters: Iterable[nn.Parameter]) -> None:
    """The inverse of :func:`flatten`: copy the values of one array to the parameters."""
    values, start = torch.from_numpy(weights), 0
    for parameter in parameters:
        parameter.copy_(values[start : start + parameter.numel()].view(parameter.shape))
        start += parameter.numel()
