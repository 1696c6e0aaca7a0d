"""One branch of a recipe from a float32 checkpoint, live in a notebook: its loss beside float32's, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from lplab import claims, figures
from lplab.checks import check_int
from lplab.training.thread_counts import torch_threads

from .live_run import NOT_STARTED, LiveRun
from .live_trainers import train_in_lockstep

if TYPE_CHECKING:
    from lplab.claims import BranchPlan
    from lplab.training import Recipe
    from lplab.training.loop.tasks import Task

THIS = "this recipe"
LIMITS = (-0.05, 0.15)  # of the figure, in bits: one seed scatters more than the mean of several


class LiveBranch(LiveRun):
    """The widget that :func:`live_branch` returns.

    Attributes:
        recipe: that of the latest start; None before.
    """

    recipe: Recipe | None

    def __init__(
        self,
        task: Task,
        recipe: Callable[[], Recipe],
        *,
        seed: int,
        plan: BranchPlan,
        folder: str | Path | None,
        **run: Any,
    ) -> None:
        self._plan, self.recipe = plan, None

        def rounds() -> Iterator[Any]:
            self.recipe, self.progress.max = recipe(), plan.steps
            with torch_threads(1):
                for loss in claims.checkpoint_steps(task, seed, plan.before, folder):  # none where it is kept
                    self.progress.max = plan.before + plan.steps
                    yield loss
                pair = [claims.branch_trainer(task, each, seed, plan, folder=folder) for each in ("fp32", self.recipe)]
                yield from train_in_lockstep(pair, plan.steps)

        super().__init__(rounds, self._figure, total=plan.steps, unit="step", remark=self._diagnoses, **run)

    @property
    def gaps(self) -> np.ndarray:
        """The loss of the branch above float32's so far, in bits, float64 [steps]; NaN after a divergence."""
        base, ours = self._losses(tuple(self._results))
        return ours - base

    def _losses(self, results: tuple[Any, ...]) -> np.ndarray:
        """The losses of float32 and of the recipe in bits, float64 [2, steps]."""
        pairs = [result for result in results if isinstance(result, tuple)]
        losses = [[loss if isinstance(loss, float) else math.nan for loss in pair] for pair in pairs]
        return np.array(losses, np.float64).reshape(-1, 2).T / math.log(2)

    def _figure(self, results: tuple[Any, ...]) -> go.Figure:
        losses = self._losses(results)
        done, plan = losses.shape[1], self._plan
        title = f"{NOT_STARTED}" if not results else f"float32 first: step {len(results)} of {plan.before}"
        if done:
            half = (losses[1] - losses[0])[done // 2 :].mean()
            now = "it diverged" if math.isnan(half) else f"{half:+.3f} bits".replace("-", "−")
            title = f"After {done} of {plan.steps} steps, mean of the last half: {now}"
        curves = {"float32": losses[:1], THIS: losses[1:]}
        return figures.branched_losses(
            curves, before=plan.before, steps=plan.steps, limits=LIMITS, title=title, height=280
        )

    def _diagnoses(self, results: tuple[Any, ...]) -> list[str]:
        errors = [each for pair in results if isinstance(pair, tuple) for each in pair if isinstance(each, Exception)]
        return [f"It diverged. {str(error)[:1].upper()}{str(error)[1:]}." for error in errors]


def live_branch(
    task: Task,
    recipe: Callable[[], Recipe],
    *,
    plan: BranchPlan | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    name: str = "Train this recipe",
) -> LiveBranch:
    """A button that branches a recipe and float32 from one checkpoint, and draws the difference of their losses.

    Both branches have the same weights at first and the same batches. They train in a background thread, a step of each
    in turn. Where the float32 checkpoint is not kept yet it is trained first, and the progress bar counts its steps.

    Args:
        task: of :mod:`~lplab.training.loop.tasks`, or one made of it.
        recipe: a function without arguments that gives the recipe; it is called at each start.
        plan: the lengths; by default those of :class:`lplab.claims.BranchPlan`.
        seed: of weights, batches and random bits.
        folder: where checkpoints are kept; by default :func:`lplab.claims.framework.branches.checkpoint_folder`.
        name: on the button.

    Raises:
        TypeError: a recipe that is no function.

    >>> import tempfile
    >>> from lplab.claims import BranchPlan
    >>> from lplab.training import recipes, tasks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = BranchPlan(before=2, steps=3)
    ...     run = live_branch(tasks.get("mlp"), lambda: recipes.get("fp8_2018"), plan=plan, folder=folder)
    ...     run.start()
    ...     run.wait(60)
    >>> run.state, run.gaps.shape
    ('finished', (3,))
    """
    if not callable(recipe):
        raise TypeError(f"recipe must be a function without arguments that gives a Recipe, got {type(recipe).__name__}")
    check_int("seed", seed, 0, 2**31 - 1)
    return LiveBranch(task, recipe, seed=seed, plan=plan or claims.BranchPlan(), folder=folder, name=name)
