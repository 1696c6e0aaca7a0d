"""Lab 11, from bits to seconds: cycles of an array, Amdahl with parts that stay wide, sustained against peak."""

from __future__ import annotations

from lplab.exercises.lab11.array_cycles import CYCLES
from lplab.exercises.lab11.array_cycles import draw_cycles as draw_cycles
from lplab.exercises.lab11.step_speedup import SPEEDUP
from lplab.exercises.lab11.sustained import SUSTAINED
from lplab.exercises.lab11.sustained import draw_sustained as draw_sustained
from lplab.exercises.model.questions import Question


def four_bits_on_an_array() -> float:
    """How many times as fast a modelled training step of ResNet-50 is in 4 bits as in 16, on an array."""
    from lplab.hardware import compute

    wide, narrow = (
        compute.layer_times("resnet50", "systolic", precision, batch=64, utilization="array").step_seconds
        for precision in ("bf16", "int4_fp4_2020")
    )
    return round(wide / narrow, 2)


QUESTIONS = (
    Question(
        "11.a",
        "How many times faster is the whole step in 4 bits than in 16 bits?",
        four_bits_on_an_array,
        unit="times",
        because="Nearly half of the 16-bit step is element-wise work: norms, activations and additions, which read and write 16 bits as before. Rounding to 4 bits comes on top. And not all products get four times as fast, as some layers stay in 16 bits and faster products fill the array less.",
    ),
)
EXERCISES = (CYCLES, SPEEDUP, SUSTAINED)
