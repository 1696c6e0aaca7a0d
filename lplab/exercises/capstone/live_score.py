"""The capstone in a notebook: a button that scores a recipe, and the field with one's own recipe as a star."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lplab import figures, widgets
from lplab.claims.framework.branches import BranchPlan
from lplab.exercises import progress
from lplab.exercises.capstone.points import MAX_POINTS, marking_of
from lplab.exercises.capstone.scoring import BUDGET, PLAN, PRACTICE_SEEDS, Score, score_steps, steps_of
from lplab.exercises.capstone.stored_field import field


class CapstoneRun(widgets.LiveRun):
    """A button that scores a recipe, and the field, which follows; a score on all seeds is kept for the report.

    Args:
        data: of a recipe that :func:`~lplab.exercises.capstone.scoring.checked_recipe` takes.
        seeds, plan, folder: as for :func:`lplab.exercises.capstone.score`.

    """

    def __init__(
        self,
        data: Any,
        seeds: Sequence[int] = PRACTICE_SEEDS,
        plan: BranchPlan = PLAN,
        folder: str | Path | None = None,
    ) -> None:
        text = json.dumps(data, ensure_ascii=False)  # a copy: the cell may change the dictionary while it is scored

        def steps() -> Iterator[Score]:
            for found in score_steps(json.loads(text), seeds, plan, folder):
                yield found
            costs = found.costs
            progress.record_capstone(text, costs.bits, costs.seconds, found.gaps, found.seeds, found.diverged)

        super().__init__(steps, draw, total=steps_of(seeds, plan), name="Score my recipe", remark=remark)

    def summary(self) -> str:
        """Points on the seeds of practice, and why."""
        found, marking = self.result()[-1], marking_of(field())
        return f"{marking.points(found):g} of {MAX_POINTS} points on these seeds. {marking.reason(found)}"


def draw(found: Sequence[Score]) -> Any:
    """The field with what is known of one's own recipe."""
    points = [figures.RecipePoint(one.name, one.costs.bits, one.costs.seconds, one.gap) for one in field()]
    own = None
    if found:
        last = found[-1]
        own = figures.RecipePoint(last.name, last.costs.bits, last.costs.seconds, last.gap)
    return figures.recipe_field(points, own, budget=(BUDGET.bits, BUDGET.seconds))


def remark(found: Sequence[Score]) -> list[str]:
    """What is wrong with a recipe as soon as it is known: its costs, a training that diverged."""
    if not found:
        return []
    last, lines = found[-1], []
    if not last.keeps_budget:
        costs = f"{last.costs.bits:.2f} bits a number and {1e3 * last.costs.seconds:.0f} ms a step"
        lines.append(f"Over the budget of {BUDGET.bits:g} bits and {1e3 * BUDGET.seconds:.0f} ms: {costs}.")
    if last.diverged:
        lines.append(f"The training diverged on {last.diverged} of {len(last.gaps)} seeds.")
    return lines
