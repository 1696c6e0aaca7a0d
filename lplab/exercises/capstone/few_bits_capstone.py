"""The capstone of lab 14 as a value: training with few bits, under a budget of bits and seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lplab.exercises.capstone import published_recipes, scoring
from lplab.exercises.capstone.capstone_value import Capstone
from lplab.exercises.capstone.costs import BUDGET, Costs
from lplab.exercises.capstone.points import MAX_POINTS
from lplab.exercises.capstone.scores import Score
from lplab.exercises.model.exercise import Exercise
from lplab.exercises.model.forms import Number


def own_recipe(data: Any) -> Any:
    """A recipe of one's own, as data; see :mod:`lplab.training.recipe.recipe_data`."""
    return scoring.checked_recipe(data)


def figure(field: Sequence[Score], found: Sequence[Score]) -> Any:
    """The field with what is known of one's own recipe."""
    from lplab import figures

    def point(one: Score) -> Any:
        return figures.RecipePoint(one.name, one.costs.bits, one.costs.seconds, one.gap)

    own = point(found[-1]) if found else None
    return figures.recipe_field([*map(point, field)], own, budget=(BUDGET.bits, BUDGET.seconds))


FEW_BITS = Capstone(
    exercise=Exercise(
        id="14.4",
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
    ),
    key="capstone",
    command="lplab capstone",
    plan=scoring.PLAN,
    costs=Costs,
    names=tuple(published_recipes.RECIPES),
    plain=published_recipes.PLAIN,
    data_of=published_recipes.data_of,
    checked=scoring.checked_recipe,
    baseline=scoring.float32_loss,
    score_steps=scoring.score_steps,
    steps_of=scoring.steps_of,
    figure=figure,
    published=lambda data: published_recipes.published_name(scoring.checked_recipe(data), scoring.PLAN.steps),
    trained=f"{scoring.PLAN.steps} steps",
    unit="bits",
    compared="training loss above float32 in bits",
    veil="14.a",
)
