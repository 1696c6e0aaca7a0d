"""Lab 12: what its text says is what the library computes; students' functions are drawn; other right ways pass."""

import dataclasses

import pytest

from lplab.exercises.isolation.answers import Answer
from lplab.exercises.lab12 import draw_gemm_energy
from lplab.exercises.lab12.correction import ACTUAL, CLAIMED, STEPS, correct
from lplab.exercises.lab12.gemm_energy import gemm_energy
from lplab.exercises.lab12.training_bill import GPT3, training_bill
from lplab.exercises.model import exercise_catalogue
from lplab.hardware import footprint, multiplier, operation_costs
from lplab.hardware.footprint import gemm_joules, runs
from lplab.widgets.explorers import bill_explorer, edge_explorer
from tests.exercises.in_process import judge_here as judge

ARRAYS = dataclasses.replace(bill_explorer.JOBS["ResNet-50, 64 chips"], waiting=0.56)
PACKED = dataclasses.replace(ARRAYS, compression=100)


def unfinished(m, n, k, tile, bits, mac_pj, byte_pj):
    raise NotImplementedError


def test_students_functions_are_drawn_once_they_work():
    waiting = draw_gemm_energy(unfinished)
    assert "yours is not drawn" in waiting.layout.meta["subtitle"] and len(waiting.data[2].x) == 0
    drawn = draw_gemm_energy(gemm_energy)
    assert drawn.layout.meta["title"] == "Yours agrees at 22 of 22 points"


def test_what_the_lab_says_of_bits_and_bytes():
    plain = ARRAYS.step("fp16_mixed")
    left = [
        job.step(p).joules / plain.joules
        for job, p in ((ARRAYS, "int4_fp4_2020"), (PACKED, "fp16_mixed"), (PACKED, "int4_fp4_2020"))
    ]
    assert [round(100 * share) for share in left] == [58, 66, 24]
    assert left[2] < left[0] * left[1]
    assert round(ARRAYS.step("int4_fp4_2020").arithmetic / plain.arithmetic, 2) == 0.33
    assert PACKED.step("fp16_mixed").seconds < 0.5 * plain.seconds
    assert exercise_catalogue.question("12.a").truth() == 58


def test_four_bits_change_nothing_on_a_v100():
    job = bill_explorer.JOBS["GPT-3, 10,000 V100"]
    assert 0.98 < job.step("int4_fp4_2020").joules / job.step("fp16_mixed").joules < 1


def test_what_the_lab_says_of_reuse_and_adders():
    macs, dram = multiplier.macs(), operation_costs.get("dram")
    prices = {"mac_joules": macs["fp16+fp32"].joules, "memory_joules_per_byte": dram.joules / 8}
    size = {"m": 1024, "n": 1024, "k": 1024, "operand_bits": 16, "result_bits": 16}
    ratios = [memory / arithmetic for arithmetic, memory in (gemm_joules(**size, **prices, tile=t) for t in (1, 1024))]
    assert round(ratios[0]) == 325 and 0.45 < ratios[1] < 0.5
    assert round(100 * macs["fp8_143+fp32"].joules / macs["fp16+fp32"].joules) == 63  # 62.5, printed so


def test_the_solutions_are_the_librarys():
    arithmetic, memory = gemm_energy(33, 65, 17, 8, 4, 0.15, 31.2)
    library = gemm_joules(
        33, 65, 17, mac_joules=0.15e-12, operand_bits=4, result_bits=4, memory_joules_per_byte=31.2e-12, tile=8
    )
    assert (arithmetic * 1e-12, memory * 1e-12) == pytest.approx(library)
    days, mwh, tonnes = training_bill(*GPT3)
    assert (days, mwh, tonnes) == pytest.approx((14.8, 1287, 552), rel=0.005)
    claimed, actual, *factors = correct(STEPS, CLAIMED, ACTUAL)
    assert claimed * 1000 == pytest.approx(runs.get("nas_2019").bill.kilograms, rel=1e-4)
    assert actual * 1000 == pytest.approx(runs.get("nas_2021").bill.kilograms, rel=1e-3)
    assert [round(f, 1) for f in factors] == [8.4, 7.3, 1.4] and round(claimed / actual) == 88


def test_what_the_lab_says_of_phones():
    small, large = (edge_explorer.rounds(edge_explorer.EdgeState(network=name)) for name in edge_explorer.NETWORKS)
    for found, radio in ((small, 0.87), (large, 0.27)):
        plain = found["32 bits"]
        assert 1 - plain.compute_joules / plain.joules == pytest.approx(radio, abs=0.005)
    sparse = small["FP8, 1 % up"]
    assert sparse.down_joules > 5 * sparse.up_joules  # the down-link is what is left
    ratio = large[edge_explorer.CENTRE].compute_joules / large["32 bits"].compute_joules
    assert round(100 * ratio) == 45
    assert 0.72 < large["FP8, 1 % up"].joules / large["32 bits"].joules < 0.77  # a quarter is saved


def test_computing_becomes_as_dear_as_the_radio_after_two_epochs():
    """The question can be answered with ResNet-18 and LTE, which its text names, and not with the small network."""
    small, large = edge_explorer.NETWORKS
    share = {
        (name, epochs): edge_explorer.rounds(edge_explorer.EdgeState(network=name, epochs=epochs))["32 bits"]
        for name in (small, large)
        for epochs in (1, 2, edge_explorer.EPOCHS[1])
    }
    half = {key: found.compute_joules / found.joules for key, found in share.items()}
    assert half[large, 1] < 0.4 and half[large, 2] == pytest.approx(0.5, abs=0.03)
    assert half[small, edge_explorer.EPOCHS[1]] < 0.4


def test_place_and_precision():
    grams = [footprint.region(name).grams_per_kwh for name in ("iceland", "india")]
    assert round(grams[1] / grams[0]) == 25


@pytest.mark.parametrize(
    ("exercise", "source"),
    [
        (
            "12.2",
            "def training_bill(N, D, n, peak, u, watts, pue, g):\n"
            "    days = 6 * N * D / n / peak / u / 3600 / 24\n"
            "    mwh = n * watts / 1e6 * days * 24 * pue\n"
            "    return days, mwh, mwh * g / 1000\n",
        ),
        (
            "12.1",
            "import math\n"
            "def gemm_energy(m, n, k, tile, bits, mac_pj, byte_pj):\n"
            "    total = 0\n"
            "    for i in range(0, m, tile):\n"
            "        for j in range(0, n, tile):\n"
            "            h, w = min(tile, m - i), min(tile, n - j)\n"
            "            total += h * k + k * w + h * w\n"
            "    return m * n * k * mac_pj, total * bits / 8 * byte_pj\n",
        ),
    ],
)
def test_other_ways_to_the_same_numbers_pass(exercise, source):
    exercise = exercise_catalogue.get(exercise)
    verdict = judge(exercise, Answer(source, exercise.name))
    assert verdict.passed, verdict.text


def test_a_wrong_answer_is_told_with_both_numbers():
    source = exercise_catalogue.get("12.2").solution.replace("* pue", "/ pue")
    verdict = judge(exercise_catalogue.get("12.2"), Answer(source, "training_bill"))
    assert "The energy in MWh is" in verdict.text and "PUE divides" in verdict.text
