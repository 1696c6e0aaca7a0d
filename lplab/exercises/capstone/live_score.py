"""A capstone in a notebook: a button that scores a recipe, and the field with one's own recipe in it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lplab import widgets
from lplab.claims.framework.branches import BranchPlan
from lplab.exercises import progress
from lplab.exercises.capstone.capstone_value import Capstone
from lplab.exercises.capstone.few_bits_capstone import FEW_BITS
from lplab.exercises.capstone.points import MAX_POINTS
from lplab.exercises.capstone.scores import PRACTICE_SEEDS, Score
from lplab.exercises.capstone.stored_field import field, kept_score, known_score

LEAST_SECONDS = 1.0  # of a recipe's own steps before the time that is left is told
NO_SEED = -1


class CapstoneRun(widgets.LiveRun):
    """A button that scores a recipe, and the field, which follows; a score on all seeds is kept for the report.

    A recipe of the field as it is trains not at all. One whose score is kept is shown with it.

    Args:
        data: of a recipe that the capstone takes.
        seeds: one to ten.
        plan: of the trainings; by default the capstone's.
        folder: where checkpoints are kept; by default that of the branch protocol.
        capstone: whose recipe it is.

    """

    def __init__(
        self,
        data: Any,
        seeds: Sequence[int] = PRACTICE_SEEDS,
        plan: BranchPlan | None = None,
        folder: str | Path | None = None,
        capstone: Capstone = FEW_BITS,
    ) -> None:
        text = json.dumps(data, ensure_ascii=False)  # a copy: the cell may change the dictionary while it is scored
        own_plan, self.capstone, published = plan or capstone.plan, capstone, field(capstone=capstone)
        same = capstone.published(data)
        is_practice = own_plan == capstone.plan and tuple(seeds) == PRACTICE_SEEDS
        self._known_score = known = known_score(data, seeds, capstone) if is_practice else None
        total = capstone.steps_of(seeds, own_plan)
        self._seeds, self._own_steps = len(seeds), own_plan.steps
        # On a seed come the scores of preparing, those of the recipe's own steps, and the one that has the gap.
        self._preparing = (total - 1) // len(seeds) - own_plan.steps - 1
        self._seed, self._seed_began = NO_SEED, 0.0  # the place of the seed whose steps are looked at, and its start
        self._looks: list[tuple[int, float]] = []  # at this seed: how many of the recipe's own steps had come, and when
        self._earlier = scored_before(data, capstone) if is_practice and known is None else None

        def steps() -> Iterator[Score]:
            self._seed = NO_SEED  # a run before this one looked at seeds too
            if known is not None:
                yield known
                return
            for found in capstone.score_steps(json.loads(text), seeds, plan=own_plan, folder=folder):
                yield found
            if not found.is_done:  # it stopped at the first seed
                self.progress.max = len(self._results)
            elif found.keeps_budget:  # others cannot have points, and are not handed in
                costs = asdict(found.costs)
                progress.record_capstone(capstone.key, text, costs, found.gaps, found.seeds, found.diverged)

        def draw(found: Sequence[Score]) -> Any:
            return capstone.figure(published, found or [each for each in (self._earlier,) if each])

        def remark(found: Sequence[Score]) -> list[str]:
            """What is wrong with a recipe as soon as it is known: no points, its costs, a training that diverged."""
            lines = [f"This is {same} as it is, which has no points. Change a key first."] if same else []
            if found:
                last = found[-1]
                lines += filter(None, [capstone.over(json.loads(text), last.costs)])
                if last.diverged:
                    lines.append(f"The training diverged on {last.diverged} of {len(last.gaps)} seeds.")
            return lines

        super().__init__(steps, draw, total=1 if known is not None else total, name="Score my recipe", remark=remark)

    def outcome(self) -> str:
        """Points on the seeds of practice, and why; before the first start those of the last score, if there is one."""
        if self._results:
            return self._points_and_reason(self._results[-1])
        return f"Scored before: {self._points_and_reason(self._earlier)}" if self._earlier else ""

    def counted(self) -> str:
        """The seeds that are done, and what is trained on each."""
        if self._known_score is not None:
            return "nothing was trained, as the gaps of this recipe are known"
        done = len(self._results[-1].gaps) if self._results else 0
        return f"{done} of {self._seeds} seeds, with {self.capstone.trained} on each"

    def seconds_left(self, seconds: float) -> float:
        """How long the rest takes, from the steps of the recipe itself (`seconds_of_rest`)."""
        done = len(self._results[-1].gaps)
        if done == self._seeds:
            return math.nan
        if self._seed != done:  # the first look at this seed
            self._seed, self._seed_began, self._looks = done, seconds if done else 0.0, []
        # The first score with so many gaps ended the seed before, or is the one before all steps.
        on_this_seed = sum(len(each.gaps) == done for each in self._results) - 1
        if on_this_seed > self._preparing:
            self._looks.append((on_this_seed - self._preparing, seconds))
        return seconds_of_rest(self._looks, self._seed_began, self._own_steps, self._seeds - 1 - done)

    def _points_and_reason(self, found: Score) -> str:
        marking = self.capstone.marking(field(capstone=self.capstone))
        return f"{marking.points(found):g} of {MAX_POINTS} points on these seeds. {marking.reason(found)}"


def seconds_of_rest(looks: Sequence[tuple[int, float]], began: float, steps: int, later_seeds: int) -> float:
    """How long it takes to train the steps that are left on this seed, and to prepare and train each later seed.

    Steps come in bursts, as learners yield theirs when they meet. Each look falls on the first step of a burst, so all
    steps of this burst are trained, and the steps between the first two looks are one burst. Preparing a seed takes as
    long as on this one: nothing where the checkpoint and what recipes are compared with are known already.

    Args:
        looks: at this seed: how many of its steps had come, and the time in seconds.
        began: the time at which this seed began.
        steps: of a seed.
        later_seeds: how many there are.

    Returns:
        Seconds; NaN where there are fewer than two looks, or less than `LEAST_SECONDS` between the first and the last.

    Ten seconds of preparing, then bursts of 60 steps of half a second. The second look comes with 120 steps trained:

    >>> seconds_of_rest([(1, 40.0), (61, 70.0)], began=0.0, steps=240, later_seeds=0)
    60.0
    >>> seconds_of_rest([(1, 40.0), (61, 70.0)], began=0.0, steps=240, later_seeds=1)
    190.0
    >>> seconds_of_rest([(1, 40.0)], began=0.0, steps=240, later_seeds=1)
    nan
    """
    if len(looks) < 2 or looks[-1][1] - looks[0][1] < LEAST_SECONDS:
        return math.nan
    (first, first_time), (second, _), (last, last_time) = looks[0], looks[1], looks[-1]
    step_seconds, burst = (last_time - first_time) / (last - first), second - first
    trained_first, trained_last = first - 1 + burst, last - 1 + burst
    preparing = max(first_time - began - trained_first * step_seconds, 0.0)
    return max(steps - trained_last, 0) * step_seconds + later_seeds * (preparing + steps * step_seconds)


def scored_before(data: Any, capstone: Capstone) -> Score | None:
    """The score of a recipe on the seeds of practice that the progress file has; None if another was scored last."""
    kept = getattr(progress.default_progress().state, capstone.key)
    if not kept.recipe or json.loads(kept.recipe) != data or kept.seeds != " ".join(map(str, PRACTICE_SEEDS)):
        return None
    return kept_score(kept, capstone)
