"""Lab 16, training across slow links: the outer step, a round of SparseLoCo, the bits of a message, who divides."""

from __future__ import annotations

from lplab.exercises.lab16.aggregate import TWO_MEANS
from lplab.exercises.lab16.aggregate import draw_means as draw_means
from lplab.exercises.lab16.message_bits import MESSAGE_BITS
from lplab.exercises.lab16.message_bits import draw_message_bits as draw_message_bits
from lplab.exercises.lab16.outer_step import OUTER_STEP
from lplab.exercises.lab16.outer_step import draw_meetings as draw_meetings
from lplab.exercises.lab16.sparse_round import SPARSE_ROUND
from lplab.exercises.lab16.sparse_round import draw_rounds as draw_rounds
from lplab.exercises.model.questions import Question

EXERCISES = (OUTER_STEP, SPARSE_ROUND, MESSAGE_BITS, TWO_MEANS)


def seconds_of_an_exchange() -> float:
    """Seconds that four learners exchange gradients over 100 Mb/s, in each step, by the simulator."""
    from lplab.hardware import Cluster, compare_methods

    (found,) = compare_methods("gpt", Cluster("h100", 4, "home_100m"), batch=32, methods=("ddp",))
    return round(float(found["communication_seconds"]), 1)


QUESTIONS = (
    Question(
        "16.a",
        "Four learners at home add their gradients in each step. How many seconds does it take?",
        seconds_of_an_exchange,
        unit="seconds",
        limits=(0, 1000),
        because="A gradient of 124 million numbers in 16 bits has 249 MB. On a ring of four, each learner sends 1.5 times as much, 373 MB. A link of 100 Mb/s carries 12.5 MB a second, so this takes 30 s. The rest is latency.",
    ),
)
