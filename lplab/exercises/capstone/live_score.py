"""A capstone in a notebook: a button that scores a recipe, and the field with one's own recipe in it."""

from __future__ import annotations

import json
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
from lplab.exercises.capstone.stored_field import field


class CapstoneRun(widgets.LiveRun):
    """A button that scores a recipe, and the field, which follows; a score on all seeds is kept for the report.

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
        plan, self.capstone, published = plan or capstone.plan, capstone, field(capstone=capstone)

        def steps() -> Iterator[Score]:
            for found in capstone.score_steps(json.loads(text), seeds, plan, folder):
                yield found
            costs = asdict(found.costs)
            progress.record_capstone(capstone.key, text, costs, found.gaps, found.seeds, found.diverged)

        def draw(found: Sequence[Score]) -> Any:
            return capstone.figure(published, found)

        super().__init__(steps, draw, total=capstone.steps_of(seeds, plan), name="Score my recipe", remark=remark)

    def summary(self) -> str:
        """Points on the seeds of practice, and why."""
        capstone = self.capstone
        found, marking = self.result()[-1], capstone.marking(field(capstone=capstone))
        return f"{marking.points(found):g} of {MAX_POINTS} points on these seeds. {marking.reason(found)}"


def remark(found: Sequence[Score]) -> list[str]:
    """What is wrong with a recipe as soon as it is known: its costs, a training that diverged."""
    if not found:
        return []
    last = found[-1]
    lines = [last.costs.over] if last.costs.over else []
    if last.diverged:
        lines.append(f"The training diverged on {last.diverged} of {len(last.gaps)} seeds.")
    return lines
