"""Trainings of any model under any recipe, live in a notebook: up to four side by side, and float32 beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from lplab import figures
from lplab.formats.base import whole
from lplab.training.threads import torch_threads

from .live_run import LiveRun

if TYPE_CHECKING:
    from lplab.training import DivergedError, Trainer

REFERENCE = "fp32"
Round = tuple[Any, ...]  # of each training: its loss, the DivergedError that ended it now, or None after its end


class LiveTrainers(LiveRun):
    """What :func:`live_trainers` makes: a LiveRun that knows its trainers.

    Attributes:
        trainers: the trainers of the latest start, by name; {} before.
    """

    trainers: dict[str, Trainer]

    @property
    def losses(self) -> dict[str, list[float]]:
        """The losses so far, a list for each training, one number for each step that it made."""
        return {name: losses for name, (losses, _) in _sorted(self._names, tuple(self._got)).items()}

    @property
    def diverged(self) -> dict[str, DivergedError]:
        """Of each training that diverged, the error, whose ``diagnosis`` says where."""
        return {name: error for name, (_, error) in _sorted(self._names, tuple(self._got)).items() if error is not None}

    def __init__(
        self, trainers: Mapping[str, Callable[[], Trainer]], *, steps: int, threads: int, reference: str, **run: Any
    ) -> None:
        look, bits = {name: run.pop(name) for name in ("unit", "loss_range")}, run.pop("bits")
        per = math.log(2) if bits else 1.0
        makers, self._names, self.trainers = dict(trainers), list(trainers), {}

        def rounds() -> Iterator[Round]:
            with torch_threads(threads):
                self.trainers = made = {name: make() for name, make in makers.items()}
                yield from side_by_side(list(made.values()), steps)

        def draw(got: tuple[Round, ...]) -> go.Figure:
            found = _sorted(self._names, got)
            drawn = {name: np.asarray(losses, np.float64) / per for name, (losses, _) in found.items()}
            curves = {n: figures.LossCurve(n, drawn[n], error is not None) for n, (_, error) in found.items()}
            others = [curve for name, curve in curves.items() if name != reference]
            return figures.loss_curves(others, curves.get(reference), steps=steps, **look)

        super().__init__(rounds, draw, total=steps, unit="step", remark=self._diagnoses, **run)

    def _diagnoses(self, got: tuple[Round, ...]) -> list[str]:
        found = _sorted(self._names, got).items()
        return [f"{name} diverged. {str(error)[:1].upper()}{str(error)[1:]}." for name, (_, error) in found if error]


def live_trainers(
    trainers: Mapping[str, Callable[[], Trainer]],
    *,
    steps: int,
    name: str = "Train",
    reference: str = REFERENCE,
    unit: str = "",
    bits: bool = False,
    loss_range: tuple[float, float] | None = None,
    threads: int = 1,
    start: bool = False,
) -> LiveTrainers:
    """A button that trains up to four models side by side and draws their losses, step by step.

    The trainings run in a background thread, a step of each in turn: the cell returns at once, Stop works, and a later
    cell may ``await run.done()``. One that diverges is marked, its diagnosis is written below, the others go on.

    Args:
        trainers: names, and functions without arguments that make a trainer; they are called anew at each start, in
            the background. One named like ``reference`` is drawn in green, beside up to four others.
        steps: of every trainer.
        name: on the button.
        reference: which name is the reference.
        unit: of the loss as it is drawn; by default nats, or bits.
        bits: whether to draw cross entropies, which trainers have in nats, in bits; ``losses`` stay what they are.
        loss_range: ends of the loss axis; by default from 0 to a little above the first losses.
        threads: that PyTorch computes with; one is the fastest for models of some hundred thousand weights while a
            browser draws, more pay for large ones.
        start: whether to start at once.

    Returns:
        a widget with ``losses``, ``diverged`` and ``trainers`` by name, beside what any `LiveRun` has.

    Raises:
        ValueError: no trainer, or more than four beside the reference.
        TypeError: a value that is no function, such as a trainer that was made already.

    >>> from functools import partial
    >>> from lplab.training import tasks
    >>> mlp = tasks.get("mlp")
    >>> run = live_trainers({recipe: partial(mlp.trainer, recipe) for recipe in ("fp32", "hfp8_2019")}, steps=3)
    >>> run.start()
    >>> run.wait(60)
    >>> {name: len(losses) for name, losses in run.losses.items()}
    {'fp32': 3, 'hfp8_2019': 3}
    >>> run.figure.layout.meta["title"]
    'Training loss after 3 of 3 steps'
    """
    if not trainers:
        raise ValueError("trainers must name at least one function that makes a trainer")
    for key, make in trainers.items():
        if not callable(make):
            raise TypeError(
                f"trainers[{key!r}] must be a function without arguments that makes a Trainer, such as "
                f"lambda: Trainer(model(), data, 'hfp8_2019'); got {type(make).__name__}"
            )
    return LiveTrainers(
        trainers,
        steps=whole("steps", steps, 1, 2**31 - 1),
        threads=whole("threads", threads, 1, 1024),
        reference=reference,
        unit=unit or ("bits" if bits else "nats"),
        bits=bits,
        loss_range=loss_range,
        name=name,
        start=start,
    )


def side_by_side(trainers: list[Trainer], steps: int) -> Iterator[Round]:
    """Trainers in step: of each its loss, or the DivergedError that ended it now, or None after its end.

    Ends when all have ended. An error of another kind ends all of them.
    """
    from lplab.training import DivergedError

    alive = [True] * len(trainers)
    for _ in range(steps):
        if not any(alive):
            return
        got: list[Any] = []
        for i, trainer in enumerate(trainers):
            try:
                got.append(trainer.one_step().loss if alive[i] else None)
            except DivergedError as error:
                alive[i] = False
                got.append(error)
        yield tuple(got)


def _sorted(names: list[str], got: tuple[Round, ...]) -> dict[str, tuple[list[float], DivergedError | None]]:
    """Losses and error of each training."""
    columns = zip(*got, strict=True) if got else ([] for _ in names)
    return {
        name: (
            [value for value in column if isinstance(value, float)],
            next((value for value in column if value is not None and not isinstance(value, float)), None),
        )
        for name, column in zip(names, map(list, columns), strict=True)
    }
