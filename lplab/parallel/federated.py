"""Federated averaging, small: clients that train by themselves for a while, and some that do not come back.

In a round the server sends its weights to some clients; each trains a few steps on its own data and sends back what its
weights moved by, compressed; the server adds the mean (McMahan et al. 2017, with equally large clients). Bytes are
counted from the real payloads, down and up. An error-feedback memory lives at the client: whoever is asked seldom adds
old leftovers to new weights, whoever never comes back takes them along. ``FederatedRound`` says how much that is.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from lplab.compression import Ledger, exchange
from lplab.compression.weight_shares import from_bytes, to_bytes
from lplab.formats.base import whole
from lplab.parallel.clients import FederatedSettings
from lplab.parallel.gradients import Batch, Loss, seed_of, trained
from lplab.parallel.layers import layer_infos
from lplab.parallel.memory import Memory
from lplab.training.threads import torch_threads
from lplab.training.trainer import default_loss


@dataclass(frozen=True)
class FederatedRound:
    """One round.

    Attributes:
        number: from 0.
        loss: mean over the answers, of their last local step; NaN if nobody answered.
        asked, answered: clients; one whose update is not finite counts as not answering.
        bytes_down, bytes_up: of all clients together.
        waiting: Euclidean length of the mean of all clients' memories, after the round: what is still to be applied.
        lost: the same, of the clients that will never be asked again.
    """

    number: int
    loss: float
    asked: tuple[int, ...]
    answered: tuple[int, ...]
    bytes_down: int
    bytes_up: int
    waiting: float
    lost: float


class Federated:
    """A server and its clients, in one process.

    Args:
        model: the server's; each client trains a copy of its weights.
        data: a function of (client, step) that gives a client's (inputs, targets); steps count on from round to round.
        settings: who takes part, and what travels.
        loss: a function of (output, target).
        seed: of who is asked, who answers, and all coins.

    Attributes:
        ledger: every payload upwards: step is the round, rank the client.

    Raises:
        ValueError: a model with batch norms, whose running means no client and no server would own.

    >>> x, y = torch.randn(40, 8), torch.randint(0, 3, (40,))
    >>> from lplab.parallel.clients import client_batches
    >>> data = client_batches(x, y, clients=4, batch=5)
    >>> run = Federated(nn.Linear(8, 3), data, FederatedSettings(clients=4, share=0.5, download="hfp8_forward"))
    >>> first = next(run.rounds(1))
    >>> first.bytes_down, first.bytes_up, len(first.asked)
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
        if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
            raise ValueError(
                "BatchNorm has running means that differ from client to client; take another normalization"
            )
        self.model, self.data, self.loss, self.seed = model, data, loss, seed
        self.settings = settings or FederatedSettings()
        self.ledger = Ledger()
        self._infos = layer_infos(model)
        self._memories: dict[int, Memory] = {}  # of clients that have answered
        self._gone: set[int] = set()
        self.number = 0

    def rounds(self, count: int) -> Iterator[FederatedRound]:
        """Make ``count`` rounds and yield after each.

        Raises:
            ValueError: with ``once``, too few clients are left that were never asked.
        """
        for _ in range(whole("count", count, 0, 2**31 - 1)):
            yield self.one_round()

    def one_round(self) -> FederatedRound:
        """Ask, train, gather, average."""
        rng = np.random.default_rng([self.seed, self.number])
        asked = self._choose(rng)
        there = [client for client in asked if rng.random() < self.settings.returns]
        weights, nbytes = self._download()
        updates: dict[int, dict[str, np.ndarray]] = {}
        losses = []
        with torch_threads(1):
            for client in there:
                moved, loss = self._train(client, weights)
                if all(np.isfinite(update).all() for update in moved.values()):
                    updates[client] = moved
                    losses.append(loss)
        sent = self._average(updates)
        if self.settings.once:
            self._gone |= set(asked)
        self.number += 1
        loss = float(np.mean(losses)) if losses else float("nan")
        down = nbytes * len(asked)
        waiting, lost = self._norm(self._memories), self._norm(self._gone)
        return FederatedRound(self.number - 1, loss, tuple(asked), tuple(updates), down, sent, waiting, lost)

    def _choose(self, rng: np.random.Generator) -> list[int]:
        left = [client for client in range(self.settings.clients) if client not in self._gone]
        if len(left) < self.settings.asked:
            raise ValueError(
                f"{self.settings.asked} clients are asked in a round, each once, and {len(left)} of "
                f"{self.settings.clients} are left: take more clients, fewer rounds or once=False"
            )
        return sorted(int(client) for client in rng.choice(left, self.settings.asked, replace=False))

    def _download(self) -> tuple[dict[str, np.ndarray], int]:
        """The weights as a client reads them, and their bytes."""
        weights, nbytes = {}, 0
        for name, parameter in trained(self.model).items():
            values = parameter.detach().numpy()
            wire = self.settings.download if values.ndim > 1 else "fp32"
            payload = to_bytes(values.reshape(-1), wire)
            weights[name] = from_bytes(payload, wire).reshape(values.shape).astype(np.float32)
            nbytes += len(payload)
        return weights, nbytes

    def _train(self, client: int, weights: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], float]:
        """What a client's weights moved by in its local steps, and its last loss; the server's stay as they are."""
        parameters = trained(self.model)
        before = {name: p.detach().clone() for name, p in parameters.items()}
        _put(parameters, weights)
        optimizer = torch.optim.SGD(parameters.values(), lr=self.settings.lr)
        last = float("nan")
        with torch.random.fork_rng(devices=[]):
            for step in range(self.number * self.settings.local_steps, (self.number + 1) * self.settings.local_steps):
                torch.manual_seed(seed_of(self.seed, step, client))
                inputs, targets = self.data(client, step)
                optimizer.zero_grad()
                value = self.loss(self.model(inputs), targets)
                value.backward()
                optimizer.step()
                last = value.item()
        moved = {name: p.detach().numpy() - weights[name] for name, p in parameters.items()}
        _put(parameters, before)
        return moved, last

    def _average(self, updates: dict[int, dict[str, np.ndarray]]) -> int:
        """Add the mean of the compressed updates; what the clients remember stands. Returns the bytes."""
        if not updates:
            return 0
        ledger, clients = Ledger(), list(updates)
        for client in clients:
            self._memories.setdefault(client, Memory(self.settings.upload, self._infos))
        memories = [self._memories[client] for client in clients]
        for name, parameter in trained(self.model).items():
            found = exchange(
                memories[0].compressors[name],
                [updates[client][name] for client in clients],
                [memory.states[name] for memory in memories],
                step=self.number,
                layer=name,
                seed=self.seed,
                ledger=ledger,
            )
            with torch.no_grad():
                parameter += torch.from_numpy(found)
        for memory in memories:
            memory.commit()
        self.ledger.entries += [
            type(e)(e.step, e.layer, e.kind, clients[e.rank], e.payload_bytes) for e in ledger.entries
        ]
        return ledger.total()

    def _norm(self, clients: Any) -> float:
        """The length of what these clients remember, summed and divided by the number of all clients."""
        total = 0.0
        for name in self._infos:
            states = [self._memories[client].states[name] for client in clients if client in self._memories]
            residues = [state["residue"] for state in states if "residue" in state]
            if residues:
                total += float(np.square(np.sum(residues, axis=0, dtype=np.float64) / self.settings.clients).sum())
        return float(np.sqrt(total))


def _put(parameters: dict[str, nn.Parameter], values: Any) -> None:
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(torch.as_tensor(values[name]))
            parameter.grad = None
