"""Lab 04, down to two bits: a gradient that is defined, PACT's clip, SAWB's coefficients, and which layers stay wide."""

from __future__ import annotations

from lplab.exercises.lab04.alpha_gradient import ACTIVATIONS, ALPHA
from lplab.exercises.lab04.alpha_gradient import train_clip as train_clip
from lplab.exercises.lab04.choose_bits import CHOOSE
from lplab.exercises.lab04.fit_sawb import SAWB_FIT
from lplab.exercises.lab04.layer_trial import try_layers as try_layers
from lplab.exercises.lab04.straight_through import STRAIGHT
from lplab.exercises.model.questions import Question


def share_on_zero() -> float:
    """The share of the activations that 2 bits over 0 … max x send to the level 0, in percent."""
    import numpy as np

    from lplab import datasets
    from lplab.quantizers import pact_forward

    x = datasets.captured()[ACTIVATIONS]
    return round(100 * float(np.mean(pact_forward(x, alpha=float(x.max()), bits=2) == 0)), 1)


QUESTIONS = (
    Question(
        "04.a",
        "How many of the activations land on the level 0?",
        share_on_zero,
        unit="%",
        limits=(0, 100),
        because="The level 0 takes all up to a sixth of the largest activation, and nearly all are smaller than that.",
    ),
)
EXERCISES = (STRAIGHT, ALPHA, SAWB_FIT, CHOOSE)
