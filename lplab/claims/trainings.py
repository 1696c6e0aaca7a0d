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
    from lplab.training.tasks import Task

LAST = 0.1  # the share of the steps whose mean loss counts as the training loss of the end


@dataclass(frozen=True, eq=False)
class Trained:
    """A training that came to its end, or diverged.

    Attributes:
        task: what was trained.
        trainer: after the last step; its model can be looked at.
        losses: of the batches, in nats, one a step that was taken.
        diverged: the trainer's own words, or "".
    """

    task: Task
    trainer: Trainer
    losses: tuple[float, ...]
    diverged: str = ""

    def numbers(self) -> dict[str, float]:
        """Held-out ``loss`` (bits), held-out ``error`` (%), ``train_loss`` (bits), ``diverged`` (1 or 0), ``steps``.

        The training loss is the mean over the last tenth of the steps. Bits are those of a character in text, of a
        picture elsewhere. Of a training that diverged, and of one that ends worse than guessing, the losses are those
        of guessing, log2 of the number of classes, and the error of a training that diverged is that of guessing: so
        all numbers are finite, and a median over seeds has a meaning.
        """
        inputs, targets = self.task.test()
        with one_thread():
            found = {"loss": math.inf, "error": math.inf} if self.diverged else self.trainer.evaluate(inputs, targets)
            classes = class_count(self.trainer.model, inputs)
        guessing = math.log2(classes)
        end = math.inf if self.diverged or not self.losses else end_of(self.losses)
        error = found["error"] if math.isfinite(found["error"]) else 1 - 1 / classes
        return {
            "loss": round(at_most(found["loss"] / math.log(2), guessing), 6),
            "error": round(100 * error, 4),
            "train_loss": round(at_most(end / math.log(2), guessing), 6),
            "diverged": float(bool(self.diverged)),
            "steps": float(len(self.losses)),
        }


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
) -> Trained:
    """Train a task of :mod:`lplab.training.tasks` under a recipe, on one thread, to the end or to where it diverges.

    Args:
        task: a task or its name.
        recipe: a recipe or its name.
        steps: how many.
        seed: of weights, batches and coins: runs that differ in the recipe alone start and read the same.
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
    from lplab.training import DivergedError, tasks

    chosen = tasks.get(task) if isinstance(task, str) else task
    with one_thread():
        trainer = chosen.trainer(recipe, seed, batch=batch, lr=lr, recorder=recorder)
        trainer.schedule = schedule
        losses: list[float] = []
        reason = ""
        if watch:
            watch(trainer)
        try:
            for step in trainer.steps(steps):
                losses.append(step.loss)
                if watch:
                    watch(trainer)
        except DivergedError as error:
            reason = str(error)
    return Trained(chosen, trainer, tuple(losses), reason)


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block torch works on one thread: so many measurements fit side by side, and no sum changes its order.

    >>> import torch
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    from lplab.training.threads import torch_threads

    with torch_threads(1):
        yield


def cosine(steps: int) -> Callable[[int], float]:
    """A learning rate that falls to zero along half a cosine.

    >>> [round(cosine(100)(step), 3) for step in (0, 50, 100)]
    [1.0, 0.5, 0.0]
    """
    return lambda step: 0.5 * (1 + math.cos(math.pi * step / steps))


def quality(model: Any, inputs: Any, targets: Any) -> dict[str, float]:
    """Held-out ``loss`` (bits) and ``error`` (%) of a classifier, as they are stored."""
    import torch
    from torch.nn import functional

    with torch.no_grad():
        output = model.eval()(inputs)
    loss = float(functional.cross_entropy(output, targets)) / math.log(2)
    wrong = float((output.argmax(-1) != targets).float().mean())
    return {"loss": round(loss, 6), "error": round(100 * wrong, 4)}


def end_of(losses: Sequence[float]) -> float:
    """The mean of the last tenth of the losses of a training, at least of one.

    >>> end_of([9.0] * 18 + [2.0, 1.0])
    1.5
    """
    return float(np.mean(losses[-max(1, round(LAST * len(losses))) :]))


def at_most(value: float, limit: float) -> float:
    """The value, or the limit where it is above or not a number.

    >>> at_most(2.0, 3.0), at_most(math.nan, 3.0)
    (2.0, 3.0)
    """
    return value if value < limit else limit


def class_count(model: Any, inputs: Any) -> int:
    """How many classes a model tells apart; whether it is in training stays as it is."""
    import torch

    from lplab.training.modes import evaluating

    with torch.no_grad(), evaluating(model):
        return int(model(inputs[:2]).shape[-1])
