"""Many learners in one process: real gradients, real compression, real messages, one model.

All learners apply the same average, so they have the same weights: there is one model, and one residual for each
learner. Memory: learners × parameters × 4 bytes for gradients, and twice that for residuals. With the stacked engine
and ScaleCom, large weights need only their residuals, once: a few learners' gradients are computed at a time and added.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lplab.checks import check_int
from lplab.compression import Compressor, NotFiniteError, TrafficLog, exchange
from lplab.compression.computed_gradients import fit_a_block
from lplab.compression.module_layers import trainable_parameters
from lplab.parallel.compressor_states import CompressorStates, as_arrays, as_tensors, layer_infos, merge_ranks
from lplab.parallel.learner_gradients import ENGINES, Batch, LearnerGradients, Loss, learner_seed
from lplab.parallel.uninterrupted import uninterrupted
from lplab.training.loop.train_eval_mode import ensure_train_mode
from lplab.training.loop.trainer import default_loss
from lplab.training.thread_counts import torch_threads

IN_PLACE_LIMIT = 2.0**40  # of gradients and residuals together; no sum, norm or product of them overflows


@dataclass(frozen=True)
class LearnerStep:
    """One step of all learners.

    Attributes:
        number: from 0.
        losses: of each learner, before the update.
        skipped: whether the update was skipped, because a learner's gradient, or what was made of it, was not finite.
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
        batches: a function of (step, rank) that returns a learner's (inputs, targets).
        compressor: of :mod:`lplab.compression`.
        learners: number of learners, 1 or more.
        optimizer: a function of the parameters; by default SGD with learning rate 0.1.
        engine: "loop", for every model; or "stacked", one pass for all learners, where the layers allow it.
        seed: of all random numbers.
        example: an input, for compressors that use ``LayerInfo.weight_reuse``.
        keep_ledger: whether all payloads are logged in ``ledger``.

    Raises:
        ValueError: a number of learners out of range, an unknown engine, a layer that cannot be batched.
        TypeError: trainable parameters that are not float32, or none.

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
        self.world = check_int("learners", learners, 1, 2**16)
        self.compressor, self.engine, self.seed = compressor, engine, seed
        # The stacked engine checks the model once for each shape, and keeps here what has passed.
        self._engine_options: dict[str, Any] = {}
        if engine == "stacked":
            self._engine_options = {"passed": set(), "leave": self._computes_when_read}
        self._buffers: dict[torch.Size, Tensor] = {}
        check_float32(model)
        infos = layer_infos(model, example)
        self.states = [CompressorStates(compressor, infos) for _ in range(self.world)]
        # What no magnitude in a state exceeds.
        self._residual_bound = np.inf
        self.optimizer = (optimizer or (lambda parameters: torch.optim.SGD(parameters, lr=0.1)))(model.parameters())
        self.ledger: TrafficLog | None = TrafficLog() if keep_ledger else None
        self.step = 0

    def steps(self, count: int) -> Iterator[LearnerStep]:
        """Train ``count`` steps and yield after each."""
        for _ in range(check_int("count", count, 0, 2**31 - 1)):
            yield self.one_step()

    def one_step(self) -> LearnerStep:
        """Gradients of all learners, exchange, update; with one thread, so that sums have a fixed order.

        Ctrl-C takes effect before the exchange or after the update, so that no step is made by half.
        """
        number, ranks = self.step, range(self.world)
        with torch_threads(1):
            ensure_train_mode(self.model)
            batches = [self.batches(number, rank) for rank in ranks]
            seeds = [learner_seed(self.seed, number, rank) for rank in ranks]
            results = ENGINES[self.engine](self.model, self.loss, batches, seeds, **self._engine_options)
            with uninterrupted():
                sent = self._apply(results)
                if self.ledger is not None and sent is not None:
                    self.ledger.entries += sent.entries
                self.step += 1
        return LearnerStep(number, tuple(results.losses), sent is None, 0 if sent is None else sent.total())

    def _computes_when_read(self, name: str, nbytes: int) -> bool:
        """Whether a compressor takes gradients one after another, and all of them together do not fit the cache."""
        return self.states[0].compressors[name].takes_stacks and not fit_a_block(nbytes)

    def _apply(self, results: LearnerGradients) -> TrafficLog | None:
        """Exchange and update; the traffic, or None if something was not finite and the step was skipped."""
        ledger = TrafficLog()
        try:
            self._exchange(results, ledger)
        except NotFiniteError:
            for state in self.states:
                state.rollback()
            return None
        for state in self.states:
            state.commit()
        self.optimizer.step()
        return ledger

    def _exchange(self, results: LearnerGradients, ledger: TrafficLog) -> None:
        trained = trainable_parameters(self.model)
        if missing := trained.keys() - self.states[0].states.keys():
            names = ", ".join(sorted(missing))
            raise ValueError(f"{names} had no requires_grad when these learners were made: make new learners")
        # Where it is sure that no learner makes all skip the step, nothing has to be kept to undo it.
        in_place = bool(results.products) and self._is_small(results.bound())
        if not in_place:
            # It is looked up when it is needed.
            self._residual_bound = np.inf
        # Parameters may have been frozen since, or the last step skipped.
        self.model.zero_grad()
        for name, parameter in trained.items():
            states = [state.states[name] for state in self.states]
            product = results.products.get(name)
            average = exchange(
                self.states[0].compressors[name],
                results.gradients[name].numpy() if product is None else product.when_read(self._buffers),
                states,
                step=self.step,
                layer=name,
                seed=self.seed,
                ledger=ledger,
                overwrite=True,
                in_place=in_place,
            )
            parameter.grad = torch.from_numpy(average)

    def _is_small(self, bound: float) -> bool:
        """Whether nothing overflows that is made of gradients up to ``bound`` and of the residuals."""
        if not self._residual_bound + bound < IN_PLACE_LIMIT:
            arrays = (a for state in self.states for one in state.states.values() for a in one.arrays().values())
            self._residual_bound = max((float(np.abs(array).max()) for array in arrays), default=0.0)
        self._residual_bound += bound
        return self._residual_bound < IN_PLACE_LIMIT

    def residuals(self, name: str) -> np.ndarray:
        """The residuals of one parameter: float32 [learners, numel]; zeros for compressors without residuals."""
        numel = trainable_parameters(self.model)[name].numel()
        zeros = np.zeros(numel, np.float32)
        return np.stack([state.states[name].arrays().get("residual", zeros) for state in self.states])

    def state_dict(self) -> dict[str, Any]:
        """The state to resume from, bit for bit with the same number of learners."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "memories": [as_tensors(state.state_dict()) for state in self.states],
            "step": self.step,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Resume; with another number of learners each takes the mean state of the old ones.

        Raises:
            ValueError: a checkpoint of another compressor or other layers.
        """
        states = [as_arrays(state) for state in saved["memories"]]
        if len(states) != self.world:
            states = [merge_ranks(states)] * self.world
        for state, arrays in zip(self.states, states, strict=True):
            state.load_state_dict(arrays)
        self._residual_bound = np.inf
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step = saved["step"]


def check_float32(model: nn.Module) -> None:
    """Raise TypeError unless the trainable parameters are float32, and there is one."""
    kinds = sorted({str(p.dtype).removeprefix("torch.") for p in trainable_parameters(model).values()})
    if kinds != ["float32"]:
        raise TypeError(f"learners train float32 parameters; those of this model: {', '.join(kinds) or 'none'}")


def simulate_learners(
    model: nn.Module,
    loss: Loss = default_loss,
    batches: Callable[[int, int], Batch] | None = None,
    compressor: Compressor | None = None,
    learners: int = 64,
    **options: Any,
) -> Learners:
    """Make :class:`Learners`; ``batches`` and ``compressor`` are required.

    Raises:
        TypeError: no batches or no compressor.
    """
    if batches is None or compressor is None:
        raise TypeError("simulate_learners needs batches, a function of (step, rank), and a compressor")
    return Learners(model, loss, batches, compressor, learners, **options)


def shards(data: Callable[[int], Batch], learners: int) -> Callable[[int, int], Batch]:
    """Divide a global batch among learners, in order: a function of (step, rank) from a function of the step.

    Raises:
        ValueError: a number of learners out of range; or (when called) a batch that cannot be divided evenly.

    >>> part = shards(lambda step: (torch.arange(6), torch.arange(6)), learners=3)
    >>> part(0, 1)[0].tolist()
    [2, 3]
    """
    check_int("learners", learners, 1, 2**16)

    def part(step: int, rank: int) -> Batch:
        inputs, targets = data(step)
        size, remainder = divmod(len(inputs), learners)
        if remainder:
            raise ValueError(f"a batch of {len(inputs)} cannot be divided among {learners} learners")
        own = slice(rank * size, (rank + 1) * size)
        return inputs[own], targets[own]

    return part
