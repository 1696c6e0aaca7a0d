"""The score of a recipe: what it costs, and how far its training ends above float32 on the same batches.

The gap follows the branch protocol (:mod:`lplab.claims.framework.branches`): float32 trains a small Transformer once
for each seed, the recipe and float32 both go on from there, and the gap is the difference of their training losses.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lplab.claims.framework.branches import LAST_SHARE, BranchPlan, branch, branch_trainer
from lplab.claims.framework.models import branch_transformer
from lplab.claims.framework.trainings import final_mean, one_thread, replace_above
from lplab.exercises.capstone import scores
from lplab.exercises.capstone.costs import costs_of
from lplab.exercises.capstone.published_recipes import is_published
from lplab.exercises.capstone.scores import PRACTICE_SEEDS, Ending, Score, Trainings, check_seeds, guessing, scored
from lplab.training.recipe.recipe import Recipe, Switch
from lplab.training.recipe.recipe_data import recipe_from_data

PLAN = BranchPlan(before=500, steps=100)
"""500 steps in float32, then 100 in each branch: the plan of the claims about recipes."""


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
    branched = _at_step(recipe, plan)

    def baseline(seed: int) -> Generator[None, None, float]:
        return (yield from _branch_steps("fp32", seed, plan, folder, None)).loss

    def own(seed: int, found: Score) -> Generator[Score, None, tuple[Score, Ending]]:
        return found, (yield from _branch_steps(branched, seed, plan, folder, found))

    def gap(loss: float, base: float) -> float:
        return loss - base

    trainings = Trainings("float32", branch_transformer(), plan, baseline, plan.steps, own, gap)
    yield from scored(found, trainings, folder, float32)


def steps_of(seeds: Sequence[int], plan: BranchPlan = PLAN) -> int:
    """How many scores :func:`score_steps` yields, unless a training diverges.

    >>> steps_of((0, 1, 2))
    2104
    """
    return scores.steps_of(seeds, plan, plan.steps)


def float32_loss(seed: int, plan: BranchPlan = PLAN, folder: str | Path | None = None) -> float:
    """The training loss of the branch in float32, in bits: the mean of its last half."""
    return _loss(branch(branch_transformer(), "fp32", seed, plan, folder=folder).losses)


def _branch_steps(
    recipe: str | Recipe, seed: int, plan: BranchPlan, folder: str | Path | None, found: Any
) -> Generator[Any, None, Ending]:
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
            return Ending(guessing(), True)
    return Ending(_loss(losses))


def _loss(losses: Sequence[float]) -> float:
    """The mean loss of the last half in bits; that of guessing where it is worse."""
    return replace_above(final_mean(losses, LAST_SHARE) / math.log(2), guessing())


def _at_step(recipe: Recipe, plan: BranchPlan) -> Recipe:
    """The recipe for a branch: where it switches after a share of the training, that is a share of the branch."""
    if recipe.switch is None:
        return recipe
    step = plan.before + recipe.switch.step(plan.steps)
    return recipe.replace(switch=Switch(step, recipe.switch.to))
