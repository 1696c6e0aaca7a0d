"""Lab 10, ScaleCom: a choice that commutes with the sum, a slow residual, how alike learners are."""

from __future__ import annotations

from lplab.exercises.lab10.leaders_choice import LEADERS_CHOICE
from lplab.exercises.lab10.leaders_choice import draw_choice as draw_choice
from lplab.exercises.lab10.next_memory import NEXT_MEMORY
from lplab.exercises.lab10.similarity import SIMILARITY
from lplab.exercises.lab10.similarity import draw_similarity as draw_similarity
from lplab.exercises.model.questions import Question


def sum_of_own_choices() -> float:
    """Percent of the weights in the sum of 64 learners' own choices, 1 of 112 each: mean over a recorded training.

    The learning rate is 1, with which the network is well trained.
    """
    from lplab.recordings import LearnerSetting, many_learners

    return round(100 * float(many_learners(LearnerSetting("topk", 64, 112, learning_rate=1.0)).union.mean()), 1)


QUESTIONS = (
    Question(
        "10.a",
        "Each of 64 learners sends 0.9 % of its gradients. How many percent of the weights does the sum of all messages hold?",
        sum_of_own_choices,
        unit="%",
        limits=(0, 100),
        because="If all choices were independent, it would be 1 − (1 − 1/112)⁶⁴, nearly 44 %. If all were equal, it would be 0.9 %. The choices overlap in part.",
    ),
)
EXERCISES = (LEADERS_CHOICE, NEXT_MEMORY, SIMILARITY)
