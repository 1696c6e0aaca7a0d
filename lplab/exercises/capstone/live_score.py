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
from lplab.widgets.controls import line, set_text

LEAST_SECONDS = 1.0  # of a recipe's own steps before the time that is left is told


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
        self._known = known = known_score(data, seeds, capstone) if is_practice else None
        total = capstone.steps_of(seeds, own_plan)
        self._seeds, self._length, self._each = len(seeds), own_plan.steps, (total - 1) // len(seeds)
        self._began: list[float] = []  # when each seed began, in seconds after the first step
        self._shown: list[tuple[int, float]] = []  # of the seed that is trained: steps of the recipe, and when
        earlier = scored_before(data, capstone) if is_practice and known is None else None

        def steps() -> Iterator[Score]:
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
            return capstone.figure(published, found or [each for each in (earlier,) if each])

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
        self.result_line = line("", "lp-result", "lp-live")
        shown = [self.row, self.status, self.result_line, self.error_line, self.remark_line, self.figure]
        self.children = (*shown, self._control_group)
        set_text(self.remark_line, *remark(()))
        set_text(self.result_line, f"Scored before: {self._told(earlier)}" if earlier else "")

    def start(self) -> None:
        """Start or restart in the background; does nothing while it runs."""
        if self.state != "running":
            self._began, self._shown = [], []
            set_text(self.result_line, "")
        super().start()

    def summary(self) -> str:
        """Nothing: points and reason stand in a line of their own, which is larger."""
        set_text(self.result_line, self._told(self.result()[-1]))
        return ""

    def counted(self) -> str:
        """The seeds that are done, and what is trained on each."""
        if self._known is not None:
            return "nothing was trained, as the gaps of this recipe are known"
        done = len(self._results[-1].gaps) if self._results else 0
        return f"{done} of {self._seeds} seeds, with {self.capstone.trained} on each"

    def seconds_left(self, seconds: float) -> float:
        """How long the rest takes, from the steps of the recipe itself; NaN before two of these are known.

        Of a seed, the checkpoint and what recipes are compared with may be known already, and then take no time. A
        learner's steps come in bursts, one for each meeting, so the time of a step is taken from burst to burst.
        """
        done = len(self._results[-1].gaps)
        if done == self._seeds:
            return math.nan
        if len(self._began) == done:
            self._began.append(seconds if done else 0.0)
            self._shown = []
        before = 1 + sum(len(each.gaps) < done for each in self._results)
        own = len(self._results) - before - (self._each - 1 - self._length)
        if own < 1:
            return math.nan
        self._shown.append((own, seconds))
        (first, then), (second, _) = self._shown[0], self._shown[min(1, len(self._shown) - 1)]
        if seconds - then < LEAST_SECONDS:
            return math.nan
        step, burst = (seconds - then) / (own - first), second - first
        preparing = max(then - self._began[done] - step * burst, 0.0)
        later = self._seeds - 1 - done
        return step * max(self._length + 1 - own - burst, 0) + later * (preparing + step * self._length)

    def _told(self, found: Score) -> str:
        """Points on the seeds of practice, and why."""
        marking = self.capstone.marking(field(capstone=self.capstone))
        return f"{marking.points(found):g} of {MAX_POINTS} points on these seeds. {marking.reason(found)}"


def scored_before(data: Any, capstone: Capstone) -> Score | None:
    """The score of a recipe on the seeds of practice that the progress file has; None if another was scored last."""
    kept = getattr(progress.default_progress().state, capstone.key)
    if not kept.recipe or json.loads(kept.recipe) != data or kept.seeds != " ".join(map(str, PRACTICE_SEEDS)):
        return None
    return kept_score(kept, capstone)
