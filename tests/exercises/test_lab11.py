"""Lab 11: its references against the library, its drawings, and the numbers that its texts state."""

import numpy as np
import pytest

from lplab.exercises import catalogue
from lplab.exercises.lab11 import CYCLES, SPEEDUP, SUSTAINED, draw_cycles, draw_sustained, four_bits_on_an_array
from lplab.exercises.lab11.array_cycles import array_cycles, product_cases
from lplab.exercises.lab11.step_speedup import step_speedup
from lplab.exercises.lab11.sustained import sustained
from lplab.hardware import amdahl, compute, systolic
from lplab.hardware.layer_times import PARTS


def test_the_references_are_what_the_library_computes():
    for case in product_cases():
        assert array_cycles(*case) == systolic.cycles(*case)
    seconds, narrow = np.array([3.0, 1.0, 2.0]), np.array([True, False, True])
    gain, bound = step_speedup(seconds, narrow, 4.0, 0.0)
    assert gain == pytest.approx(float(amdahl.speedup(seconds, [4, 1, 4]))) and bound == pytest.approx(6)
    times = compute.layer_times("vgg16", "h100", "bf16", batch=8)
    some = times.flops > 0
    others = sum(float(times.part(name)) for name in PARTS if name not in ("compute", "memory"))
    rate, share = sustained(times.flops[some], times.nbytes[some], others, 989e12, 3.35e12)
    assert rate == pytest.approx(float(times.sustained_ops_per_second)) and share == pytest.approx(times.share_of_peak)


def test_the_question_has_the_answer_that_the_text_gives():
    assert four_bits_on_an_array() == 1.28
    assert catalogue.question("11.a").truth() == 1.28


def test_own_functions_are_drawn_when_they_work():
    fig = draw_cycles(array_cycles)
    assert fig.layout.meta["title"].endswith("yours agrees at 74 of 74")
    fig = draw_sustained(sustained)
    assert fig.layout.meta["title"].endswith("yours agrees at 8 of 8")

    def unwritten(*args):
        raise NotImplementedError

    for draw in (draw_cycles, draw_sustained):
        assert "it is not written yet" in str(draw(unwritten))


def test_each_exercise_serves_a_goal_of_its_own():
    assert [exercise.goal.split(":")[0] for exercise in (CYCLES, SPEEDUP, SUSTAINED)] == ["Goal 1", "Goal 2", "Goal 3"]
