"""What a distributed run is told, as data that survives a command line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from lplab.compression.catalogue import get
from lplab.compression.dgc import DGC
from lplab.compression.protocol import Compressor
from lplab.formats.base import whole

if TYPE_CHECKING:
    from lplab.parallel.gradients import Batch
    from lplab.training.tasks import Task

BACKENDS = ("gloo", "nccl")


@dataclass(frozen=True)
class RunSettings:
    """A training by several learners.

    Args:
        model: a task of ``lplab train --list``.
        compressor: name and settings, as in "scalecom:chunk=100".
        learners: how many.
        steps: how many.
        batch: examples of each learner; None: the task's batch divided among them.
        lr: None: the task's own.
        momentum: of SGD, 0 up to below 1; None: the task's own, or none with DGC, which has its own.
        seed: of weights, batches and coins.
        backend: "gloo" on CPUs, "nccl" on GPUs.
        ordered: whether sums are taken in the order of ranks.
        save: a file (.npz) for the weights in the end; None: only their fingerprint is reported.

    Raises:
        ValueError: an unknown model, compressor or backend, or a number out of range.

    >>> RunSettings("mlp", "topk:density=0.05", learners=2).make_compressor()
    TopK(density=0.05, error_feedback=True, wire='fp32')
    """

    model: str = "mlp"
    compressor: str = "scalecom:chunk=100"
    learners: int = 2
    steps: int = 100
    batch: int | None = None
    lr: float | None = None
    seed: int = 0
    backend: str = "gloo"
    ordered: bool = True
    save: str | None = None
    momentum: float | None = None

    def __post_init__(self) -> None:
        whole("learners", self.learners, 1, 1024)
        whole("steps", self.steps, 1, 2**31 - 1)
        if self.batch is not None:
            whole("batch", self.batch, 1, 2**20)
        if self.lr is not None and not 0 < _number("lr", self.lr) < math.inf:
            raise ValueError(f"lr must be a positive finite number, got {self.lr}")
        if self.backend not in BACKENDS:
            raise ValueError(f"unknown backend {self.backend!r}; allowed: {', '.join(BACKENDS)}")
        whole("seed", self.seed, 0, 2**31 - 1)
        own = isinstance(self.make_compressor(), DGC)
        sgd = self.task().optimizer == "sgd"
        if self.momentum is not None and not (sgd and 0 <= _number("momentum", self.momentum) < 1):
            raise ValueError(f"momentum must be from 0 to below 1, and is for SGD alone, got {self.momentum}")
        if self.momentum and own:
            raise ValueError(f"DGC has a momentum of its own: set that one, and momentum to 0, not {self.momentum}")

    def make_compressor(self) -> Compressor:
        """The compressor."""
        return get(self.compressor)

    def task(self) -> Task:
        """The task: model and data."""
        from lplab.training import tasks

        return tasks.get(self.model)

    @property
    def each(self) -> int:
        """Examples of each learner in a step."""
        return self.batch or max(1, self.task().batch // self.learners)

    def batches(self) -> Callable[[int, int], Batch]:
        """A function of (step, rank): one global batch, each learner its part."""
        from lplab.parallel.learners import shards

        return shards(self.task().data(self.each * self.learners, self.seed), self.learners)

    def optimizer(self, parameters: Any) -> Any:
        """The task's optimizer, of torch's own kind."""
        import torch

        task = self.task()
        rate, options = task.lr if self.lr is None else self.lr, dict(task.options)
        if self.momentum is not None:
            options["momentum"] = self.momentum
        elif isinstance(self.make_compressor(), DGC):  # or there would be two, one behind the other
            options.pop("momentum", None)
        kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        return kinds[task.optimizer](parameters, lr=rate, **options)

    def to_json(self) -> str:
        """One line.

        >>> RunSettings.from_json(RunSettings(seed=3).to_json()).seed
        3
        """
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RunSettings:
        """The inverse of :meth:`to_json`."""
        return cls(**json.loads(text))


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(value)
