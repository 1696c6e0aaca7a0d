"""The score of a way to meet: the bytes that a learner sends, and how much of the gain its training misses.

A small Transformer trains 800 steps. Then four learners go on for 240 steps each, as in the claims on slow links
(:mod:`lplab.claims.framework.local_trainings`), and meet as the recipe says. Two trainings stand beside them: one
learner alone, and one with the sequences of all four in each step, as data parallelism has it. The gap is the share of
the way from the second to the first at which the recipe's test loss lies: 0 is as good as a gradient in each step, and
1 is no better than one learner alone.

The loss is that of the shared weights, never of a learner's own. The inner optimizer, its learning rate, the number of
steps and the sequences are the same for all recipes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from lplab.claims.framework import local_trainings
from lplab.claims.framework.branches import BranchPlan
from lplab.claims.framework.local_trainings import ARMS, BEFORE, STEPS, Arm, learners_of
from lplab.claims.framework.models import branch_transformer
from lplab.claims.framework.trainings import one_thread, replace_above
from lplab.exercises.capstone import scores
from lplab.exercises.capstone.meeting_costs import MeetingTraffic, traffic_of
from lplab.exercises.capstone.meeting_recipe import recipe_from_data
from lplab.exercises.capstone.published_meetings import is_published
from lplab.exercises.capstone.scores import PRACTICE_SEEDS, Ending, Score, Trainings, check_seeds, guessing, scored

PLAN = BranchPlan(before=BEFORE, steps=STEPS)
"""The plan of the claims on slow links: 800 steps to the checkpoint, then 240 of each learner."""


def score_steps(
    data: Any,
    seeds: Sequence[int] = PRACTICE_SEEDS,
    plan: BranchPlan = PLAN,
    folder: str | Path | None = None,
    known: Mapping[int, Sequence[float]] | None = None,
) -> Iterator[Score]:
    """What is known of the score of a way to meet as it goes on: a score after each step that is trained.

    Args:
        data: of the recipe, for :func:`~lplab.exercises.capstone.meeting_recipe.recipe_from_data`.
        seeds: one to ten.
        plan: the lengths.
        folder: where checkpoints are kept; by default that of the branch protocol.
        known: by seed, the losses of one learner alone and of a gradient in each step (:func:`baseline`).

    Raises:
        ValueError: the data are no recipe of the capstone; no seeds, or more than ten; a meeting that is not over when
            the steps are.
    """
    recipe = recipe_from_data(data)
    check_seeds(seeds)
    if plan.steps % recipe.every:
        raise ValueError(f"a meeting every {recipe.every} steps does not divide {plan.steps} steps")
    found = Score(recipe.name or "own recipe", MeetingTraffic(), tuple(seeds), is_published=is_published(recipe))
    arm = recipe.arm()

    def baseline(seed: int) -> Generator[MeetingTraffic, None, list[float]]:
        losses = []
        for each in _REFERENCES:
            _, ending = yield from _training_steps(each, seed, plan, folder)
            losses.append(ending.loss)
        return losses

    def own(seed: int, found: Score) -> Generator[Score, None, tuple[Score, Ending]]:
        followed, before = _training_steps(arm, seed, plan, folder), found.costs
        while True:
            try:
                traffic = next(followed)
            except StopIteration as end:
                traffic, ending = end.value
                # A message of AdaComp has another length on each seed: the dearest one counts.
                return replace(found, costs=max(before, traffic, key=_sent_bytes)), ending
            found = replace(found, costs=max(before, traffic, key=_sent_bytes))
            yield found

    task, steps = branch_transformer(), len(_REFERENCES) * plan.steps
    trainings = Trainings("alone and synchronous", task, plan, baseline, steps, own, gap_of, keeps_losses=True)
    yield from scored(found, trainings, folder, known)


def steps_of(seeds: Sequence[int], plan: BranchPlan = PLAN) -> int:
    """How many scores :func:`score_steps` yields.

    >>> steps_of((0, 1, 2))
    4564
    """
    return scores.steps_of(seeds, plan, len(_REFERENCES) * plan.steps)


def baseline(seed: int, plan: BranchPlan = PLAN, folder: str | Path | None = None) -> list[float]:
    """The test losses of one learner alone, and of a gradient in each step, in bits a character."""
    return [_ending(each, seed, plan, folder).loss for each in _REFERENCES]


def gap_of(loss: float, base: Sequence[float]) -> float:
    """The share of the way from a gradient in each step to one learner alone at which a loss lies.

    >>> gap_of(2.5, [2.75, 2.25])
    0.5
    """
    alone, together = base
    return (loss - together) / (alone - together)


_REFERENCES = (ARMS["alone"], ARMS["synchronous"])


def _training_steps(
    arm: Arm, seed: int, plan: BranchPlan, folder: str | Path | None
) -> Generator[MeetingTraffic, None, tuple[MeetingTraffic, Ending]]:
    """A training that yields after each step of a learner what is known of its traffic; how it ended."""
    with one_thread():
        run = learners_of(arm, seed, plan.before, plan.steps, folder)
        meetings = plan.steps // arm.every * arm.fragments
        traffic, diverged = MeetingTraffic(), False
        for made in run.rounds(meetings):
            # A round that an infinite number ends is not sent, and one that leaves a learner out is sent by fewer.
            diverged |= len(made.took_part) < run.learners
            if run.number % arm.fragments == 0:
                traffic = traffic_of(run, meetings)
            for _ in range(arm.every // arm.fragments):
                yield traffic
        loss = local_trainings.test_loss(run.model, branch_transformer().test)
    return traffic, Ending(replace_above(loss, guessing()), diverged or not isfinite(loss))


def _ending(arm: Arm, seed: int, plan: BranchPlan, folder: str | Path | None) -> Ending:
    """How a training ended."""
    followed = _training_steps(arm, seed, plan, folder)
    while True:
        try:
            next(followed)
        except StopIteration as end:
            return end.value[1]


def _sent_bytes(traffic: MeetingTraffic) -> float:
    return traffic.sent
