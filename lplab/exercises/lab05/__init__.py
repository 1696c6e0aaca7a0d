"""Lab 05, FP8, and why sums break first: chunks, their bound, updates with a coin, and Kahan's second register."""

from __future__ import annotations

from lplab.exercises.lab05.best_chunk import BOUND
from lplab.exercises.lab05.chunked_dot import DOT
from lplab.exercises.lab05.chunked_dot import draw_chunked as draw_chunked
from lplab.exercises.lab05.kahan import KAHAN
from lplab.exercises.lab05.unbiased_update import UPDATE
from lplab.exercises.model.questions import Question

NUMBERS = 65_536


def where_it_stops() -> float:
    """The sum of 65,536 numbers of mean 1 and standard deviation 1 in a register of 1-6-9, without chunks."""
    from lplab import arithmetic
    from lplab.exercises.lab05.rounding_169 import numbers_169

    return float(arithmetic.sum(numbers_169(NUMBERS, 0), "dlfloat16"))


QUESTIONS = (
    Question(
        "05.a",
        "Where does the sum of 65,536 numbers of mean 1 stop?",
        where_it_stops,
        because="From 4,096 on the register goes in steps of 8, and no number here is as large as half of that.",
    ),
)
EXERCISES = (DOT, BOUND, UPDATE, KAHAN)
