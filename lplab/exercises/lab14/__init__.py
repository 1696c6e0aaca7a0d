"""Lab 14, four bits again: a Hadamard pair, one weight for both passes, the slope of a rounding."""

from __future__ import annotations

from lplab.exercises.lab14.hadamard_pair import HADAMARD_PAIR
from lplab.exercises.lab14.hadamard_pair import draw_pair as draw_pair
from lplab.exercises.lab14.one_weight import ONE_WEIGHT
from lplab.exercises.lab14.one_weight import draw_two_weights as draw_two_weights
from lplab.exercises.lab14.slope import SLOPE_AND_ERROR
from lplab.exercises.lab14.slope import draw_slopes as draw_slopes
from lplab.exercises.model.questions import Question


def left_with_a_wide_forward_pass() -> float:
    """Percent of plain NVFP4's gap to float32 that is left if the forward pass is in BF16: mean over the recorded seeds."""
    from lplab.recordings.ingredient_runs import PLAIN, Ingredients, ingredient_branches

    recorded = ingredient_branches()
    left, whole = (recorded.gap(each).mean() for each in (Ingredients("bf16", "nvfp4"), PLAIN["nvfp4"]))
    return round(100 * float(left / whole), 1)


QUESTIONS = (
    Question(
        "14.a",
        "Only the forward pass is in BF16 (16 bits). How many percent of the gap are left?",
        left_with_a_wide_forward_pass,
        unit="%",
        limits=(-100, 200),
        because="In our network, nearly all of the gap comes from the forward pass, as NVIDIA reports for its own. A likely reason is that errors of the forward pass change the function that the network computes, while errors of the gradients change the way to it, and many steps average them. The question is open. Kandemir and others (2026) report for a network of 8 billion parameters that dW in four bits does most of the harm.",
    ),
)
EXERCISES = (HADAMARD_PAIR, ONE_WEIGHT, SLOPE_AND_ERROR)
