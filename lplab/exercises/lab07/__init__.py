"""Lab 07, four bits for gradients: radix-4 rounding, two phases, the best threshold, GradScale."""

from __future__ import annotations

from lplab.exercises.lab07.grad_scale import GRAD_SCALE
from lplab.exercises.lab07.grad_scale import draw_scales as draw_scales
from lplab.exercises.lab07.radix4 import RADIX4
from lplab.exercises.lab07.thresholds import THRESHOLD
from lplab.exercises.lab07.two_phase import TWO_PHASE
from lplab.exercises.lab07.two_phase import draw_phases as draw_phases
from lplab.exercises.model.questions import Question

SCALE = 2.0**14  # the largest power of two at which no layer's gradient lies beyond 64


def zeroed() -> float:
    """Percent of a Transformer's gradients that become zero in radix-2 FP4 under one scale: mean of the layers."""
    from lplab.quantizers import grid_effect
    from lplab.recordings import gradients_at

    shares = [grid_effect(x, "radix2", SCALE).zeroed for x in gradients_at("transformer", 50).values()]
    return round(100 * sum(shares) / len(shares), 1)


QUESTIONS = (
    Question(
        "07.a",
        "FP4 with powers of two, one scale for all layers: how many percent of the gradients become zero?",
        zeroed,
        unit="%",
        limits=(0, 100),
        because="From 1 to 64 it is six octaves. But 99 of 100 gradients of one layer spread over eight octaves or more, and the largest gradients of two layers lie up to five and a half octaves apart.",
    ),
)
EXERCISES = (RADIX4, TWO_PHASE, THRESHOLD, GRAD_SCALE)
