"""Lab 09, AdaComp: the residual, the selection bin by bin, the message byte by byte."""

from __future__ import annotations

from lplab.exercises.lab09.residual import RESIDUAL
from lplab.exercises.lab09.selection import SELECT
from lplab.exercises.lab09.selection import draw_selection as draw_selection
from lplab.exercises.lab09.wire import PACK
from lplab.exercises.model.questions import Question


def share_sent() -> float:
    """Percent of the dense layer's elements that AdaComp with bins of 500 sends in a step: mean of 240 steps."""
    from lplab.recordings.adacomp_runs import adacomp_recording

    return round(100 * float(adacomp_recording().history("dense").share.mean()), 1)


QUESTIONS = (
    Question(
        "09.a",
        "How many percent of the dense layer's gradient does AdaComp send in a step, on average?",
        share_sent,
        unit="%",
        limits=(0, 100),
        because="About seven elements of each bin of 500. What is not sent waits in the residual, and most of it is sent later.",
    ),
)
EXERCISES = (RESIDUAL, SELECT, PACK)
