"""Federated averaging (McMahan et al. 2017) with clients of equal size, some of which drop out.

In a round the server sends its weights to some clients. Each trains a few steps on its own data and returns its weight
update, compressed; the server adds the mean. Bytes in both directions are counted from the real payloads. The residual
of error feedback stays at the client: a client that is selected seldom adds an old residual to new weights, and that of
a client that never returns is lost. ``FederatedRound`` reports both.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from lplab.checks import check_int
from lplab.compression import NotFiniteError, TrafficLog
from lplab.compression.compressor import ensure_finite
from lplab.compression.module_layers import trainable_parameters
from lplab.compression.sharded_weights import from_bytes, to_bytes
from lplab.parallel.clients import FederatedSettings
from lplab.parallel.compressor_states import CompressorStates, average_updates, layer_infos
from lplab.parallel.learner_gradients import Batch, Loss, learner_seed
from lplab.training.loop.trainer import default_loss
from lplab.training.thread_counts import torch_threads


@dataclass(frozen=True)
class FederatedRound:
    """One round.

    Attributes:
        number: from 0.
        loss: of the last local step, mean over the clients that responded; NaN if none did.
        selected, responded: client numbers; an update that is not finite counts as no response. If the mean of all
            updates overflows, none counts.
        bytes_down, bytes_up: of all clients together.
        pending_residual_norm: Euclidean norm of the mean residual of all clients after the round.
        lost_residual_norm: the same for the clients that will not be selected again.
    """

    number: int
    loss: float
    selected: tuple[int, ...]
    responded: tuple[int, ...]
    bytes_down: int
    bytes_up: int
    pending_residual_norm: float
    lost_residual_norm: float


class FedAvg:
    """A server and its clients, in one process.

    Args:
        model: the server's; each client trains a copy of its weights.
        data: a function of (client, step) that returns a client's (inputs, targets); steps are counted across rounds.
        settings: of the rounds.
        loss: a function of (output, target).
        seed: of all random numbers, including selection and responses.

    Attributes:
        ledger: traffic log of all uploads: step is the round, rank the client.

    Raises:
        ValueError: a model with batch norms, whose running means differ from client to client.
        TypeError: complex parameters.

    >>> x, y = torch.randn(40, 8), torch.randint(0, 3, (40,))
    >>> from lplab.parallel.clients import client_batches
    >>> data = client_batches(x, y, clients=4, batch=5)
    >>> run = FedAvg(nn.Linear(8, 3), data, FederatedSettings(clients=4, share=0.5, download="hfp8_forward"))
    >>> first = next(run.rounds(1))
    >>> first.bytes_down, first.bytes_up, len(first.selected)
    (72, 216, 2)
    """

    def __init__(
        self,
        model: nn.Module,
        data: Callable[[int, int], Batch],
        settings: FederatedSettings | None = None,
        loss: Loss = default_loss,
        seed: int = 0,
    ) -> None:
        refuse_batch_norm(model)
        if any(p.is_complex() for p in trainable_parameters(model).values()):
            raise TypeError("complex parameters are not supported: updates are sent as real float32 values")
        self.model, self.data, self.loss, self.seed = model, data, loss, seed
        self.settings = settings or FederatedSettings()
        self.ledger = TrafficLog()
        self._infos = layer_infos(model)
        # Of clients that have responded.
        self._states: dict[int, CompressorStates] = {}
        # Clients that are not selected again.
        self._gone: set[int] = set()
        self.number = 0

    def rounds(self, count: int) -> Iterator[FederatedRound]:
        """Run ``count`` rounds and yield after each.

        Raises:
            ValueError: with ``without_replacement``, too few clients are left.
        """
        for _ in range(check_int("count", count, 0, 2**31 - 1)):
            yield self.one_round()

    def one_round(self) -> FederatedRound:
        """Select clients, train them, gather and average their updates."""
        rng = np.random.default_rng([self.seed, self.number])
        selected = self._select(rng)
        responding = [client for client in selected if rng.random() < self.settings.response_probability]
        weights, nbytes = self._download()
        updates: dict[int, dict[str, np.ndarray]] = {}
        losses = []
        with torch_threads(1):
            for client in responding:
                update, loss = self._train(client, weights)
                if all(np.isfinite(values).all() for values in update.values()):
                    updates[client] = update
                    losses.append(loss)
        up = self._average(updates)
        if up is None:
            updates, losses, up = {}, [], 0
        if self.settings.without_replacement:
            self._gone |= set(selected)
        self.number += 1
        loss = float(np.mean(losses)) if losses else float("nan")
        down = nbytes * len(selected)
        pending, lost = self._residual_norm(self._states), self._residual_norm(self._gone)
        return FederatedRound(self.number - 1, loss, tuple(selected), tuple(updates), down, up, pending, lost)

    def _select(self, rng: np.random.Generator) -> list[int]:
        remaining = [client for client in range(self.settings.clients) if client not in self._gone]
        if len(remaining) < self.settings.selected_per_round:
            raise ValueError(
                f"each round selects {self.settings.selected_per_round} other clients, and {len(remaining)} of "
                f"{self.settings.clients} are left: use more clients, fewer rounds or without_replacement=False"
            )
        return sorted(int(client) for client in rng.choice(remaining, self.settings.selected_per_round, replace=False))

    def _download(self) -> tuple[dict[str, np.ndarray], int]:
        """The weights as a client decodes them, and their size in bytes."""
        weights, nbytes = {}, 0
        for name, parameter in trainable_parameters(self.model).items():
            values = parameter.detach().float().numpy()
            wire = self.settings.download if values.ndim > 1 else "fp32"
            payload = to_bytes(values.reshape(-1), wire)
            weights[name] = from_bytes(payload, wire).reshape(values.shape).astype(np.float32)
            nbytes += len(payload)
        return weights, nbytes

    def _train(self, client: int, weights: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], float]:
        """The weight update of a client's local steps, and its last loss; the server's weights are restored."""
        parameters = trainable_parameters(self.model)
        before = {name: p.detach().clone() for name, p in parameters.items()}
        _put(parameters, weights)
        optimizer = torch.optim.SGD(parameters.values(), lr=self.settings.lr)
        last = float("nan")
        with torch.random.fork_rng(devices=[]):
            for step in range(self.number * self.settings.local_steps, (self.number + 1) * self.settings.local_steps):
                torch.manual_seed(learner_seed(self.seed, step, client))
                inputs, targets = self.data(client, step)
                optimizer.zero_grad()
                value = self.loss(self.model(inputs), targets)
                value.backward()
                optimizer.step()
                last = value.item()
        update = {n: np.subtract(p.detach().float().numpy(), weights[n])[...] for n, p in parameters.items()}
        _put(parameters, before)
        return update, last

    def _average(self, updates: dict[int, dict[str, np.ndarray]]) -> int | None:
        """Add the mean of the compressed updates, commit the residuals, and return the bytes sent.

        None if something overflows on the way: then weights and residuals are as before.
        """
        if not updates:
            return 0
        for client in updates:
            self._states.setdefault(client, CompressorStates(self.settings.upload, self._infos))
        states, parameters = {client: self._states[client] for client in updates}, trainable_parameters(self.model)
        try:
            averages, sent = average_updates(states, updates, self.number, self.seed)
            new = {
                name: ensure_finite((parameter.detach() + torch.from_numpy(averages[name])).to(parameter.dtype))
                for name, parameter in parameters.items()
            }
        except NotFiniteError:
            for state in states.values():
                state.rollback()
            return None
        _put(parameters, new)
        for state in states.values():
            state.commit()
        self.ledger.entries += sent.entries
        return sent.total()

    def _residual_norm(self, clients: Any) -> float:
        """The norm of the sum of these clients' residuals, divided by the number of all clients."""
        total = 0.0
        for name in self._infos:
            states = [self._states[client].states[name] for client in clients if client in self._states]
            residuals = [state["residual"] for state in states if "residual" in state]
            if residuals:
                total += float(np.square(np.sum(residuals, axis=0, dtype=np.float64) / self.settings.clients).sum())
        return float(np.sqrt(total))


def refuse_batch_norm(model: nn.Module) -> None:
    """Raise ValueError for a model with batch norms, whose running means no meeting averages."""
    if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
        raise ValueError("BatchNorm has running means that differ from client to client; use another normalization")


def _put(parameters: dict[str, nn.Parameter], values: Any) -> None:
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(torch.as_tensor(values[name]))
            parameter.grad = None
