"""Exercises: an exercise is data, its check says what is wrong and why, a class is graded with one command.

In a notebook: ``check``, ``hint``, ``solution``, ``predict``, ``progress_of``. To read the code, begin with
``exercise.py`` (what an exercise is), then ``lab01.py`` (four of them), then ``judge.py`` (the four rings of a check).

>>> from lplab import exercises
>>> exercises.get("01.2").title
'Round to nearest, ties to even'
"""

from .catalogue import get, names, of_lab
from .exercise import Example, Exercise, Finding, Property, Variant
from .judge import judge
from .notebook import check, hint, solution
from .progress import progress_of
from .questions import Question, predict
from .verdict import Miss, Verdict
from .yours import draw_rounding

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
