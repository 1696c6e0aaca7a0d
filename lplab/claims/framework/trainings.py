"""Trainings behind claims: a task, a recipe and a number of steps in, a few finite numbers out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lplab.training import Recipe, Recorder, Trainer
    from lplab.training.loop.tasks import Task

FINAL_SHARE = 0.1  # the share of the last steps whose mean loss is the final training loss


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """A training that finished or diverged.

    Attributes:
        task: what was trained.
        trainer: after the last step, with the trained model.
        losses: the batch loss of each step that was taken, in nats.
        diverged: the trainer's message, or "".
        final_share: the share of the last steps whose mean loss is the final training loss.
    """

    task: Task
    trainer: Trainer
    losses: tuple[float, ...]
    diverged: str = ""
    final_share: float = FINAL_SHARE

    def numbers(self) -> dict[str, float]:
        """Held-out ``loss`` (bits), held-out ``error`` (%), ``train_loss`` (bits), ``diverged`` (1 or 0), ``steps``.

        The training loss is the mean over the last steps, a tenth of them by default. Bits are those of a character in
        text, of an image elsewhere. Of a training that diverged, and of one that ends worse than guessing, the losses
        are those of guessing (:func:`guessing_loss`), and the error of a training that diverged is that of
        guessing: so all numbers are finite, and a median over seeds has a meaning.
        """
        inputs, targets = self.task.test()
        with one_thread():
            result = {"loss": math.inf, "error": math.inf} if self.diverged else self._evaluate(inputs, targets)
            guessing = guessing_loss(self.task, self.trainer.model, inputs, targets)
        end = math.inf if self.diverged or not self.losses else final_mean(self.losses, self.final_share)
        error = result["error"] if math.isfinite(result["error"]) else 1 - 2**-guessing
        return {
            "loss": round(replace_above(result["loss"] / math.log(2), guessing), 6),
            "error": round(100 * error, 4),
            "train_loss": round(replace_above(end / math.log(2), guessing), 6),
            "diverged": float(bool(self.diverged)),
            "steps": float(len(self.losses)),
        }

    def _evaluate(self, inputs: Any, targets: Any) -> dict[str, float]:
        """Loss and error of the test, in parts of the task's ``test_batch`` examples."""
        size = self.task.test_batch or len(inputs)
        parts = zip(inputs.split(size), targets.split(size), strict=True)
        found = [(self.trainer.evaluate(x, y), len(x)) for x, y in parts]
        if len(found) == 1:
            return found[0][0]
        return {name: sum(each[name] * count for each, count in found) / len(inputs) for name in found[0][0]}


def train(
    task: str | Task,
    recipe: str | Recipe = "fp32",
    steps: int = 300,
    seed: int = 0,
    *,
    batch: int | None = None,
    lr: float | None = None,
    schedule: Callable[[int], float] | None = None,
    recorder: Recorder | None = None,
    watch: Callable[[Trainer], Any] | None = None,
) -> TrainingResult:
    """Train a task of :mod:`~lplab.training.loop.tasks` under a recipe, on one thread, to its end, or till it diverges.

    Args:
        task: a task or its name.
        recipe: a recipe or its name.
        steps: how many.
        seed: of weights, batches and random bits: runs that differ only in the recipe get the same weights and batches.
        batch, lr: instead of the task's own.
        schedule: a function from the step's number to a factor of the learning rate.
        recorder: of the trainer.
        watch: called with the trainer before the first step and after every step.

    Raises:
        ValueError: an unknown task or recipe.

    >>> numbers = train("mlp", "fp8_2018", steps=20).numbers()
    >>> sorted(numbers), numbers["diverged"]
    (['diverged', 'error', 'loss', 'steps', 'train_loss'], 0.0)
    """
    from lplab.training import tasks

    chosen = tasks.get(task) if isinstance(task, str) else task
    with one_thread():
        trainer = chosen.trainer(recipe, seed, batch=batch, lr=lr, recorder=recorder)
        trainer.schedule = schedule
        losses, reason = run_steps(trainer, steps, watch)
    return TrainingResult(chosen, trainer, losses, reason)


def run_steps(
    trainer: Trainer, steps: int, watch: Callable[[Trainer], Any] | None = None
) -> tuple[tuple[float, ...], str]:
    """Train on one thread; the batch loss of each step in nats, and the trainer's message if it diverged, else "".

    Args:
        trainer: goes on from where it is.
        steps: how many.
        watch: as for :func:`train`.
    """
    from lplab.training import DivergedError

    losses: list[float] = []
    with one_thread():
        if watch:
            watch(trainer)
        try:
            for step in trainer.steps(steps):
                losses.append(step.loss)
                if watch:
                    watch(trainer)
        except DivergedError as error:
            return tuple(losses), str(error)
    return tuple(losses), ""


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block torch works on one thread: several measurements can run at once, and the order of sums is fixed.

    >>> import torch
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    from lplab.training.thread_counts import torch_threads

    with torch_threads(1):
        yield


def cosine(steps: int) -> Callable[[int], float]:
    """A learning rate that falls to zero along half a cosine.

    >>> [round(cosine(100)(step), 3) for step in (0, 50, 100)]
    [1.0, 0.5, 0.0]
    """
    return lambda step: 0.5 * (1 + math.cos(math.pi * step / steps))


def evaluate(model: Any, inputs: Any, targets: Any) -> dict[str, float]:
    """Held-out ``loss`` (bits) and ``error`` (%) of a classifier, as they are stored."""
    import torch
    from torch.nn import functional

    with torch.no_grad():
        output = model.eval()(inputs)
    loss = float(functional.cross_entropy(output, targets)) / math.log(2)
    wrong = float((output.argmax(-1) != targets).float().mean())
    return {"loss": round(loss, 6), "error": round(100 * wrong, 4)}


def final_mean(losses: Sequence[float], share: float = FINAL_SHARE) -> float:
    """The mean of the last losses of a training, by default of a tenth of them, at least of one.

    >>> final_mean([9.0] * 18 + [2.0, 1.0])
    1.5
    """
    return float(np.mean(losses[-max(1, round(share * len(losses))) :]))


def replace_above(value: float, limit: float) -> float:
    """The value, or the limit where the value is above it or NaN.

    >>> replace_above(2.0, 3.0), replace_above(math.nan, 3.0)
    (2.0, 3.0)
    """
    return value if value < limit else limit


def guessing_loss(task: Task, model: Any, inputs: Any, targets: Any) -> float:
    """The loss in bits of outputs that are all zero: log2 of the number of classes for integer targets.

    Args:
        task: whose loss it is.
        model: for the shape of its outputs; its training mode is preserved.
        inputs, targets: to test with.

    >>> from lplab.training import tasks
    >>> task = tasks.get("mlp")
    >>> round(2 ** guessing_loss(task, task.model(0), *task.test()))
    10
    """
    import torch

    from lplab.training.loop.train_eval_mode import eval_mode

    with torch.no_grad(), eval_mode(model):
        shape = model(inputs[:2]).shape
        if not targets.is_floating_point():
            return math.log2(shape[-1])
        return float(task.loss(torch.zeros(len(targets), *shape[1:]), targets)) / math.log(2)
