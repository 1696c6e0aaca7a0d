"""A capstone as a value: all that scoring a class, the field, the command and the notebook need to know of one.

There are two: :data:`lplab.exercises.capstone.few_bits_capstone.FEW_BITS` of lab 14 and
:data:`lplab.exercises.capstone.meetings.MEETINGS` of lab 16. What they share takes one of them as an argument.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lplab.claims.framework.branches import BranchPlan
from lplab.exercises.capstone.points import Marking, marking_of
from lplab.exercises.capstone.scores import RecipeCosts, Score
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model.exercise import Exercise


@dataclass(frozen=True)
class Capstone:
    """What is particular to a capstone.

    Attributes:
        exercise: it is graded as.
        key: its part of a report and of the progress file, and the folder of its field.
        command: which ``lplab`` command scores one recipe and measures the field.
        plan: of the trainings.
        costs: the class of its costs, of the protocol :class:`~lplab.exercises.capstone.scores.RecipeCosts`.
        names: of the field's recipes, in order.
        plain: the name of the recipe that more than the points for the budget are counted from.
        plain_gap: its gap; None: as the field has it.
        data_of: the data of a recipe of the field.
        checked: the recipe in data; ValueError with one line if there is none.
        baseline: what recipes are compared with, of a seed, a plan and a folder: numbers as JSON has them.
        score_steps: yields what is known of a score, of data, seeds, plan, folder and baselines by seed.
        steps_of: how many scores that are, of seeds and plan.
        figure: draws the field and a score, of both.
        published: the name of the recipe of the field that does what data say; "" if none does.
        trained: what is trained on a seed, in words.
        unit: of a gap, as in "a gap of +0.02 bits".
        compared: what the gaps of the overview are, in a sentence.
        recipes: of a class, as a heading.
        veil: the question whose answer the field gives away; "" for none.
        advice: what would keep the budget, of the data of a recipe and costs that are above it; "" where nothing is
            known.
    """

    exercise: Exercise
    key: str
    command: str
    plan: BranchPlan
    costs: type[RecipeCosts]
    names: Sequence[str]
    plain: str
    data_of: Callable[[str], dict[str, Any]]
    checked: Callable[[Any], Any]
    baseline: Callable[[int, BranchPlan, str | Path | None], Any]
    score_steps: Callable[..., Iterator[Score]]
    steps_of: Callable[[Sequence[int], BranchPlan], int]
    figure: Callable[[Sequence[Score], Sequence[Score]], Any]
    published: Callable[[Any], str]
    trained: str
    unit: str
    compared: str
    recipes: str = "Recipes of one's own"
    plain_gap: float | None = None
    veil: str = ""
    advice: Callable[[Any, Any], str] = lambda data, costs: ""

    @property
    def id(self) -> str:
        """The id of the exercise as which the capstone is graded."""
        return self.exercise.id

    @property
    def call(self) -> str:
        """The function with which a notebook scores a recipe."""
        return self.exercise.name

    def score(self, data: Any, *some: Any) -> Score:
        """The score of a recipe on all seeds; arguments as for ``score_steps``."""
        return list(self.score_steps(data, *some))[-1]

    def over(self, data: Any, costs: RecipeCosts) -> str:
        """A line on costs that are above the budget, with what a recipe could change; "" if they are not above."""
        return f"{costs.over} {self.advice(data, costs)}".strip() if costs.over else ""

    def marking(self, field: Iterable[Score]) -> Marking:
        """How points follow from a gap, from the scores of the field; ValueError if they make no scale."""
        return marking_of(field, self.plain, self.unit, self.plain_gap)

    def as_answer(self, data: Mapping[str, Any]) -> Answer:
        """A recipe as an answer; the order of its keys makes no difference."""
        return Answer(json.dumps(data, sort_keys=True), self.call)
