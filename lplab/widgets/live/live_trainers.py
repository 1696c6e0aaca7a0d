"""Trainings of any model under any recipe, live in a notebook: up to four side by side, and float32 beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from lplab import figures
from lplab.checks import check_int
from lplab.training.thread_counts import torch_threads

from .live_run import LiveRun

if TYPE_CHECKING:
    from lplab.training import DivergedError, Trainer

REFERENCE = "fp32"
StepResults = tuple[Any, ...]  # for each training: its loss, the DivergedError of this step, or None after its end


class LiveTrainers(LiveRun):
    """The widget that :func:`live_trainers` returns.

    Attributes:
        trainers: the trainers since the latest start, by name; {} before.
    """

    trainers: dict[str, Trainer]

    @property
    def losses(self) -> dict[str, list[float]]:
        """The losses so far, a list for each training, one number for each step."""
        return {name: losses for name, (losses, _) in _by_name(self._names, tuple(self._results)).items()}

    @property
    def diverged(self) -> dict[str, DivergedError]:
        """The error of each training that diverged; its ``diagnosis`` names the place."""
        return {
            name: error for name, (_, error) in _by_name(self._names, tuple(self._results)).items() if error is not None
        }

    def __init__(
        self, trainers: Mapping[str, Callable[[], Trainer]], *, steps: int, threads: int, reference: str, **run: Any
    ) -> None:
        axis, bits = {name: run.pop(name) for name in ("unit", "loss_range")}, run.pop("bits")
        nats_per_unit = math.log(2) if bits else 1.0
        makers, self._names, self.trainers = dict(trainers), list(trainers), {}

        def rounds() -> Iterator[StepResults]:
            with torch_threads(threads):
                self.trainers = made = {name: make() for name, make in makers.items()}
                yield from train_in_lockstep(list(made.values()), steps)

        def draw(results: tuple[StepResults, ...]) -> go.Figure:
            by_name = _by_name(self._names, results)
            scaled = {name: np.asarray(losses, np.float64) / nats_per_unit for name, (losses, _) in by_name.items()}
            curves = {n: figures.LossCurve(n, scaled[n], error is not None) for n, (_, error) in by_name.items()}
            others = [curve for name, curve in curves.items() if name != reference]
            return figures.loss_curves(others, curves.get(reference), steps=steps, **axis)

        super().__init__(rounds, draw, total=steps, unit="step", remark=self._diagnoses, **run)

    def _diagnoses(self, results: tuple[StepResults, ...]) -> list[str]:
        by_name = _by_name(self._names, results).items()
        return [f"{name} diverged. {str(error)[:1].upper()}{str(error)[1:]}." for name, (_, error) in by_name if error]


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
    cell may ``await run.done()``. One that diverges is marked and diagnosed below the figure; the others continue.

    Args:
        trainers: names, and functions without arguments that make a trainer; they are called at each start, in the
            background. The one named ``reference`` is drawn in green, beside up to four others.
        steps: of every trainer.
        name: on the button.
        reference: which name is the reference.
        unit: of the loss as it is drawn; by default nats, or bits.
        bits: whether to draw cross entropies in bits instead of nats; ``losses`` stay in nats.
        loss_range: ends of the loss axis; by default from 0 to a little above the first losses.
        threads: number of PyTorch's threads; one is fastest for models of some hundred thousand weights while a browser
            draws; large models profit from more.
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
        steps=check_int("steps", steps, 1, 2**31 - 1),
        threads=check_int("threads", threads, 1, 1024),
        reference=reference,
        unit=unit or ("bits" if bits else "nats"),
        bits=bits,
        loss_range=loss_range,
        name=name,
        start=start,
    )


def train_in_lockstep(trainers: list[Trainer], steps: int) -> Iterator[StepResults]:
    """Train side by side; a step yields for each trainer its loss, the DivergedError of this step, or None after it.

    Ends when all trainers have ended. An error of another kind ends all of them.
    """
    from lplab.training import DivergedError

    alive = [True] * len(trainers)
    for _ in range(steps):
        if not any(alive):
            return
        results: list[Any] = []
        for i, trainer in enumerate(trainers):
            try:
                results.append(trainer.one_step().loss if alive[i] else None)
            except DivergedError as error:
                alive[i] = False
                results.append(error)
        yield tuple(results)


def _by_name(names: list[str], results: tuple[StepResults, ...]) -> dict[str, tuple[list[float], DivergedError | None]]:
    """Losses and error of each training."""
    columns = zip(*results, strict=True) if results else ([] for _ in names)
    return {
        name: (
            [value for value in column if isinstance(value, float)],
            next((value for value in column if value is not None and not isinstance(value, float)), None),
        )
        for name, column in zip(names, map(list, columns), strict=True)
    }
