"""What the capstones share about scores: what a score is, whose seeds count, and how a score is found step by step.

A capstone trains what a recipe says from a checkpoint, on each seed, and compares the end with that of a training that
every recipe of this seed is compared with. What is trained and compared is the capstone's own; see :func:`scored`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from lplab.claims.framework.branches import BranchPlan, checkpoint_steps

if TYPE_CHECKING:
    from lplab.training.loop.tasks import Task

PRACTICE_SEEDS = (0, 1, 2)
"""Seeds that a student scores with, in the lab and with ``lplab capstone``."""
HELD_BACK_SEEDS = (9001, 9002, 9003)
"""Seeds that ``lplab grade`` scores with. Everybody can read them here: an instructor may choose others."""
MAX_SEEDS = 10


@dataclass(frozen=True)
class CostAxis:
    """What the overview of a class draws gaps against.

    Attributes:
        title: of the axis.
        unit: as the head of a column.
        digits: behind the point in that column.
        budget: that a recipe may cost at most.
        is_logarithmic: the axis.
    """

    title: str
    unit: str
    digits: int
    budget: float
    is_logarithmic: bool = False


class RecipeCosts(Protocol):
    """What a recipe costs: a dataclass of numbers, which are stored by the names of its fields.

    Attributes:
        AXES: what the overview of a class draws the gap against.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    AXES: ClassVar[tuple[CostAxis, ...]]

    @property
    def keeps_budget(self) -> bool:
        """Whether a recipe may cost that."""

    @property
    def on_axes(self) -> tuple[float, ...]:
        """The costs along :attr:`AXES`."""

    @property
    def text(self) -> str:
        """The costs in words."""

    @property
    def over(self) -> str:
        """A line that says how far the costs are above the budget, and what they are made of; "" if they are not."""

    @property
    def line(self) -> str:
        """The costs in words, with all digits that :meth:`read` needs."""

    @classmethod
    def read(cls, line: str) -> Self | None:
        """The costs of a :attr:`line`; None if it is none."""


@dataclass(frozen=True)
class Score:
    """What was found about a recipe, so far.

    Attributes:
        name: of the recipe.
        costs: what it costs, as far as that is known.
        seeds: those that were asked for.
        gaps: how far the training ended above the one that it is compared with, one for each seed that is done. A
            training that diverged counts as guessing.
        diverged: how many of these trainings diverged.
        is_published: whether it is a recipe of the field as it is, whatever its name.
        losses: at the end of the trainings, one for each seed that is done, where a figure shows them.
    """

    name: str
    costs: Any  # of the protocol RecipeCosts, a class of its own for each capstone
    seeds: tuple[int, ...]
    gaps: tuple[float, ...] = ()
    diverged: int = 0
    is_published: bool = False
    losses: tuple[float, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether all seeds are measured."""
        return len(self.gaps) == len(self.seeds)

    @property
    def gap(self) -> float:
        """The mean gap; NaN before the first seed is done."""
        return float(np.mean(self.gaps)) if self.gaps else math.nan

    @property
    def keeps_budget(self) -> bool:
        """Whether the costs are within the budget."""
        return bool(self.costs.keeps_budget)


@dataclass(frozen=True)
class Ending:
    """How a training ended: its loss in bits, and whether it diverged."""

    loss: float
    diverged: bool = False


@dataclass(frozen=True)
class Trainings:
    """What a capstone trains on a seed. Each function makes a generator that yields once for each step.

    Attributes:
        compared: the name of what ``baseline`` trains.
        task: whose checkpoints the trainings begin with.
        plan: steps before the checkpoint and behind it.
        baseline: of a seed; it returns what all recipes of this seed are compared with, numbers as JSON has them.
        baseline_steps: that this takes.
        own: of a seed and the score so far; it yields the score, maybe with other costs, and returns the last one and
            the ending.
        gap: of an ending, from what ``baseline`` returned.
        keeps_losses: whether the score keeps the losses.
    """

    compared: str
    task: Task
    plan: BranchPlan
    baseline: Callable[[int], Generator[Any, None, Any]]
    baseline_steps: int
    own: Callable[[int, Score], Generator[Score, None, tuple[Score, Ending]]]
    gap: Callable[[float, Any], float]
    keeps_losses: bool = False


def scored(
    found: Score, trainings: Trainings, folder: str | Path | None, known: Mapping[int, Any] | None
) -> Iterator[Score]:
    """The scores of a recipe as they become known: at once, then after each step that is trained.

    A recipe that is over the budget has no points, so it is trained on one seed alone. Those of the field are trained
    on all, as others are compared with them.

    Args:
        found: what is known before the first step.
        trainings: what is trained.
        folder: where checkpoints are kept.
        known: what ``baseline`` returns, by seed, where it is known.
    """
    yield found
    task, plan = trainings.task, trainings.plan
    for seed in found.seeds:
        taken = 0
        for _ in checkpoint_steps(task, seed, plan.before, folder):
            taken += 1
            yield found
        place = (trainings.compared, task.name, seed, plan, folder)
        base = known[seed] if known else _known_baselines.get(place)
        if base is None:
            base = _known_baselines[place] = yield from _score_at_each_step(found, trainings.baseline(seed))
            taken += trainings.baseline_steps
        for _ in range(plan.before + trainings.baseline_steps - taken):  # what was known already takes no time
            yield found
        found, ending = yield from trainings.own(seed, found)
        gap = round(trainings.gap(ending.loss, base), 6)
        losses = (*found.losses, ending.loss) if trainings.keeps_losses else ()
        found = replace(found, gaps=(*found.gaps, gap), diverged=found.diverged + ending.diverged, losses=losses)
        yield found
        if not (found.keeps_budget or found.is_published):
            return


def steps_of(seeds: Sequence[int], plan: BranchPlan, baseline_steps: int) -> int:
    """How many scores :func:`scored` yields, unless a training diverges or a recipe is over the budget.

    >>> steps_of((0, 1, 2), BranchPlan(500, 100), 100)
    2104
    """
    return 1 + len(seeds) * (plan.before + baseline_steps + plan.steps + 1)


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise a ValueError that says what is allowed, unless these are one to ten different seeds.

    >>> check_seeds([1, 1])
    Traceback (most recent call last):
    ...
    ValueError: one to 10 different seeds from 0 up are needed, got 1, 1
    """
    if not 1 <= len(seeds) <= MAX_SEEDS or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2**31:
        shown = ", ".join(map(str, seeds)) or "none"
        raise ValueError(f"one to {MAX_SEEDS} different seeds from 0 up are needed, got {shown}")


def guessing() -> float:
    """The loss in bits of all characters alike."""
    from lplab.datasets import character_ids

    return math.log2(len(character_ids()[1]))


_known_baselines: dict[tuple[Any, ...], Any] = {}  # what baselines returned in this process


def _score_at_each_step(found: Score, steps: Generator[Any, None, Any]) -> Generator[Score, None, Any]:
    """Yield the score for each step of a generator, and return what that returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        yield found
