"""The capstones among the exercises: what is graded like an exercise, but scored in place of run.

Their answers are recipes as JSON, under the name of the function that labs call with a recipe. So they are collected,
merged, weighed and listed as all answers are; only the judge is another one (:class:`CapstoneJudge`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lplab.claims.framework.branches import BranchPlan
from lplab.exercises.capstone import stored_field
from lplab.exercises.capstone.capstone_value import Capstone
from lplab.exercises.capstone.few_bits_capstone import FEW_BITS
from lplab.exercises.capstone.points import AT_BEST, MAX_POINTS, Marking
from lplab.exercises.capstone.score_process import NotScoredError, baselines, field_apart, score_apart
from lplab.exercises.capstone.scores import HELD_BACK_SEEDS, Score, check_seeds
from lplab.exercises.checks.judge import Judge
from lplab.exercises.checks.verdict import FAILED, NOT_JUDGED, PASSED, Verdict
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model.exercise import STAGES, Exercise
from lplab.training.recipe.recipe_data import parse_json

SCORE_LINE = "Costs {costs}; gaps on the seeds in {unit}: {gaps}."
READ_BACK = re.compile(r"Costs (.*); gaps on the seeds in .*: (.*)\.")


def as_answer(data: Mapping[str, Any]) -> Answer:
    """A recipe of lab 14 as an answer; the order of its keys makes no difference.

    >>> as_answer({"weight": "nvfp4", "activation": "nvfp4"}).source
    '{"activation": "nvfp4", "weight": "nvfp4"}'
    """
    return FEW_BITS.as_answer(data)


@dataclass(frozen=True)
class CapstoneJudge:
    """Judges recipes by their scores, and hands all other answers to another judge.

    Attributes:
        others: the other judge, which may be that of another capstone.
        known: what recipes are compared with, on the seeds that they are scored with.
        field: the scores of the published recipes on these seeds.
        plan, folder: of the trainings; by default the capstone's.
        problem: why no recipe can be scored here, such as that PyTorch is missing; "" if it can.
        capstone: whose recipes these are.
    """

    others: Judge
    known: Mapping[int, Any]
    field: tuple[Score, ...]
    plan: BranchPlan | None = None
    folder: str | None = None
    problem: str = ""
    capstone: Capstone = FEW_BITS

    @property
    def marking(self) -> Marking:
        """How points follow from a gap."""
        return self.capstone.marking(self.field)

    def __call__(self, exercise: Exercise, answer: Answer) -> Verdict:
        """The verdict on an answer. One that is no recipe of a capstone is told so, and earns nothing."""
        if exercise.id != self.capstone.id:
            return self.others(exercise, answer)
        try:
            data = parse_json(answer.source)
            self.capstone.checked(data)
        except ValueError as problem:
            return _verdict(exercise, FAILED, STAGES[0], f"This is no recipe: {problem}.", 0.0)
        try:
            if self.problem:
                raise NotScoredError(self.problem)
            found = score_apart(data, self.known, self.plan, self.folder, capstone=self.capstone)
        except NotScoredError as problem:
            return _verdict(exercise, NOT_JUDGED, "", f"The recipe could not be scored: {problem}.", 0.0)
        return verdict_of(found, self.marking, self.capstone)


def judge_of(others: Judge, seeds: Sequence[int] = (), jobs: int = 1, capstone: Capstone = FEW_BITS) -> CapstoneJudge:
    """The judge of a class; it trains what recipes are compared with, and the field where it is not stored.

    Where that cannot be done, recipes are not judged, and all other exercises are.

    Args:
        others: judges all other exercises.
        seeds: one to ten; by default :data:`~lplab.exercises.capstone.scores.HELD_BACK_SEEDS`.
        jobs: trainings at the same time.
        capstone: whose recipes are judged.

    Raises:
        ValueError: the seeds make no sense.
    """
    seeds = tuple(seeds) or HELD_BACK_SEEDS
    check_seeds(seeds)
    try:
        known = baselines(seeds, capstone=capstone)
        if stored_field.has(seeds, capstone):
            field = stored_field.field(seeds, capstone=capstone)
        else:
            field = field_apart(known, jobs, capstone=capstone)
        capstone.marking(field)
    except (NotScoredError, ValueError) as problem:
        return CapstoneJudge(others, {}, (), problem=str(problem), capstone=capstone)
    return CapstoneJudge(others, known, field, capstone=capstone)


def verdict_of(found: Score, marking: Marking, capstone: Capstone = FEW_BITS) -> Verdict:
    """The verdict on a recipe that was scored; it passes from the points of the best published recipe on."""
    points = marking.points(found)
    passed = points >= AT_BEST
    gaps = " ".join(f"{gap:+.6f}" for gap in found.gaps)
    line = SCORE_LINE.format(costs=found.costs.line, unit=capstone.unit, gaps=gaps)
    status, stage = (PASSED, "") if passed else (FAILED, STAGES[-1])
    return _verdict(capstone.exercise, status, stage, marking.reason(found), points, line)


def score_in(lines: Sequence[str], capstone: Capstone = FEW_BITS) -> tuple[Any, tuple[float, ...]] | None:
    """Costs and gaps from the lines of a verdict; None where the recipe was not scored.

    >>> from lplab.exercises.capstone.costs import Costs
    >>> line = SCORE_LINE.format(costs=Costs(5.25, 0.5485).line, unit="bits", gaps="+0.041000 +0.043000")
    >>> score_in(["Exercise", line])
    (Costs(bits=5.25, seconds=0.5485), (0.041, 0.043))
    """
    for line in lines:
        if (read := READ_BACK.fullmatch(line)) and (costs := capstone.costs.read(read[1])):
            return costs, tuple(map(float, read[2].split()))
    return None


def _verdict(exercise: Exercise, status: str, stage: str, reason: str, points: float, score_line: str = "") -> Verdict:
    lines = [f"Exercise {exercise.id}: {points:g} of {MAX_POINTS} points.", reason, score_line]
    lines += ["Change the recipe and score it again." if stage else ""]
    return Verdict(
        exercise.id, exercise.version, exercise.title, status, stage, tuple(filter(None, lines)), points, MAX_POINTS
    )
