"""The capstones: a recipe of one's own, given as data, under a budget, scored by its gap on several seeds.

Lab 14's is about bits and seconds, lab 16's about bytes. To read the code, begin with ``capstone_value.py`` (what a
capstone is, as a value) and ``scores.py`` (how a score is found). Each then has its costs, its scoring, its published
recipes, and the value itself: ``costs.py``, ``scoring.py``, ``published_recipes.py`` and ``few_bits_capstone.py`` of
lab 14; ``meeting_costs.py``, ``meeting_recipe.py``, ``meeting_scoring.py``, ``published_meetings.py`` and
``meetings.py`` of lab 16. All else takes one of the values: ``stored_field.py`` (the recipes to compare with),
``points.py``, ``capstone_exercise.py`` and ``score_process.py`` (they judge the recipes of a class) and
``live_score.py`` (what a lab shows). The names below are those of lab 14.

>>> from lplab.exercises import capstone
>>> capstone.start_from("plain MXFP4")["activation"]
'mxfp4'
"""

from lplab.exercises.capstone.costs import BUDGET, Budget
from lplab.exercises.capstone.points import MAX_POINTS, Marking, marking_of
from lplab.exercises.capstone.published_recipes import data_of as start_from
from lplab.exercises.capstone.scores import HELD_BACK_SEEDS, PRACTICE_SEEDS, Score
from lplab.exercises.capstone.scoring import PLAN, score, score_steps
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
