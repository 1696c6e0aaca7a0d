"""Lab 08, scaling out: a ring's messages, hidden communication, two targets at once, weights in 8 bits."""

from __future__ import annotations

from lplab.exercises.lab08.hiding import HIDE
from lplab.exercises.lab08.hiding import draw_buckets as draw_buckets
from lplab.exercises.lab08.ring import RING
from lplab.exercises.lab08.ring import draw_ring as draw_ring
from lplab.exercises.lab08.targets import TARGET
from lplab.exercises.lab08.weights import WEIGHTS
from lplab.exercises.model.questions import Question


def speedup() -> float:
    """How many times as fast as one V100 are 64 of them over 10 Gb/s, ResNet-50 in 16 bits, 32 images each."""
    from lplab.hardware import Cluster, simulate

    cluster = Cluster("v100", 64, "10Gb/s, 50us")
    found = simulate("resnet50", cluster, precision="fp16_mixed", batch=32, utilization=0.5)
    return round(64 * found.efficiency, 1)


QUESTIONS = (
    Question(
        "08.a",
        "64 GPUs over 10 Gb/s: how many times as fast as one of them?",
        speedup,
        unit="times",
        because="Computing takes 24 ms. Sending takes 83 ms and not 41, because each device sends nearly two gradients (you will see why below). All 64 wait for what the backward pass does not hide.",
    ),
)
EXERCISES = (RING, HIDE, TARGET, WEIGHTS)
