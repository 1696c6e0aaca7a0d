"""The sharded update with weights in 8 bits, simulated with all learners in one process (Sun et al. 2019).

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from lplab.checks import check_int
from lplab.compression.compressor import all_finite
from lplab.compression.module_layers import trainable_parameters
from lplab.compression.sharded_weights import LEARNING_RATE, MOMENTUM, ShardedUpdateFormats, ShardedWeights
from lplab.parallel.learner_gradients import Batch, Loss, learner_seed, sequential_gradients
from lplab.parallel.sharded_update import check_parameters, flatten, load_flat
from lplab.training.loop.train_eval_mode import ensure_train_mode
from lplab.training.loop.trainer import default_loss
from lplab.training.threads import torch_threads


@dataclass(frozen=True)
class ShardedStep:
    """One step of :class:`SimulatedShardedTraining`.

    Attributes:
        number: from 0.
        loss: mean over the learners, before the update.
        skipped: whether the update was skipped, because a learner's gradient, or what was made of it, was not finite.
        sent_bytes: of all learners together.
    """

    number: int
    loss: float
    skipped: bool
    sent_bytes: int


class SimulatedShardedTraining:
    """The protocol of :class:`~sharded_update.ShardedWeightUpdate` in one process: real gradients and codes, one model.

    Args:
        model: any module.
        batches: a function of (step, rank) that gives a learner's (inputs, targets).
        learners: how many, 1 or more.
        loss: a function of (output, target).
        scheme, learning_rate, momentum: as for :class:`~sharded_update.ShardedWeightUpdate`.
        seed: of dropout and the like.
        sharded_weights: the receiver of the gradients, with ``broadcast_weights()`` and ``step(gradients)``; by default
            the protocol. Tests pass master weights on one owner, for comparison. False from ``step``: it was skipped.

    >>> import torch
    >>> model = nn.Linear(4, 2)
    >>> batches = lambda step, rank: (torch.ones(3, 4), torch.tensor([0, 1, 0]))
    >>> run, formats = SimulatedShardedTraining(model, batches, learners=2), ShardedUpdateFormats()
    >>> [step.sent_bytes for step in run.steps(2)], [sum(formats.sent_bytes(10, 2, rank)) for rank in (0, 1)]
    ([30, 30], [15, 15])
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Callable[[int, int], Batch],
        learners: int,
        *,
        loss: Loss = default_loss,
        scheme: ShardedUpdateFormats | None = None,
        learning_rate: float = LEARNING_RATE,
        momentum: float = MOMENTUM,
        seed: int = 0,
        sharded_weights: Any = None,
    ) -> None:
        self.model, self.batches, self.loss, self.seed = model, batches, loss, seed
        self.world, self.number = check_int("learners", learners, 1, 2**16), 0
        self.parameters = check_parameters(trainable_parameters(model).values())
        first = flatten(p.detach() for p in self.parameters)
        self.sharded_weights = sharded_weights or ShardedWeights(
            first, self.world, scheme or ShardedUpdateFormats(), learning_rate, momentum
        )
        load_flat(self.sharded_weights.broadcast_weights(), self.parameters)

    def steps(self, count: int) -> Iterator[ShardedStep]:
        """Train ``count`` steps and yield after each."""
        for _ in range(check_int("count", count, 0, 2**31 - 1)):
            number, ranks, before = self.number, range(self.world), getattr(self.sharded_weights, "sent_bytes", 0)
            with torch_threads(1):
                batches = [self.batches(number, rank) for rank in ranks]
                seeds = [learner_seed(self.seed, number, rank) for rank in ranks]
                results = sequential_gradients(ensure_train_mode(self.model), self.loss, batches, seeds)
            gradients = [flatten(g[rank] for g in results.gradients.values()) for rank in ranks]
            made = all(map(all_finite, gradients)) and self.sharded_weights.step(gradients) is not False
            if made:
                load_flat(self.sharded_weights.broadcast_weights(), self.parameters)
            self.number += 1
            sent = getattr(self.sharded_weights, "sent_bytes", 0) - before
            yield ShardedStep(number, float(np.mean(results.losses)), not made, sent)
