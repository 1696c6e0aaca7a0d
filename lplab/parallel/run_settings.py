"""The settings of a distributed run, which can be passed on a command line as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lplab.checks import check_int, check_number
from lplab.compression.compressor import Compressor
from lplab.compression.compressor_catalogue import get
from lplab.compression.demo import DeMo
from lplab.compression.dgc import DGC
from lplab.compression.signs import SignSGD

if TYPE_CHECKING:
    from lplab.parallel.learner_gradients import Batch
    from lplab.training.loop.tasks import Task

BACKENDS = ("gloo", "nccl")
OWN_MOMENTUM = (DGC, SignSGD, DeMo)  # compressors with a momentum that takes the place of the optimizer's


@dataclass(frozen=True)
class RunSettings:
    """A training by several learners.

    Args:
        model: a task of ``lplab train --list``.
        compressor: name and settings, as in "scalecom:chunk=100".
        learners: number of learners.
        steps: number of steps.
        batch: examples of each learner; None: the task's batch divided among them.
        lr: learning rate; None: that of the task.
        momentum: of SGD, from 0 to below 1; None: that of the task, or 0 with DGC, SignSGD and DeMo, which have one of
            their own.
        seed: of weights, batches and random bits.
        backend: "gloo" on CPUs, "nccl" on GPUs.
        ordered: whether values are summed in the order of ranks.
        save: a file (.npz) for the final weights; None: only their fingerprint is reported.

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
        check_int("learners", self.learners, 1, 1024)
        check_int("steps", self.steps, 1, 2**31 - 1)
        if self.batch is not None:
            check_int("batch", self.batch, 1, 2**20)
        if self.lr is not None and not 0 < check_number("lr", self.lr) < math.inf:
            raise ValueError(f"lr must be a positive finite number, got {self.lr}")
        if self.backend not in BACKENDS:
            raise ValueError(f"unknown backend {self.backend!r}; allowed: {', '.join(BACKENDS)}")
        check_int("seed", self.seed, 0, 2**31 - 1)
        compressor = self.make_compressor()
        sgd = self.task().optimizer == "sgd"
        if self.momentum is not None and not (sgd and 0 <= check_number("momentum", self.momentum) < 1):
            raise ValueError(f"momentum must be from 0 to below 1, and is for SGD alone, got {self.momentum}")
        if self.momentum and isinstance(compressor, OWN_MOMENTUM):
            kind = type(compressor).__name__
            raise ValueError(f"{kind} has a momentum of its own: set that one, and momentum to 0, not {self.momentum}")

    def make_compressor(self) -> Compressor:
        """The compressor."""
        return get(self.compressor)

    def task(self) -> Task:
        """The task: model and data."""
        from lplab.training import tasks

        return tasks.get(self.model)

    def signature(self) -> dict[str, Any]:
        """What must be the same for a run to resume bit for bit from the checkpoint of another one.

        >>> RunSettings("mlp", "dense", steps=5).signature() == RunSettings("mlp", "dense:wire=fp32").signature()
        True
        """
        return {
            "model": self.model,
            "compressor": repr(self.make_compressor()),
            "learners": self.learners,
            "batch": self.batch_per_learner,
            "lr": self.task().lr if self.lr is None else self.lr,
            "momentum": self.momentum,
            "seed": self.seed,
        }

    @property
    def batch_per_learner(self) -> int:
        """Examples of each learner in a step."""
        return self.batch or max(1, self.task().batch // self.learners)

    def batches(self) -> Callable[[int, int], Batch]:
        """A function of (step, rank): each learner's part of the global batch."""
        from lplab.parallel.learners import shards

        return shards(self.task().data(self.batch_per_learner * self.learners, self.seed), self.learners)

    def optimizer(self, parameters: Any) -> Any:
        """The task's optimizer, from torch.optim."""
        import torch

        task = self.task()
        learning_rate, options = task.lr if self.lr is None else self.lr, dict(task.options)
        if self.momentum is not None:
            options["momentum"] = self.momentum
        # Momentum would be applied twice.
        elif isinstance(self.make_compressor(), OWN_MOMENTUM):
            options.pop("momentum", None)
        kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        return kinds[task.optimizer](parameters, lr=learning_rate, **options)

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
