"""Trainings by several learners behind claims: a task, a compressor and a number of learners in, numbers out.

This module imports PyTorch only inside its functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lplab.claims.framework.branches import LAST_SHARE, BranchPlan, checkpoint
from lplab.claims.framework.trainings import FINAL_SHARE, cosine, final_mean, guessing_loss, one_thread, replace_above
from lplab.compression import Compressor

if TYPE_CHECKING:
    from lplab.parallel import Learners
    from lplab.training.loop.tasks import Task


@dataclass(frozen=True, eq=False)
class LearnerResult:
    """A finished training by several learners.

    Attributes:
        task: what was trained.
        run: the learners after their last step.
        losses: mean loss of each step, in nats.
        skipped: steps left out because a gradient was not finite.
        final_share: the share of the last steps whose mean loss is the training loss.
    """

    task: Task
    run: Learners
    losses: tuple[float, ...]
    skipped: int
    final_share: float = FINAL_SHARE

    def numbers(self) -> dict[str, float]:
        """Held-out ``loss`` (bits) and ``error`` (%), ``train_loss`` (bits, the last steps), ``skipped``.

        A loss above that of guessing, or none at all, counts as guessing, so that all numbers are finite.
        """
        import torch

        inputs, targets = self.task.test()
        model = self.run.model
        with one_thread(), torch.no_grad():
            output = model.eval()(inputs)
            loss = float(self.task.loss(output, targets))
            if targets.is_floating_point():
                error = self.task.error(output, targets)
            else:  # 1 − right: the stored numbers are rounded so, and not as those of task.error
                error = 1 - float((output.argmax(-1) == targets).float().mean())
            guessing = guessing_loss(self.task, model, inputs, targets)
        return {
            "loss": round(replace_above(loss / math.log(2), guessing), 6),
            **({} if error is None else {"error": round(100 * error, 4)}),
            "train_loss": round(replace_above(final_mean(self.losses, self.final_share) / math.log(2), guessing), 6),
            "skipped": float(self.skipped),
        }


def train(
    task: Task,
    compressor: Compressor,
    learners: int,
    steps: int,
    seed: int,
    *,
    batch: int | None = None,
    lr: float | None = None,
    engine: str = "loop",
    schedule: Callable[[int], float] | None = None,
    watch: Callable[[Learners], Any] | None = None,
) -> LearnerResult:
    """Train a task by several learners in one process, each with its part of the global batch.

    Args:
        task: of :mod:`~lplab.training.loop.tasks`, or a small one.
        compressor: of the gradients.
        learners: how many.
        steps: how many.
        seed: of weights, batches and random bits: runs that differ only in the compressor get the same weights
            and batches.
        batch: of all learners together; None: the task's own.
        lr: None: the task's own.
        engine: "loop" or "stacked".
        schedule: a function from the step's number to a factor of the learning rate; None: it stays as it is.
        watch: called with the learners after every step.

    Raises:
        ValueError: a batch that the learners cannot share evenly.

    >>> from lplab.compression import ScaleCom
    >>> from lplab.training import tasks
    >>> finished = train(tasks.get("mlp"), ScaleCom(chunk=50), learners=2, steps=3, seed=0)
    >>> len(finished.losses), sorted(finished.numbers())
    (3, ['error', 'loss', 'skipped', 'train_loss'])
    """
    run = make(task, compressor, learners, seed, batch=batch, lr=lr, engine=engine)
    losses, skipped = _run_steps(run, steps, schedule, watch)
    return LearnerResult(task, run, losses, skipped)


def _run_steps(
    run: Learners,
    steps: int,
    schedule: Callable[[int], float] | None = None,
    watch: Callable[[Learners], Any] | None = None,
) -> tuple[tuple[float, ...], int]:
    """The loss of each step in nats, and how many steps were left out."""
    losses, skipped, rates = [], 0, [group["lr"] for group in run.optimizer.param_groups]
    for number in range(steps):
        if schedule:
            factor = schedule(number)
            for group, rate in zip(run.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
        result = run.one_step()
        losses.append(result.loss)
        skipped += result.skipped
        if watch:
            watch(run)
    return tuple(losses), skipped


def branch_learners(
    task: Task,
    compressor: Compressor,
    learners: int,
    seed: int,
    plan: BranchPlan,
    folder: str | Path | None = None,
    rate: float = 1.0,
) -> LearnerResult:
    """Several learners continue from the float32 checkpoint from which recipes branch, with the same batches.

    As :func:`~lplab.claims.framework.branches.branch`, and to be compared with a branch of ``Dense()``: weights, the
    optimizer's state and batches are those of the checkpoint, the learning rate falls to zero along a cosine. Residuals
    begin empty, so that the steps before stand for a dense warm-up.

    Args:
        task, compressor, learners, seed: as for :func:`train`.
        plan: the lengths.
        folder: where checkpoints are kept.
        rate: the learning rate at the start of the branch, in units of the task's own.

    Raises:
        ValueError: a batch that the learners cannot share evenly; as :func:`~lplab.claims.framework.branches.branch`.

    >>> import tempfile
    >>> from lplab.compression import Dense
    >>> from lplab.training import tasks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = branch_learners(tasks.get("mlp"), Dense(), 2, 0, BranchPlan(before=4, steps=3), folder)
    >>> done.run.step, len(done.losses)
    (7, 3)
    """
    saved = checkpoint(task, seed, plan.before, folder)
    run = make(task, compressor, learners, seed)
    run.model.load_state_dict(saved["model"])
    parameters = dict(run.model.named_parameters())
    for name, state in saved["optimizer"].items():
        run.optimizer.state[parameters[name]] = state
    run.step = plan.before
    falling = cosine(plan.steps)
    losses, skipped = _run_steps(run, plan.steps, lambda step: rate * falling(step))
    return LearnerResult(task, run, losses, skipped, LAST_SHARE)


def make(
    task: Task,
    compressor: Compressor,
    learners: int,
    seed: int,
    *,
    batch: int | None = None,
    lr: float | None = None,
    engine: str = "loop",
    kind: type[Learners] | None = None,
    **options: Any,
) -> Learners:
    """The learners of :func:`train` before their first step; arguments as there, ``options`` are those of ``kind``."""
    import torch

    from lplab.parallel import Learners, shards

    kinds: dict[str, Any] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    learning_rate, optimizer_options = task.lr if lr is None else lr, dict(task.options)
    return (kind or Learners)(
        task.model(seed),
        task.loss,
        shards(task.data(task.batch if batch is None else batch, seed), learners),
        compressor,
        learners,
        optimizer=lambda parameters: kinds[task.optimizer](parameters, lr=learning_rate, **optimizer_options),
        engine=engine,
        seed=seed,
        **options,
    )
