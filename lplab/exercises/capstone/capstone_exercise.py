"""The capstone among the exercises: what is graded like an exercise, but scored in place of run.

Its answers are recipes as JSON, under the name of the function that labs call with a recipe. So they are collected,
merged, weighed and listed as all answers are; only the judge is another one (:class:`CapstoneJudge`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lplab.claims.framework.branches import BranchPlan
from lplab.exercises.capstone import stored_field
from lplab.exercises.capstone.costs import Costs
from lplab.exercises.capstone.points import AT_BEST, MAX_POINTS, Marking, marking_of
from lplab.exercises.capstone.score_process import NotScoredError, field_apart, float32_losses, score_apart
from lplab.exercises.capstone.scoring import BUDGET, HELD_BACK_SEEDS, PLAN, Score, check_seeds, checked_recipe
from lplab.exercises.checks.judge import Judge
from lplab.exercises.checks.verdict import FAILED, NOT_JUDGED, PASSED, Verdict
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model.exercise import STAGES, Exercise
from lplab.exercises.model.exercise_catalogue import CAPSTONE
from lplab.exercises.model.forms import Number
from lplab.training.recipe.recipe_data import parse_json

SCORE_LINE = "Costs {bits:.4f} bits a number and {ms:.3f} ms a step; gaps on the seeds in bits: {gaps}."
READ_BACK = re.compile(r"Costs ([\d.]+) bits a number and ([\d.]+) ms a step; gaps on the seeds in bits: (.*)\.")


def own_recipe(data: Any) -> Any:
    """A recipe of one's own, as data; see :mod:`lplab.training.recipe.recipe_data`."""
    return checked_recipe(data)


EXERCISE = Exercise(
    id=CAPSTONE,
    version=1,
    title="A recipe of your own",
    goal="choose formats, blocks and roundings under a budget",
    minutes=20,
    difficulty=3,
    statement=f"Give a recipe as data that needs at most {BUDGET.bits:g} bits a number and "
    f"{1e3 * BUDGET.seconds:.0f} ms a step, and trains as close to float32 as you can make it.",
    reference=own_recipe,
    form=Number(),
    examples=(),
    mistakes=(),
    hints=("Most of the gap is the forward pass: spend the bits there.",),
    points=MAX_POINTS,
)


def as_answer(data: Mapping[str, Any]) -> Answer:
    """A recipe as an answer; the order of its keys makes no difference.

    >>> as_answer({"weight": "nvfp4", "activation": "nvfp4"}).source
    '{"activation": "nvfp4", "weight": "nvfp4"}'
    """
    return Answer(json.dumps(data, sort_keys=True), own_recipe.__name__)


@dataclass(frozen=True)
class CapstoneJudge:
    """Judges recipes by their scores, and hands all other answers to another judge.

    Attributes:
        others: the other judge.
        float32: the losses of float32 on the seeds that recipes are scored with.
        field: the scores of the published recipes on these seeds.
        plan, folder: of the branches.
        problem: why no recipe can be scored here, such as that PyTorch is missing; "" if it can.
    """

    others: Judge
    float32: Mapping[int, float]
    field: tuple[Score, ...]
    plan: BranchPlan = PLAN
    folder: str | None = None
    problem: str = ""

    @property
    def marking(self) -> Marking:
        """How points follow from a gap."""
        return marking_of(self.field)

    def __call__(self, exercise: Exercise, answer: Answer) -> Verdict:
        """The verdict on an answer. One that is no recipe of a capstone is told so, and earns nothing."""
        if exercise.id != CAPSTONE:
            return self.others(exercise, answer)
        try:
            data = parse_json(answer.source)
            checked_recipe(data)
        except ValueError as problem:
            return _verdict(FAILED, STAGES[0], f"This is no recipe: {problem}.", 0.0)
        try:
            if self.problem:
                raise NotScoredError(self.problem)
            found = score_apart(data, self.float32, self.plan, self.folder)
        except NotScoredError as problem:
            return _verdict(NOT_JUDGED, "", f"The recipe could not be scored: {problem}.", 0.0)
        return verdict_of(found, self.marking)


def judge_of(others: Judge, seeds: Sequence[int] = (), jobs: int = 1) -> CapstoneJudge:
    """The judge of a class; it trains float32, and the field where it is not stored for these seeds.

    Where that cannot be done, recipes are not judged, and all other exercises are.

    Args:
        others: judges all other exercises.
        seeds: one to ten; by default :data:`~lplab.exercises.capstone.scoring.HELD_BACK_SEEDS`.
        jobs: trainings at the same time.

    Raises:
        ValueError: the seeds make no sense.
    """
    seeds = tuple(seeds) or HELD_BACK_SEEDS
    check_seeds(seeds)
    try:
        float32 = float32_losses(seeds)
        field = stored_field.field(seeds) if stored_field.has(seeds) else field_apart(float32, jobs)
        marking_of(field)
    except (NotScoredError, ValueError) as problem:
        return CapstoneJudge(others, {}, (), problem=str(problem))
    return CapstoneJudge(others, float32, field)


def verdict_of(found: Score, marking: Marking) -> Verdict:
    """The verdict on a recipe that was scored; it passes from the points of the best published recipe on."""
    points = marking.points(found)
    passed = points >= AT_BEST
    gaps = " ".join(f"{gap:+.6f}" for gap in found.gaps)
    line = SCORE_LINE.format(bits=found.costs.bits, ms=1e3 * found.costs.seconds, gaps=gaps)
    return _verdict(PASSED if passed else FAILED, "" if passed else STAGES[-1], marking.reason(found), points, line)


def score_in(lines: Sequence[str]) -> tuple[Costs, tuple[float, ...]] | None:
    """Costs and gaps from the lines of a verdict; None where the recipe was not scored.

    >>> line = SCORE_LINE.format(bits=5.25, ms=548.5, gaps="+0.041000 +0.043000")
    >>> score_in(["Exercise", line])
    (Costs(bits=5.25, seconds=0.5485), (0.041, 0.043))
    """
    for line in lines:
        if read := READ_BACK.fullmatch(line):
            return Costs(float(read[1]), float(read[2]) / 1e3), tuple(map(float, read[3].split()))
    return None


def _verdict(status: str, stage: str, reason: str, points: float, score_line: str = "") -> Verdict:
    lines = [f"Exercise {CAPSTONE}: {points:g} of {MAX_POINTS} points.", reason, score_line]
    lines += ["Change the recipe and score it again." if stage else ""]
    return Verdict(
        CAPSTONE, EXERCISE.version, EXERCISE.title, status, stage, tuple(filter(None, lines)), points, MAX_POINTS
    )
