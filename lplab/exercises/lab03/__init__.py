"""Lab 03, the range of gradients: a dynamic loss scale, where unscaling goes, a master copy, the largest scale."""

from __future__ import annotations

from lplab.exercises.lab03.largest_scale import LARGEST
from lplab.exercises.lab03.largest_scale import draw_scales as draw_scales
from lplab.exercises.lab03.next_scale import NEXT_SCALE
from lplab.exercises.lab03.next_scale import train_with as train_with
from lplab.exercises.lab03.two_copies import MASTER_COPY
from lplab.exercises.lab03.unscaled_step import UNSCALED
from lplab.exercises.model.questions import Question

SCORES = "blocks.2.attention/matmul"


def vanished() -> float:
    """Percent of the gradients of the attention scores of the last block that float16 makes zero after 1,000 steps, without a scale."""
    from lplab import formats
    from lplab.figures.range_outcomes import range_outcomes
    from lplab.figures.window import window
    from lplab.recordings.magnitudes import recorded

    found = recorded("transformer").magnitudes(SCORES, "output_gradient_dx", 1000)
    return round(100 * range_outcomes(found, window(formats.get("fp16"))).lost, 1)


def outcome() -> str:
    """How the training of the claim ended in float16 without a scale, beside float32: from the stored runs."""
    from lplab import claims
    from lplab.claims.papers.micikevicius_2018 import MICIKEVICIUS_2018, not_needed_here

    results = claims.stored(MICIKEVICIUS_2018).results(MICIKEVICIUS_2018)
    return AS_GOOD if not_needed_here(results).holds else WORSE


AS_GOOD, WORSE, NOTHING = "as well as in float32", "clearly worse", "it learns nothing"
QUESTIONS = (
    Question(
        "03.a",
        "A small Transformer after 1,000 steps, without a loss scale: how many percent of the gradients of the attention scores of its last block does float16 make zero?",
        vanished,
        unit="%",
        limits=(0, 100),
        because="They lie around 2⁻²³, spread over many powers of two, and float16 makes everything up to 2⁻²⁵ zero. Other blocks lose other shares: the first one 44.6 %.",
    ),
    Question(
        "03.b",
        "The same Transformer, trained in float16 without a loss scale: how does it end?",
        outcome,
        choices=(AS_GOOD, WORSE, NOTHING),
        because="The elements that vanish are the smallest: many in number, but hardly any of the gradient's length.",
    ),
)
EXERCISES = (NEXT_SCALE, UNSCALED, MASTER_COPY, LARGEST)
