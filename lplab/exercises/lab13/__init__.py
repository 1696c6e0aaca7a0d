"""Lab 13, who shares a scale: a block of MXFP4, the bits of scales, blocks for three products, and tiles."""

from __future__ import annotations

from lplab.exercises.lab13.average_bits import BITS
from lplab.exercises.lab13.mxfp4 import GRADIENT, MXFP4
from lplab.exercises.lab13.mxfp4 import draw_scales as draw_scales
from lplab.exercises.lab13.round_tiles import TILES
from lplab.exercises.lab13.round_tiles import draw_tiles as draw_tiles
from lplab.exercises.lab13.three_products import PRODUCTS
from lplab.exercises.model.questions import Question


def gradient_lost() -> float:
    """The share of a gradient that becomes zero in E2M1 with one scale for the tensor, in percent."""
    from lplab import datasets
    from lplab.formats import get

    x = datasets.captured()[GRADIENT]
    e2m1, largest = get("e2m1"), float(abs(x).max())
    return round(100 * float(((e2m1.quantize(x * (e2m1.max / largest)) == 0) & (x != 0)).mean()), 1)


QUESTIONS = (
    Question(
        "13.a",
        "What share of this gradient becomes zero when all of its numbers share one scale?",
        gradient_lost,
        unit="%",
        limits=(0, 100),
        because="The largest number is 244 times the median. The scale makes 6 of the largest, so it makes 0.025 of the median. The smallest number of E2M1 above zero is 0.5, so all up to half of it, 0.25, becomes zero. Only one number in ten is larger. With a scale for every 32 neighbours, about half of the numbers survive.",
    ),
)
EXERCISES = (MXFP4, BITS, PRODUCTS, TILES)
