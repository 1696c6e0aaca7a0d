"""Lab 15, a language model in few bits: a step of GPTQ, smoothing, the axes of a cache; rotation, bits, packing, growth."""

from __future__ import annotations

from lplab.exercises.lab15.file_bits import FILE_BITS
from lplab.exercises.lab15.file_bits import draw_file_bits as draw_file_bits
from lplab.exercises.lab15.gptq_step import GPTQ_STEP
from lplab.exercises.lab15.gptq_step import draw_columns as draw_columns
from lplab.exercises.lab15.growth import GROWTH
from lplab.exercises.lab15.growth import draw_growth as draw_growth
from lplab.exercises.lab15.pack_ternary import PACK_TERNARY
from lplab.exercises.lab15.pack_ternary import draw_ternary as draw_ternary
from lplab.exercises.lab15.rotate import ROTATE
from lplab.exercises.lab15.rotate import draw_rotation as draw_rotation
from lplab.exercises.lab15.round_cache import ROUND_CACHE
from lplab.exercises.lab15.round_cache import draw_axes as draw_axes
from lplab.exercises.lab15.smooth import SMOOTH
from lplab.exercises.lab15.smooth import draw_alphas as draw_alphas
from lplab.exercises.model.questions import Question

EXERCISES = (GPTQ_STEP, SMOOTH, ROUND_CACHE, ROTATE, FILE_BITS, PACK_TERNARY, GROWTH)


def input_lost() -> float:
    """The share of the input of a layer of SmolLM2 that becomes zero in 8 bits with one scale, in percent."""
    from lplab.quantizers import LayerInput
    from lplab.recordings import language_model_recording

    x = language_model_recording().layers["blocks.11.mlp"].inputs
    return round(100 * float(((LayerInput(8, "tensor").quantize(x) == 0) & (x != 0)).mean()), 1)


QUESTIONS = (
    Question(
        "15.a",
        "One input of a layer is rounded to 8 bits, with one scale. What share of its numbers becomes zero?",
        input_lost,
        unit="%",
        limits=(0, 100),
        because="The largest number is 2,732, and the median is 0.064. Eight bits count from −127 to 127, so one step is 2,732 / 127 = 21.5. All numbers up to half a step, 10.8, become zero. Three numbers of 393,216 are larger, and all three belong to the first token.",
    ),
)
