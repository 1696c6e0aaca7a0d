"""Exercises: an exercise is data, its check says what is wrong and why, a class is graded with one command.

In a notebook: ``check``, ``hint``, ``solution``, ``predict``, ``progress_of``. To read the code, begin with
``exercise.py`` (what an exercise is), then ``lab01/round_e4m3.py`` (one), then ``checks/judge.py`` (the four rings).

>>> from lplab import exercises
>>> exercises.get("01.2").title
'Round to nearest, ties to even'
"""

from lplab.exercises.catalogue import get, names, of_lab
from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.verdict import Miss, Verdict
from lplab.exercises.exercise import Example, Exercise, Finding, Property, Variant
from lplab.exercises.notebook import check, hint, solution
from lplab.exercises.progress import progress_of
from lplab.exercises.questions import Question, predict
from lplab.exercises.yours import draw_rounding

__all__ = [
    "Example",
    "Exercise",
    "Finding",
    "Miss",
    "Property",
    "Question",
    "Variant",
    "Verdict",
    "check",
    "draw_rounding",
    "get",
    "hint",
    "judge",
    "names",
    "of_lab",
    "predict",
    "progress_of",
    "solution",
]
