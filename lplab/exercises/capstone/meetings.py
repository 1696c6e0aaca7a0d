"""The capstone of lab 16 as a value: learners that meet over slow links, under a budget of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lplab.claims.framework.local_trainings import LEARNERS, STEPS
from lplab.exercises.capstone import meeting_scoring, published_meetings
from lplab.exercises.capstone.capstone_value import Capstone
from lplab.exercises.capstone.meeting_costs import BUDGET, MeetingTraffic
from lplab.exercises.capstone.meeting_recipe import recipe_from_data
from lplab.exercises.capstone.points import MAX_POINTS
from lplab.exercises.capstone.scores import Score
from lplab.exercises.model.exercise import Exercise
from lplab.exercises.model.forms import Number

ALONE, TOGETHER = "one learner alone", "a gradient in each step"
SHORT_NAMES = {name: name.partition(" (")[0] for name in published_meetings.RECIPES} | {
    ALONE: "one alone",
    TOGETHER: "in each step",
}
"""Names in the figure on a phone, by the whole names."""


def own_meetings(data: Any) -> Any:
    """A way to meet of one's own, as data; see :mod:`lplab.exercises.capstone.meeting_recipe`."""
    return recipe_from_data(data)


def advice(data: Any, costs: MeetingTraffic) -> str:
    """What keeps the budget where the costs are above: the next ``every`` that is allowed, or shorter messages.

    >>> advice({"every": 12}, MeetingTraffic(115_240.0, 86_380.0, 20))
    'With shorter messages, of at most 5,465 bytes, the budget is kept. With such messages, the next every that is \
allowed is 15, which makes 16 meetings.'
    """
    recipe = recipe_from_data(data)
    each, longest = costs.sent / costs.meetings, int(BUDGET / costs.meetings)
    shorter = f"With shorter messages, of at most {longest:,} bytes, the budget is kept."
    for every in range(recipe.every + 1, STEPS + 1):
        meetings = STEPS // every * recipe.fragments
        if STEPS % every == every % recipe.fragments == 0 and meetings * each <= BUDGET:
            name = published_meetings.published_name(replace(recipe, every=every))
            same = f" But that is {name} as it is, which has no points." if name else ""
            many = f"{meetings} {'meeting' if meetings == 1 else 'meetings'}"
            return f"{shorter} With such messages, the next every that is allowed is {every}, which makes {many}.{same}"
    return f"{shorter} With such messages, no number of meetings keeps it."


def figure(field: Sequence[Score], found: Sequence[Score]) -> Any:
    """Loss against bytes of the field, and what is known of one's own recipe: means over the seeds that are done."""
    from lplab import figures

    own, own_gap, done = None, {}, len(field[0].seeds)
    if found and found[-1].costs.sent:
        last = found[-1]
        done = len(last.gaps) or done
        # A score that the progress file kept has gaps alone.
        losses = last.losses or [
            together + gap * (alone - together)
            for place, gap in enumerate(last.gaps)
            for alone, together in [_baselines(field, place)]
        ]
        own = (last.costs.sent, float(np.mean(losses)) if losses else np.nan)
        own_gap = {"yours": last.gap} if last.gaps else {}
    points = {one.name: (one.costs.sent, float(np.mean(one.losses[:done]))) for one in field}
    gaps = {one.name: float(np.mean(one.gaps[:done])) for one in field} | own_gap
    alone, together = np.mean([_baselines(field, place) for place in range(done)], axis=0)
    return figures.byte_loss_plane(
        points,
        own,
        {ALONE: float(alone), TOGETHER: float(together)},
        name="yours",
        short=SHORT_NAMES,
        notes={name: f"gap {gap:.2f}" for name, gap in gaps.items()},
        what=f"sent by a learner in {STEPS} steps",
        per="",
        budget=BUDGET,
        height=420,
    )


def _baselines(field: Sequence[Score], place: int) -> tuple[float, float]:
    """The losses of one learner alone and of a gradient in each step on a seed, from two gaps and their losses.

    A gap is the loss on the scale that these two are the ends of.
    """
    gaps, losses = zip(*((one.gaps[place], one.losses[place]) for one in field), strict=True)
    slope, together = np.polyfit(gaps, losses, 1)
    return float(slope + together), float(together)


MEETINGS = Capstone(
    exercise=Exercise(
        id="16.5",
        version=1,
        title="A way to meet of your own",
        goal="choose when learners meet and what they send, under a budget of bytes",
        minutes=20,
        difficulty=3,
        statement=f"Give a recipe as data with which each of {LEARNERS} learners sends at most {BUDGET:,} bytes in "
        f"{STEPS} steps, and which trains as close to a gradient in each step as you can make it.",
        reference=own_meetings,
        form=Number(),
        examples=(),
        mistakes=(),
        hints=("Count what a message says about places, and how many meetings its bytes would buy.",),
        points=MAX_POINTS,
    ),
    key="meetings",
    command="lplab capstone --lab 16",
    plan=meeting_scoring.PLAN,
    costs=MeetingTraffic,
    names=tuple(published_meetings.RECIPES),
    plain=ALONE,
    data_of=published_meetings.data_of,
    checked=recipe_from_data,
    baseline=meeting_scoring.baseline,
    score_steps=meeting_scoring.score_steps,
    steps_of=meeting_scoring.steps_of,
    figure=figure,
    published=lambda data: published_meetings.published_name(recipe_from_data(data)),
    trained=f"{STEPS} steps of each of {LEARNERS} learners",
    unit="of the gain",
    compared="share of the gain, from one learner alone to a gradient in each step, that the test loss misses",
    recipes="Ways to meet of one's own",
    plain_gap=1.0,
    veil="16.a",
    advice=advice,
)
