"""The 8-bit weight broadcast with all learners in one process, to be studied and compared (Sun et al. 2019).

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from lplab.compression.weight_shares import MOMENTUM, RATE, Owners, Scheme
from lplab.formats.base import whole
from lplab.parallel.gradients import Batch, Loss, loop, seed_of, trained
from lplab.parallel.weight_broadcast import checked, flat, put
from lplab.training.modes import in_training
from lplab.training.threads import torch_threads
from lplab.training.trainer import default_loss


@dataclass(frozen=True)
class SharedStep:
    """One step of :class:`SharedWeights`.

    Attributes:
        number: from 0.
        loss: mean over the learners, before the update.
        skipped: whether nothing was applied, as a learner's gradient was not finite.
        sent_bytes: of all learners together.
    """

    number: int
    loss: float
    skipped: bool
    sent_bytes: int


class SharedWeights:
    """The same protocol with all learners in one process: real gradients, real codes, one model.

    Args:
        model: any module.
        batches: a function of (step, rank) that gives a learner's (inputs, targets).
        learners: how many, 1 or more.
        loss: a function of (output, target).
        scheme, rate, momentum: as for :class:`WeightBroadcast`.
        seed: of dropout and the like.
        owners: what takes the gradients; by default the protocol. Anything with ``visible()`` and ``step(gradients)``,
            as master weights on one owner, which it is compared with.

    >>> import torch
    >>> model = nn.Linear(4, 2)
    >>> run = SharedWeights(model, lambda step, rank: (torch.ones(3, 4), torch.tensor([0, 1, 0])), learners=2)
    >>> [step.sent_bytes for step in run.steps(2)], [sum(Scheme().sent_bytes(10, 2, rank)) for rank in (0, 1)]
    ([30, 30], [15, 15])
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Callable[[int, int], Batch],
        learners: int,
        *,
        loss: Loss = default_loss,
        scheme: Scheme | None = None,
        rate: float = RATE,
        momentum: float = MOMENTUM,
        seed: int = 0,
        owners: Any = None,
    ) -> None:
        self.model, self.batches, self.loss, self.seed = model, batches, loss, seed
        self.world, self.number = whole("learners", learners, 1, 2**16), 0
        self.parameters = checked(trained(model).values())
        first = flat(p.detach() for p in self.parameters)
        self.owners = owners or Owners(first, self.world, scheme or Scheme(), rate, momentum)
        put(self.owners.visible(), self.parameters)

    def steps(self, count: int) -> Iterator[SharedStep]:
        """Train ``count`` steps and yield after each."""
        for _ in range(whole("count", count, 0, 2**31 - 1)):
            number, ranks, before = self.number, range(self.world), getattr(self.owners, "sent_bytes", 0)
            with torch_threads(1):
                batches = [self.batches(number, rank) for rank in ranks]
                seeds = [seed_of(self.seed, number, rank) for rank in ranks]
                found = loop(in_training(self.model), self.loss, batches, seeds)
            gradients = [flat(g[rank] for g in found.gradients.values()) for rank in ranks]
            made = all(np.isfinite(g).all() for g in gradients)
            if made:
                self.owners.step(gradients)
                put(self.owners.visible(), self.parameters)
            self.number += 1
            sent = getattr(self.owners, "sent_bytes", 0) - before
            yield SharedStep(number, float(np.mean(found.losses)), not made, sent)
