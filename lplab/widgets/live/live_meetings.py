"""Learners that meet seldom, live in a notebook: several ways to meet, side by side from one checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from lplab import figures
from lplab.training.thread_counts import torch_threads

from .live_run import NOT_STARTED, LiveRun

if TYPE_CHECKING:
    from lplab.claims.framework.local_trainings import Arm

LIMITS = (2.3, 2.75)  # of the figure, in bits a character
TESTED = 64  # sequences of the test, an eighth of the claims'


class LiveMeetings(LiveRun):
    """The widget that :func:`live_meetings` returns.

    Attributes:
        losses: of each way so far, after each round; the first is the checkpoint's.
    """

    def __init__(self, arms: Mapping[str, Arm], *, seed: int, rounds: int, every: int, **run: Any) -> None:
        self._names, self._every, self._steps_of_all = tuple(arms), every, rounds * every

        def steps() -> Iterator[Any]:
            from lplab.claims.framework import local_trainings as trainings
            from lplab.claims.framework.branches import checkpoint_steps
            from lplab.claims.framework.models import branch_transformer

            task = branch_transformer()
            inputs, targets = task.test()
            test = inputs[:TESTED], targets[:TESTED]
            with torch_threads(1):
                for loss in checkpoint_steps(task, seed, trainings.BEFORE):  # none where it is kept
                    self.progress.max = trainings.BEFORE + rounds
                    yield loss
                runs = [trainings.learners_of(arm, seed) for arm in arms.values()]
                yield tuple(trainings.test_loss(each.model, lambda: test) for each in runs)
                for _ in range(rounds):
                    for each in runs:
                        each.one_round()
                    yield tuple(trainings.test_loss(each.model, lambda: test) for each in runs)

        super().__init__(steps, self._figure, total=rounds + 1, unit="meeting", **run)

    @property
    def losses(self) -> dict[str, list[float]]:
        """The test losses of each way, in bits a character."""
        return self._losses(tuple(self._results))

    def _losses(self, results: tuple[Any, ...]) -> dict[str, list[float]]:
        looks = [each for each in results if isinstance(each, tuple)]
        return {name: [look[place] for look in looks] for place, name in enumerate(self._names)}

    def _figure(self, results: tuple[Any, ...]) -> go.Figure:
        losses = self._losses(results)
        title = "" if results and isinstance(results[-1], tuple) else NOT_STARTED
        if results and not isinstance(results[-1], tuple):
            title = f"One learner first, to have a checkpoint: step {len(results)}"
        curves = {name: (list(range(0, self._every * len(each), self._every)), each) for name, each in losses.items()}
        return figures.meeting_losses(curves, steps=self._steps_of_all, limits=LIMITS, title=title, height=320)


def live_meetings(
    arms: Mapping[str, Arm], *, seed: int = 0, rounds: int | None = None, name: str = "Train four learners"
) -> LiveMeetings:
    """A button that trains learners from one checkpoint in several ways, a round of each in turn.

    They train the character Transformer of the claims on slow links. Where the checkpoint is not kept yet it is trained
    first, and the progress bar counts its steps.

    Args:
        arms: one to three, by name, all with the same steps between meetings.
        seed: of weights, batches and random bits.
        rounds: of each; by default as many as those of the claims.
        name: on the button.

    Raises:
        ValueError: no arm, more than three, or arms that meet at different steps.

    >>> live_meetings({})
    Traceback (most recent call last):
    ...
    ValueError: one to three ways are drawn together, all with one number of steps between meetings
    """
    every = {arm.every for arm in arms.values()}
    if not 1 <= len(arms) <= 3 or len(every) != 1:
        raise ValueError("one to three ways are drawn together, all with one number of steps between meetings")
    from lplab.claims.framework.local_trainings import STEPS

    (steps,) = every
    return LiveMeetings(arms, seed=seed, rounds=rounds or STEPS // steps, every=steps, name=name)
