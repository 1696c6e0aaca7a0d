"""The capstone: a recipe of one's own, given as data, under a budget of bits and seconds, scored by its gap to float32.

To read the code, begin with ``costs.py`` (bits and seconds), then ``scoring.py`` (the gap),
``published_recipes.py`` and ``stored_field.py`` (the recipes to compare with), and ``points.py``.
``capstone_exercise.py`` and ``score_process.py`` judge the recipes of a class, ``live_score.py`` is what the lab shows.

>>> from lplab.exercises import capstone
>>> capstone.start_from("plain MXFP4")["activation"]
'mxfp4'
"""

from lplab.exercises.capstone.points import MAX_POINTS, Marking, marking_of
from lplab.exercises.capstone.published_recipes import data_of as start_from
from lplab.exercises.capstone.scoring import (
    BUDGET,
    HELD_BACK_SEEDS,
    PLAN,
    PRACTICE_SEEDS,
    Budget,
    Score,
    score,
    score_steps,
)
from lplab.exercises.capstone.stored_field import field

__all__ = [
    "BUDGET",
    "HELD_BACK_SEEDS",
    "MAX_POINTS",
    "PLAN",
    "PRACTICE_SEEDS",
    "Budget",
    "Marking",
    "Score",
    "field",
    "marking_of",
    "score",
    "score_steps",
    "start_from",
]
