"""Lab 03, the range of gradients: a dynamic loss scale, where unscaling goes, a master copy, the largest scale."""

from __future__ import annotations

from lplab.exercises.lab03.drawn import draw_scales as draw_scales
from lplab.exercises.lab03.drawn import train_with as train_with
from lplab.exercises.lab03.largest_scale import LARGEST
from lplab.exercises.lab03.next_scale import NEXT_SCALE
from lplab.exercises.lab03.two_copies import MASTER_COPY
from lplab.exercises.lab03.unscaled_step import UNSCALED
from lplab.exercises.questions import Question

SCORES = "blocks.2.attention/matmul"


def vanished() -> float:
    """Percent of the gradients of the attention scores that float16 makes zero after 1,000 steps, without a scale."""
    from lplab import formats
    from lplab.figures.range_fates import range_fates
    from lplab.figures.window import window
    from lplab.recording_files import recorded

    found = recorded("transformer").magnitudes(SCORES, "output_gradient_dx", 1000)
    return round(100 * range_fates(found, window(formats.get("fp16"))).lost, 1)


QUESTIONS = (
    Question(
        "03.a",
        "A small Transformer after 1,000 steps, without a loss scale: how many percent of the gradients of its attention scores does float16 make zero?",
        vanished,
        unit="%",
        because="They lie around 2⁻²³, and float16 makes everything up to 2⁻²⁵ zero.",
    ),
)
EXERCISES = (NEXT_SCALE, UNSCALED, MASTER_COPY, LARGEST)
