"""The score of a recipe: what it costs, and how far its training ends above float32 on the same batches.

The gap follows the branch protocol (:mod:`lplab.claims.framework.branches`): float32 trains a small Transformer once
for each seed, the recipe and float32 both go on from there, and the gap is the difference of their training losses.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lplab.claims.framework.branches import LAST_SHARE, BranchPlan, branch, branch_trainer, checkpoint_steps
from lplab.claims.framework.models import branch_transformer
from lplab.claims.framework.trainings import final_mean, one_thread, replace_above
from lplab.exercises.capstone.costs import Costs, costs_of
from lplab.exercises.capstone.published_recipes import is_published
from lplab.training.recipe.recipe import Recipe, Switch
from lplab.training.recipe.recipe_data import recipe_from_data

PLAN = BranchPlan(before=500, steps=100)
"""500 steps in float32, then 100 in each branch: the plan of the claims about recipes."""
PRACTICE_SEEDS = (0, 1, 2)
"""Seeds that a student scores with, in the lab and with ``lplab capstone``."""
HELD_BACK_SEEDS = (9001, 9002, 9003)
"""Seeds that ``lplab grade`` scores with. Everybody can read them here: an instructor may choose others."""
MAX_SEEDS = 10


@dataclass(frozen=True)
class Budget:
    """What a recipe may cost at most: average bits of a number, and modelled seconds of a step."""

    bits: float
    seconds: float

    def allows(self, costs: Costs) -> bool:
        """Whether a recipe with these costs keeps the budget.

        >>> BUDGET.allows(Costs(bits=16.0, seconds=0.5))
        False
        """
        return costs.bits <= self.bits and costs.seconds <= self.seconds


BUDGET = Budget(bits=7.0, seconds=0.62)
"""Fixed from the costs of the published recipes alone, before any gap was measured: NVFP4 as published keeps it."""


@dataclass(frozen=True)
class Score:
    """What was found about a recipe, so far.

    Attributes:
        name: of the recipe.
        costs: its bits and seconds.
        seeds: those that were asked for.
        gaps: training loss above float32 in bits, one for each seed that is done. A training that diverged counts as
            guessing.
        diverged: how many of these trainings diverged.
        is_published: whether it is a recipe of the field as it is, whatever its name.
    """

    name: str
    costs: Costs
    seeds: tuple[int, ...]
    gaps: tuple[float, ...] = ()
    diverged: int = 0
    is_published: bool = False

    @property
    def is_done(self) -> bool:
        """Whether all seeds are measured."""
        return len(self.gaps) == len(self.seeds)

    @property
    def gap(self) -> float:
        """The mean gap in bits; NaN before the first seed is done."""
        return float(np.mean(self.gaps)) if self.gaps else math.nan

    @property
    def keeps_budget(self) -> bool:
        """Whether the costs are within :data:`BUDGET`."""
        return BUDGET.allows(self.costs)


def checked_recipe(data: Any) -> Recipe:
    """The recipe in data, as a capstone may have it.

    Raises:
        ValueError: the data are no recipe; its costs cannot be modelled; it switches at a step, not at a share.

    >>> checked_recipe({"weight": "posit8_1"})
    Traceback (most recent call last):
    ...
    ValueError: no chip of the table multiplies posit8_1; choose floats, integers or blocks of them
    """
    recipe = recipe_from_data(data)
    costs_of(recipe)
    return recipe


def score(
    data: Any,
    seeds: Sequence[int] = PRACTICE_SEEDS,
    plan: BranchPlan = PLAN,
    folder: str | Path | None = None,
    float32: Mapping[int, float] | None = None,
) -> Score:
    """The score of a recipe on all seeds.

    Args:
        data: of the recipe, for :func:`~lplab.training.recipe.recipe_data.recipe_from_data`.
        seeds: one to ten.
        plan: the lengths.
        folder: where checkpoints are kept; by default that of the branch protocol.
        float32: the losses of float32 by seed (:func:`float32_loss`), where they are known.

    Raises:
        ValueError: the data are no recipe of a capstone; no seeds, or more than ten.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = score({"weight": "e2m1"}, [0], BranchPlan(before=2, steps=2), folder)
    >>> len(found.gaps), found.is_done
    (1, True)
    """
    return list(score_steps(data, seeds, plan, folder, float32))[-1]


def score_steps(
    data: Any,
    seeds: Sequence[int] = PRACTICE_SEEDS,
    plan: BranchPlan = PLAN,
    folder: str | Path | None = None,
    float32: Mapping[int, float] | None = None,
) -> Iterator[Score]:
    """What :func:`score` knows as it goes on: the costs at once, then a score after each step that is trained."""
    recipe = checked_recipe(data)
    check_seeds(seeds)
    published = is_published(recipe, plan.steps)
    found = Score(recipe.name or "own recipe", costs_of(recipe), tuple(seeds), is_published=published)
    yield found
    branched, task = _at_step(recipe, plan), branch_transformer()
    for seed in seeds:
        taken = 0
        for _ in checkpoint_steps(task, seed, plan.before, folder):
            taken += 1
            yield found
        known = float32 and float32[seed]
        base = known or _known_losses.get((seed, plan, folder))
        if base is None:
            ending = yield from _followed("fp32", seed, plan, folder, found)
            base = _known_losses[seed, plan, folder] = ending.loss
            taken += plan.steps
        for _ in range(plan.before + plan.steps - taken):  # what was known already takes no time
            yield found
        ending = yield from _followed(branched, seed, plan, folder, found)
        gap = round(ending.loss - base, 6)
        found = replace(found, gaps=(*found.gaps, gap), diverged=found.diverged + ending.diverged)
        yield found


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


def steps_of(seeds: Sequence[int], plan: BranchPlan = PLAN) -> int:
    """How many scores :func:`score_steps` yields, unless a training diverges.

    >>> steps_of((0, 1, 2))
    2104
    """
    return 1 + len(seeds) * (plan.before + 2 * plan.steps + 1)


def float32_loss(seed: int, plan: BranchPlan = PLAN, folder: str | Path | None = None) -> float:
    """The training loss of the branch in float32, in bits: the mean of its last half."""
    return _loss(branch(branch_transformer(), "fp32", seed, plan, folder=folder).losses)


_known_losses: dict[tuple[int, BranchPlan, str | Path | None], float] = {}  # of float32, in this process


@dataclass(frozen=True)
class _Ending:
    """How a branch ended: its loss in bits, and whether it diverged."""

    loss: float
    diverged: bool


def _followed(
    recipe: str | Recipe, seed: int, plan: BranchPlan, folder: str | Path | None, found: Score
) -> Generator[Score, None, _Ending]:
    """A branch that yields ``found`` after each of its steps."""
    from lplab.training import DivergedError

    trainer = branch_trainer(branch_transformer(), recipe, seed, plan, folder=folder)
    losses = []
    with one_thread():
        try:
            for step in trainer.steps(plan.steps):
                losses.append(step.loss)
                yield found
        except DivergedError:
            return _Ending(_guessing(), True)
    return _Ending(_loss(losses), False)


def _loss(losses: Sequence[float]) -> float:
    """The mean loss of the last half in bits; that of guessing where it is worse."""
    return replace_above(final_mean(losses, LAST_SHARE) / math.log(2), _guessing())


def _guessing() -> float:
    """The loss in bits of all characters alike."""
    from lplab.datasets import character_ids

    return math.log2(len(character_ids()[1]))


def _at_step(recipe: Recipe, plan: BranchPlan) -> Recipe:
    """The recipe for a branch: where it switches after a share of the training, that is a share of the branch."""
    if recipe.switch is None:
        return recipe
    step = plan.before + recipe.switch.step(plan.steps)
    return recipe.replace(switch=Switch(step, recipe.switch.to))
