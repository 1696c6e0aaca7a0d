"""The trainings of PACT's claim, live: a trained clip beside fixed clips, and float32."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lplab.checks import check_int
from lplab.claims.framework.trainings import cosine
from lplab.claims.papers import pact_2018

from .live_trainers import LiveTrainers, live_trainers

if TYPE_CHECKING:
    from lplab.training import Trainer
    from lplab.training.loop.tasks import Task


def live_clips(
    bits: int = 2, *, steps: int = pact_2018.STEPS, task: str = "resnet", start: bool = False
) -> LiveTrainers:
    """A button that trains a network with activations of few bits: α trained, α fixed at 1 and at 10; and float32.

    Args:
        bits: of the activations, 1 to 8.
        steps: of every training; the learning rate falls to zero along half a cosine over them.
        task: a name of :mod:`~lplab.training.loop.tasks`; by default that of the claim.
        start: whether to start at once.

    Raises:
        ValueError: bits out of range.

    >>> sorted(live_clips(2).figure.data[i].name for i in range(3))
    ['clip fixed at 1', 'clip fixed at 10', 'clip trained']
    """
    check_int("bits", bits, 1, 8)
    first = pact_2018.START
    runs = {
        "clip trained": partial(clip_trainer, task, bits, first, True, steps),
        "clip fixed at 1": partial(clip_trainer, task, bits, 1.0, False, steps),
        f"clip fixed at {first:.0f}": partial(clip_trainer, task, bits, first, False, steps),
        "fp32": partial(_float32, task, steps),
    }
    return live_trainers(runs, steps=steps, name=f"Train with {bits} bits", start=start)


def clip_trainer(task: str, bits: int, clip: float, trained: bool, steps: int, seed: int = 0) -> Trainer:
    """The trainer of the claim, with clips that begin at ``clip`` and are trained or fixed.

    >>> trainer = clip_trainer("mlp", 2, 3.0, False, 2)
    >>> done = [trainer.one_step() for _ in range(2)]
    >>> [float(p) for name, p in trainer.model.named_parameters() if name.endswith("pact_alpha")]
    [3.0]
    """
    base = _task(task)
    with_decay = replace(base, options=(*base.options, ("clip_decay", pact_2018.DECAY)))
    trainer = with_decay.trainer(pact_2018.recipe(bits, clip), seed)
    trainer.schedule = cosine(steps)
    for name, parameter in trainer.model.named_parameters():
        if name.endswith("pact_alpha"):
            parameter.requires_grad_(trained)
    return trainer


def _float32(task: str, steps: int) -> Trainer:
    trainer = _task(task).trainer("fp32", 0)
    trainer.schedule = cosine(steps)
    return trainer


def _task(name: str) -> Task:
    from lplab.training import tasks

    return tasks.get(name)
