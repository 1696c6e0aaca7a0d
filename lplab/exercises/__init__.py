"""Exercises: an exercise is data, its check says what is wrong and why, a class is graded with one command.

In a notebook: ``check``, ``hint``, ``solution``, ``predict``, ``after_guess``, ``progress_of``, ``own_recipe``,
``own_meetings``. A folder of submissions is graded by the command ``lplab grade``; its work is done by
``grading/grading.py``. To read the code, begin with ``model/exercise.py`` (what an exercise is), then
``lab01/round_e4m3.py`` (one), then ``checks/judge.py`` (the four stages of a check).

>>> from lplab import exercises
>>> exercises.get("01.2").title
'Round to nearest, ties to even'
"""

from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.verdict import Counterexample, Verdict, set_view
from lplab.exercises.model.exercise import Example, Exercise, Finding, Property, Variant
from lplab.exercises.model.exercise_catalogue import get, names, of_lab
from lplab.exercises.model.questions import Question
from lplab.exercises.notebook import after_guess, check, hint, own_meetings, own_recipe, predict, solution
from lplab.exercises.progress import progress_of
from lplab.exercises.student_figures import draw_rounding
from lplab.lookup import refuse_wrong_names


def _show(verdict: Verdict) -> None:
    from lplab.exercises.display import show  # loads widgets, which are needed in a notebook only

    show(verdict)


set_view(_show)

__all__ = [
    "Counterexample",
    "Example",
    "Exercise",
    "Finding",
    "Property",
    "Question",
    "Variant",
    "Verdict",
    "after_guess",
    "check",
    "draw_rounding",
    "get",
    "hint",
    "judge",
    "names",
    "of_lab",
    "own_meetings",
    "own_recipe",
    "predict",
    "progress_of",
    "solution",
]

refuse_wrong_names(__name__)
