"""The capstone of lab 16 as a value: learners that meet over slow links, under a budget of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab.claims.framework.local_trainings import LEARNERS, STEPS
from lplab.exercises.capstone import meeting_scoring, published_meetings
from lplab.exercises.capstone.capstone_value import Capstone
from lplab.exercises.capstone.meeting_costs import BUDGET, MeetingTraffic
from lplab.exercises.capstone.points import MAX_POINTS
from lplab.exercises.capstone.scores import Score
from lplab.exercises.model.exercise import Exercise
from lplab.exercises.model.forms import Number


def own_meetings(data: Any) -> Any:
    """A way to meet of one's own, as data; see :mod:`lplab.exercises.capstone.meeting_recipe`."""
    return meeting_scoring.checked_meetings(data)


def figure(field: Sequence[Score], found: Sequence[Score]) -> Any:
    """Loss against bytes of the field, and what is known of one's own recipe: means over the seeds that are done."""
    from lplab import figures

    own, done = None, len(field[0].seeds)
    if found and found[-1].costs.sent:
        last = found[-1]
        done = len(last.gaps) or done
        own = (last.costs.sent, float(np.mean(last.losses)) if last.losses else np.nan)
    points = {one.name: (one.costs.sent, float(np.mean(one.losses[:done]))) for one in field}
    alone, together = np.mean([_baselines(field, place) for place in range(done)], axis=0)
    return figures.byte_loss_plane(
        points,
        own,
        {"one learner alone": float(alone), "a gradient in each step": float(together)},
        name="yours",
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
    plain="one learner alone",
    data_of=published_meetings.data_of,
    checked=meeting_scoring.checked_meetings,
    baseline=meeting_scoring.baseline,
    score_steps=meeting_scoring.score_steps,
    steps_of=meeting_scoring.steps_of,
    figure=figure,
    unit="of the way",
    compared="share of the way from a gradient in each step to one learner alone at which the test loss lies",
    recipes="Ways to meet of one's own",
    plain_gap=1.0,
    veil="16.a",
)
