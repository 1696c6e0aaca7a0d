"""Lab 11: its references against the library, its drawings, and the numbers that its texts state."""

import json
from pathlib import Path

import numpy as np
import pytest

from lplab.claims.papers.rapid_2021 import NETWORKS, sustained_teras
from lplab.exercises.lab11 import CYCLES, SPEEDUP, SUSTAINED, draw_cycles, draw_sustained, four_bits_on_an_array
from lplab.exercises.lab11.array_cycles import array_cycles, product_cases
from lplab.exercises.lab11.step_speedup import step_speedup
from lplab.exercises.lab11.sustained import show_network, sustained
from lplab.exercises.model import exercise_catalogue
from lplab.hardware import accelerators, amdahl, compute, multiplier, systolic, workloads
from lplab.hardware.layer_times import PARTS
from lplab.labs import lab11

PROJECT = Path(__file__).parents[2]


def test_the_references_are_what_the_library_computes():
    for case in product_cases():
        assert array_cycles(*case) == systolic.cycles(*case, "ws")
    chip, sizes = accelerators.get("systolic"), [case[:3] for case in product_cases()]
    shares = [m * n * k / (128 * 128 * array_cycles(m, n, k, 128, 128)) for m, n, k in sizes]
    assert systolic.of_chip(chip, *np.array(sizes, float).T) == pytest.approx(shares), "the explorer has the same array"
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
    assert exercise_catalogue.question("11.a").truth() == 1.28


def test_own_functions_are_drawn_when_they_work():
    fig = draw_cycles(array_cycles)
    assert fig.layout.meta["title"].endswith("yours agrees at 74 of 74")
    fig = draw_sustained(sustained)
    assert fig.layout.meta["title"].endswith("yours agrees at 7 of 7")
    claim = [sustained_teras(name) / 768 for name in NETWORKS]
    drawn = next(trace for trace in fig.data if trace.name == "library, modelled")
    assert drawn.y.tolist() == pytest.approx([100 * share for share in sorted(claim, reverse=True)])


def test_numbers_of_a_case_are_told_as_people_write_them():
    assert show_network(SUSTAINED.examples[0].args) == (
        "operations: 1,000 on 1 byte; others = 0 s, peak = 100, bandwidth = 10"
    )
    case = (np.array([8e12]), np.array([4e9]), 0.5, 768e12, 1.6e12)
    assert show_network(case).endswith("8e12 on 4e9 bytes; others = 0.5 s, peak = 7.68e14, bandwidth = 1.6e12")


def test_each_exercise_serves_a_goal_of_its_own():
    assert [exercise.goal.split(":")[0] for exercise in (CYCLES, SPEEDUP, SUSTAINED)] == ["Goal 1", "Goal 2", "Goal 3"]


def test_a_channel_of_a_depthwise_convolution_has_nine_weights():
    depthwise = [layer for layer in workloads.get("mobilenetv2").layers if layer.has_product and layer.groups > 1]
    assert {layer.k * layer.n for layer in depthwise} == {9}
    book = json.loads((PROJECT / "labs" / "11_from_bits_to_seconds.ipynb").read_text("utf-8"))
    assert any("So only nine of 16,384 cells have work" in "".join(cell["source"]) for cell in book["cells"])


def test_the_numbers_in_the_labs_text_are_what_the_model_says():
    book = json.loads((PROJECT / "labs" / "11_from_bits_to_seconds.ipynb").read_text("utf-8"))
    text = " ".join("".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "markdown")
    text += " " + str(lab11.checked_answers())  # below the explorer's questions
    wide, narrow, fused, four = (
        compute.layer_times("resnet50", "systolic", name, batch=64, utilization="array", fused=way)
        for way in (False, True)
        for name in ("bf16", "int4_fp4_2020")
    )
    rest = 1 - float(wide.part("products")) / wide.step_seconds
    products = float(fused.part("products"))
    gain = float(amdahl.speedup([products, fused.step_seconds - products], [4, 1]))
    fp16, fp8, chunked = (
        multiplier.mac("fp16"),
        multiplier.mac("hfp8_forward"),
        multiplier.mac("hfp8_forward", "dlfloat16"),
    )
    integers = multiplier.operations()["int8_multiply"][1] / multiplier.area_um2(8, 16)
    assert integers == pytest.approx(1 / 3, abs=0.03) and "a third of what the curve says at 8 bits" in text
    for said in (
        f"the whole step is {wide.step_seconds / narrow.step_seconds:.2f} times as fast",
        f"The step is {fused.step_seconds / four.step_seconds:.2f} times as fast as the fused 16-bit step",
        f"The step does {100 * wide.share_of_peak:.0f} % of what the multipliers could",
        f"the unit is {fp16.um2 / chunked.um2:.1f} times smaller",
    ):
        assert said in text, said
    shares, speeds = lab11.speed_by_recipe().columns, lab11.speedup_by_factor().columns
    assert shares["share of the peak"][::2] == pytest.approx([wide.share_of_peak, narrow.share_of_peak])
    assert speeds["bound"][0] == pytest.approx(float(amdahl.bound(rest)))
    assert speeds["4 ×"][1] == pytest.approx(gain)
    assert 0.4 < rest < 0.5 and "Nearly half of the 16-bit step" in exercise_catalogue.question("11.a").because
    assert round(fp16.multiply_um2 / fp8.multiply_um2) == 7 and "about seven times smaller" in text
    assert 1 - fp8.um2 / fp16.um2 == pytest.approx(0.25, abs=0.02) and "by only a quarter" in text
