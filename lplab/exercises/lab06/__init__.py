"""Lab 06, two 8-bit formats: the best bias for a tensor, delayed scaling, and re-tuned batch norms."""

from __future__ import annotations

from lplab.exercises.lab06.best_bias import BIAS_EXERCISE
from lplab.exercises.lab06.best_bias import draw_biases as draw_biases
from lplab.exercises.lab06.delayed_ranges import delayed_table as delayed_table
from lplab.exercises.lab06.delayed_scales import DELAYED
from lplab.exercises.lab06.delayed_scales import draw_delayed as draw_delayed
from lplab.exercises.lab06.retune import RETUNE
from lplab.exercises.lab06.retune import draw_retuned as draw_retuned
from lplab.exercises.model.questions import Question

GRADIENT = "transformer/step1000/blocks.0.attention.qkv/gradient"


def gradient_lost() -> float:
    """The share of a gradient that becomes zero in the format that keeps the weights best, in percent."""
    from lplab import datasets
    from lplab.formats import get

    x = datasets.captured()[GRADIENT]
    return round(100 * float(((get("hfp8_forward").quantize(x) == 0) & (x != 0)).mean()), 1)


QUESTIONS = (
    Question(
        "06.a",
        "What share of this gradient becomes zero in the format that keeps the weights?",
        gradient_lost,
        unit="%",
        limits=(0, 100),
        because="Its elements are more than a thousand times smaller than the weights, and the smallest number of the format is 2⁻¹³.",
    ),
)
EXERCISES = (BIAS_EXERCISE, DELAYED, RETUNE)
