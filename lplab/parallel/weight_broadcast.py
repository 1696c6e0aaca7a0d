"""The 8-bit weight broadcast between real processes: reduce-scatter, update by the owner, all-gather (Sun et al. 2019).

    broadcast = WeightBroadcast(model.parameters())           # instead of DistributedDataParallel and an optimizer
    ...
    loss.backward()
    broadcast.step()                                          # all ranks together

The parameters then hold values of the 8-bit format. Layers that stay in 16 bits get a broadcast of their own, with
``Scheme(weight="dlfloat16", rest=None)``. Gradients must not be averaged before (no DistributedDataParallel).

What an owner does is :class:`lplab.compression.weight_shares.Owner`, in a simulation and here, so the bits are the
same. Communication waits until the backward pass is done. Tested over gloo; with NCCL codes pass through the GPU, which
has not been run yet.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from lplab.compression.exchange import Entry, Ledger
from lplab.compression.weight_shares import MOMENTUM, RATE, Owner, Scheme, from_bytes, share_sizes, to_bytes

LAYER = "all weights"  # the name in the ledger: shares are cut from all weights together


class WeightBroadcast:
    """One rank of the protocol.

    Args:
        parameters: of the model, float32, the same values and the same order on all ranks.
        scheme: what travels and what is kept.
        rate, momentum: of the update by owners (SGD); set ``owner.rate`` for a schedule, on all ranks.
        group: of torch.distributed; None for the default one.

    Attributes:
        owner: this rank's share.
        ledger: bytes that this rank sent, from the buffers: kinds "reduce_scatter" and "all_gather".

    Raises:
        ValueError: no parameters.
        TypeError: parameters that are not float32.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        scheme: Scheme | None = None,
        *,
        rate: float = RATE,
        momentum: float = MOMENTUM,
        group: Any = None,
    ) -> None:
        self.parameters, self.scheme, self.group = checked(parameters), scheme or Scheme(), group
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        nccl = dist.get_backend(group) == "nccl"  # which moves what is on a GPU; what is computed here is on the CPU
        self.device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")
        first = flat(p.detach() for p in self.parameters)
        self.sizes = share_sizes(first.size, self.world)
        self.cuts = np.cumsum(self.sizes)[:-1]
        self.owner = Owner(np.split(first, self.cuts)[self.rank], self.scheme, rate, momentum)
        self.ledger, self.number = Ledger(), 0
        self._spread(to_bytes(self.owner.sent, self.scheme.weight))  # all begin with what rounding made of the weights
        self.ledger.entries.clear()

    def step(self) -> bool:
        """Exchange the gradients, update, spread the weights; whether that was done.

        A gradient that is not finite on any rank leaves all weights as they are, on all ranks.
        """
        gradient = flat(torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters)
        if not self._all_agree(bool(np.isfinite(gradient).all())):
            return False
        self._spread(self.owner.update(self._collect(gradient)))
        self.number += 1
        return True

    def master(self) -> np.ndarray:
        """The weights in high precision, rebuilt from all owners: float32 [n], the same on all ranks; for checkpoints.

        All ranks must call it.
        """
        return self._joined(to_bytes(self.owner.weights, self.scheme.state), self.scheme.state)

    def state_dict(self) -> dict[str, Any]:
        """Everything to go on with, bit for bit, on any number of ranks: master weights and momentum of all owners.

        All ranks must call it; the answer is the same on all.
        """
        velocity = self._joined(to_bytes(self.owner.velocity, self.scheme.state), self.scheme.state)
        return {"number": self.number, "scheme": repr(self.scheme), "master": self.master(), "velocity": velocity}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from :meth:`state_dict`; without a rest, from what all learners have.

        Raises:
            ValueError: a checkpoint of another scheme or of another number of weights.
        """
        if saved["scheme"] != repr(self.scheme) or saved["master"].size != sum(self.sizes):
            raise ValueError(
                f"the checkpoint is of {saved['master'].size:,} weights with {saved['scheme']}, here are "
                f"{sum(self.sizes):,} with {self.scheme!r}"
            )
        share, velocity = (np.split(saved[name], self.cuts)[self.rank] for name in ("master", "velocity"))
        self.owner = Owner(share, self.scheme, self.owner.rate, self.owner.momentum)
        self.owner.velocity = velocity.copy()
        self.number = saved["number"]
        kept = list(self.ledger.entries)
        self._spread(to_bytes(self.owner.sent, self.scheme.weight))
        self.ledger.entries[:] = kept

    # -- the wire ---------------------------------------------------------------------------------------------

    def _collect(self, gradient: np.ndarray) -> list[bytes]:
        """Reduce-scatter before the sum: what all ranks sent for the own share, in the order of ranks."""
        parts = [to_bytes(part, self.scheme.gradient) for part in np.split(gradient, self.cuts)]
        send = self._tensor(b"".join(parts))
        lengths = [len(part) for part in parts]
        receive = torch.empty(len(parts[self.rank]) * self.world, dtype=torch.uint8, device=self.device)
        dist.all_to_all_single(receive, send, [len(parts[self.rank])] * self.world, lengths, self.group)
        self._note("reduce_scatter", send.numel() - lengths[self.rank])
        data, each = receive.cpu().numpy().tobytes(), lengths[self.rank]
        return [data[k * each : (k + 1) * each] for k in range(self.world)]

    def _spread(self, codes: bytes) -> None:
        """All-gather of the codes, which become the weights of all ranks."""
        weights = self._joined(codes, self.scheme.weight)
        self._note("all_gather", len(codes) * (self.world - 1))
        put(weights, self.parameters)

    def _joined(self, codes: bytes, name: str) -> np.ndarray:
        """The shares of all ranks in one array; padded on the way to the longest, which gloo asks for."""
        width = len(to_bytes(np.zeros(1, np.float32), name))
        padded = torch.zeros(max(self.sizes) * width, dtype=torch.uint8, device=self.device)
        padded[: len(codes)] = self._tensor(codes)
        rows = [torch.empty_like(padded) for _ in self.sizes]
        dist.all_gather(rows, padded, self.group)
        pairs = zip(rows, self.sizes, strict=True)
        return np.concatenate([from_bytes(row.cpu().numpy()[: size * width].tobytes(), name) for row, size in pairs])

    def _all_agree(self, yes: bool) -> bool:
        flag = torch.tensor([yes], dtype=torch.uint8, device=self.device)
        dist.all_reduce(flag, dist.ReduceOp.MIN, self.group)
        return bool(flag.item())

    def _tensor(self, data: bytes) -> Tensor:
        return torch.from_numpy(np.frombuffer(data, np.uint8).copy()).to(self.device)

    def _note(self, kind: str, nbytes: int) -> None:
        self.ledger.entries.append(Entry(self.number, LAYER, kind, self.rank, nbytes))


def checked(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """The parameters as a list.

    Raises:
        ValueError: none.
        TypeError: one that is not float32.
    """
    found = list(parameters)
    if not found:
        raise ValueError("there are no parameters to share out")
    wrong = {str(p.dtype) for p in found} - {"torch.float32"}
    if wrong:
        raise TypeError(f"weights that travel in 8 bits must be float32 parameters, got {', '.join(sorted(wrong))}")
    return found


def flat(tensors: Iterable[Tensor]) -> np.ndarray:
    """Tensors as one array: float32 [n], a copy."""
    return torch.cat([t.detach().float().cpu().reshape(-1) for t in tensors]).numpy()


@torch.no_grad()
def put(weights: np.ndarray, parameters: Iterable[nn.Parameter]) -> None:
    """The inverse of :func:`flat`: the values of one array become those of the parameters."""
    values, start = torch.from_numpy(weights), 0
    for parameter in parameters:
        parameter.copy_(values[start : start + parameter.numel()].view(parameter.shape))
        start += parameter.numel()
