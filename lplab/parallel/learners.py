"""Many learners in one process: real gradients, real compression, real bytes, one model.

All learners hold the same weights, as they apply the same average; so there is one model, and as many residues as
learners. Memory: learners × parameters × 4 bytes for gradients, and twice that for residues.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lplab.compression import Compressor, Ledger, NotFiniteError, exchange
from lplab.formats.base import whole
from lplab.parallel.checkpoints import as_arrays, as_tensors
from lplab.parallel.gradients import ENGINES, Batch, Loss, seed_of, trained
from lplab.parallel.layers import layer_infos
from lplab.parallel.memory import Memory
from lplab.training.modes import in_training
from lplab.training.threads import torch_threads
from lplab.training.trainer import default_loss


@dataclass(frozen=True)
class Round:
    """One step of all learners.

    Attributes:
        number: from 0.
        losses: of each learner, before the update.
        skipped: whether nothing was applied, as a learner's gradient was not finite.
        payload_bytes: of all learners together.
    """

    number: int
    losses: tuple[float, ...]
    skipped: bool
    payload_bytes: int

    @property
    def loss(self) -> float:
        """The mean over the learners."""
        return float(np.mean(self.losses))


class Learners:
    """Learners that train one model together.

    Args:
        model: any module.
        loss: a function of (output, target).
        batches: a function of (step, rank) that gives a learner's (inputs, targets).
        compressor: of :mod:`lplab.compression`.
        learners: how many, 1 or more.
        optimizer: a function of the parameters; plain SGD with learning rate 0.1 unless told otherwise.
        engine: "loop", for every model; or "stacked", one pass for all learners, where the layers allow it.
        seed: of all coins.
        example: an input, for compressors that ask how often a weight is used.
        keep_ledger: whether every payload is written down.

    Raises:
        ValueError: a bad number of learners, an unknown engine, a layer that cannot be stacked.
        TypeError: trained parameters that are not float32, or none.

    >>> from lplab.compression import ScaleCom
    >>> x, y = torch.randn(64, 400), torch.randint(0, 10, (64,))
    >>> batches = shards(lambda step: (x, y), learners=8)
    >>> run = Learners(nn.Linear(400, 10), default_loss, batches, ScaleCom(chunk=100), learners=8)
    >>> len(list(run.steps(3))), run.ledger.total(step=2, kind="broadcast"), run.ledger.total(step=2, rank=5)
    (3, 40, 200)
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        batches: Callable[[int, int], Batch],
        compressor: Compressor,
        learners: int = 64,
        *,
        optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
        engine: str = "loop",
        seed: int = 0,
        example: Any = None,
        keep_ledger: bool = True,
    ) -> None:
        if engine not in ENGINES:
            raise ValueError(f"unknown engine {engine!r}; allowed: {', '.join(ENGINES)}")
        self.model, self.loss, self.batches = model, loss, batches
        self.world = whole("learners", learners, 1, 2**16)
        self.compressor, self.engine, self.seed = compressor, engine, seed
        kinds = sorted({str(p.dtype).removeprefix("torch.") for p in trained(model).values()})
        if kinds != ["float32"]:
            raise TypeError(f"learners train float32 parameters; those of this model: {', '.join(kinds) or 'none'}")
        infos = layer_infos(model, example)
        self.memories = [Memory(compressor, infos) for _ in range(self.world)]
        self.optimizer = (optimizer or (lambda parameters: torch.optim.SGD(parameters, lr=0.1)))(model.parameters())
        self.ledger: Ledger | None = Ledger() if keep_ledger else None
        self.step = 0

    def steps(self, count: int) -> Iterator[Round]:
        """Train ``count`` steps and yield after each."""
        for _ in range(whole("count", count, 0, 2**31 - 1)):
            yield self.one_step()

    def one_step(self) -> Round:
        """Gradients of all learners, exchange, update; with one thread, so that sums keep their order."""
        number, ranks = self.step, range(self.world)
        with torch_threads(1):
            in_training(self.model)
            batches = [self.batches(number, rank) for rank in ranks]
            found = ENGINES[self.engine](
                self.model, self.loss, batches, [seed_of(self.seed, number, rank) for rank in ranks]
            )
            sent = self._apply(found.gradients)
        if self.ledger is not None and sent is not None:
            self.ledger.entries += sent.entries
        self.step += 1
        return Round(number, tuple(found.losses), sent is None, 0 if sent is None else sent.total())

    def _apply(self, gradients: dict[str, Tensor]) -> Ledger | None:
        """Exchange and update; what was sent, or None if a gradient was not finite and nothing has happened."""
        ledger = Ledger()
        try:
            self._exchange(gradients, ledger)
        except NotFiniteError:
            for memory in self.memories:
                memory.rollback()
            return None
        for memory in self.memories:
            memory.commit()
        self.optimizer.step()
        return ledger

    def _exchange(self, gradients: dict[str, Tensor], ledger: Ledger) -> None:
        for name, parameter in trained(self.model).items():
            states = [memory.states[name] for memory in self.memories]
            average = exchange(
                self.memories[0].compressors[name],
                list(gradients[name].numpy()),
                states,
                step=self.step,
                layer=name,
                seed=self.seed,
                ledger=ledger,
            )
            parameter.grad = torch.from_numpy(average)

    def residues(self, name: str) -> np.ndarray:
        """What each learner still owes of one parameter: float32 [learners, numel]; zeros if nothing is kept back."""
        numel = trained(self.model)[name].numel()
        nothing = np.zeros(numel, np.float32)
        return np.stack([memory.states[name].arrays().get("residue", nothing) for memory in self.memories])

    def state_dict(self) -> dict[str, Any]:
        """Everything to go on with, bit for bit, with the same number of learners."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "memories": [as_tensors(memory.state_dict()) for memory in self.memories],
            "step": self.step,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Go on; with another number of learners each takes the mean of what the old ones remembered.

        Raises:
            ValueError: a checkpoint of another compressor or other layers.
        """
        from lplab.parallel.memory import portable

        memories = [as_arrays(memory) for memory in saved["memories"]]
        if len(memories) != self.world:
            memories = [portable(memories)] * self.world
        for memory, state in zip(self.memories, memories, strict=True):
            memory.load_state_dict(state)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step = saved["step"]


def simulate_learners(
    model: nn.Module,
    loss: Loss = default_loss,
    batches: Callable[[int, int], Batch] | None = None,
    compressor: Compressor | None = None,
    learners: int = 64,
    **options: Any,
) -> Learners:
    """:class:`Learners`, by the name that the course uses. ``batches`` and ``compressor`` must be given.

    Raises:
        TypeError: no batches or no compressor.
    """
    if batches is None or compressor is None:
        raise TypeError("simulate_learners needs batches, a function of (step, rank), and a compressor")
    return Learners(model, loss, batches, compressor, learners, **options)


def shards(data: Callable[[int], Batch], learners: int) -> Callable[[int, int], Batch]:
    """A function of (step, rank) from one of the step alone: each learner's part of the global batch, in order.

    Raises:
        ValueError: (when called) a batch that cannot be divided evenly.

    >>> part = shards(lambda step: (torch.arange(6), torch.arange(6)), learners=3)
    >>> part(0, 1)[0].tolist()
    [2, 3]
    """

    def part(step: int, rank: int) -> Batch:
        inputs, targets = data(step)
        if len(inputs) % learners:
            raise ValueError(f"a batch of {len(inputs)} cannot be divided among {learners} learners")
        each = len(inputs) // learners
        return inputs[rank * each : (rank + 1) * each], targets[rank * each : (rank + 1) * each]

    return part
