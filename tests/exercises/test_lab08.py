"""Lab 08: the answer of its question, what its texts state, other right answers, and students' functions drawn."""

import inspect
import json
import math
import shlex
from pathlib import Path

import numpy as np
import pytest

from lplab import cli, widgets
from lplab.claims.papers.ddl_model import ddl_step
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.lab08 import draw_buckets, draw_ring
from lplab.exercises.lab08.hiding import MEBIBYTES, all_sent, resnet_backward
from lplab.exercises.lab08.ring import contributions, ring_messages, runs
from lplab.exercises.lab08.targets import cost, meet
from lplab.exercises.lab08.weights import to_fp8, update_share
from lplab.exercises.model import exercise_catalogue
from lplab.formats import get as format_of
from lplab.hardware import Cluster, network, overlap, simulate, workloads
from lplab.labs import lab08
from lplab.widgets.explorers.cluster_explorer import PRESETS, RECIPES, ClusterState
from tests.exercises.in_process import judge_here as judge

TEXT = "\n".join(
    "".join(cell["source"])
    + "".join("".join(o.get("text") or o["data"]["text/plain"]) for o in cell.get("outputs", []))
    for cell in json.loads((Path(__file__).parents[2] / "labs" / "08_scaling_out.ipynb").read_text("utf-8"))["cells"]
)


def test_the_question_and_its_reason():
    found = simulate("resnet50", Cluster("v100", 64, "10Gb/s, 50us"), precision="fp16_mixed", utilization=0.5)
    assert exercise_catalogue.question("08.a").truth() == round(64 * found.efficiency, 1) == 16.7
    assert round(1e3 * found.single_seconds) == 24 and round(1e3 * found.communication_seconds) == 83
    assert round(2e-6 * workloads.get("resnet50").parameters) == 51


RINGS = {
    "leftwards": ("(r - 1) % ranks", "(r + s) % ranks", "{}"),
    "as an array": ("(r + 1) % ranks", "(r - s) % ranks", "np.array({}).reshape(-1, 5)"),
    "another first part": ("(r + 1) % ranks", "(r + 1 - s) % ranks", "{}"),
    "the last step first": ("(r + 1) % ranks", "(r - s) % ranks", "{}[::-1]"),
}


@pytest.mark.parametrize("other", RINGS)
def test_any_right_ring_passes(other):
    to, part, made = RINGS[other]
    rows = f"[(s, r, {to}, {part}, s < ranks - 1) for s in range(2 * ranks - 2) for r in range(ranks)]"
    source = f"import numpy as np\n\n\ndef ring_messages(ranks):\n    return {made.format(rows)}\n"
    assert judge(exercise_catalogue.get("08.1"), Answer(source, "ring_messages")).status == "passed"


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_a_ring_has_the_steps_and_bytes_of_the_library(ranks):
    rows = ring_messages(ranks)
    assert runs((ranks,), rows) == "" and len({row[0] for row in rows}) == network.steps("ring", ranks)
    sent = sum(row[1] == 0 for row in rows) / ranks
    assert math.isclose(sent, network.sent_bytes("ring", ranks, 1.0))


def test_what_running_a_schedule_finds():
    rows = ring_messages(3)
    assert "holds the numbers of one rank 2 times" in runs((3,), [(*row[:4], 1) for row in rows])
    assert "parts are numbered 0 to 2" in runs((3,), [(*row[:3], row[3] - 3, row[4]) for row in rows])
    assert "nobody sends to himself" in runs((2,), [(0, 0, 0, 0, 1)])
    assert "one at a time" in runs((3,), [*rows, rows[0]])
    early = [(*row[:3], row[3] if row[4] else (row[3] - 1) % 3, row[4]) for row in rows]
    assert "part 0 of rank 0 replaces that of rank 1, but it holds the numbers of only 1 of 3" in runs((3,), early)
    assert contributions([list(row) for row in rows], 3)[-1].tolist() == [[3, 3, 3]] * 3


def last_bucket(sizes, bucket):
    """Bytes of the message that is sent last."""
    sent, held = [], 0.0
    for size in sizes:
        held += size
        if held >= bucket:
            sent.append(held)
            held = 0.0
    return held or sent[-1]


def test_what_is_left_for_the_last_bucket_makes_the_bumps():
    backward, sizes, latency, bandwidth = resnet_backward(100.0)
    left = {mib: last_bucket(sizes, mib * 2**20) / 2**20 for mib in MEBIBYTES}
    seconds = {mib: all_sent(backward, sizes, mib * 2**20, latency, bandwidth) for mib in MEBIBYTES}
    many = [mib for mib in MEBIBYTES if mib >= 4]
    assert sorted(many, key=left.get) == sorted(many, key=seconds.get)
    assert "With 16 MiB the last one holds 14 MiB, with 11.3 only 0.5" in TEXT
    assert round(left[16]) == 14 and [round(left[mib], 1) for mib in MEBIBYTES if round(mib, 1) == 11.3] == [0.5]


def test_both_steps_of_the_text_have_one_axis():
    assert lab08.slow_step().layout.xaxis.range == lab08.fast_step().layout.xaxis.range


def test_the_exercises_overlap_is_the_simulators():
    backward, sizes, latency, bandwidth = resnet_backward()
    for mib in (0.0, 1.0, 25.0, 1e6):
        bucket = overlap.buckets(np.array(sizes[::-1]), mib * 2**20)
        ready = overlap.ready_seconds(np.array(backward[::-1]), bucket)
        durations = latency + np.bincount(bucket, weights=sizes[::-1]) / bandwidth
        durations = np.where(np.bincount(bucket, weights=sizes[::-1]) > 0, durations, 0)
        expected = ready[-1] + overlap.exposed_seconds(ready, durations, ready[-1])
        assert math.isclose(all_sent(backward, sizes, mib * 2**20, latency, bandwidth), expected, rel_tol=1e-9)


def test_more_devices_are_not_always_faster_and_cost_resembles_the_simulator():
    times = [cost(n, 64, 16)[0] for n in (1, 2, 4, 8, 64, 1024)]
    assert min(times) < times[-1] and times[0] > min(times)
    simulated = simulate("resnet50", "v100", precision="fp16_mixed", batch=32, utilization=0.5)
    seconds, held = cost(1, 32, 16)
    assert math.isclose(seconds, simulated.step_seconds, rel_tol=0.05)
    assert math.isclose(held, simulated.memory_bytes, rel_tol=0.2)
    assert meet(1000, 0.004, 64e9) == (0, 0) and meet(64, 2.0, 64e9) == (1, 32)


def test_the_given_rounding_is_fp8_within_its_range():
    values = np.random.default_rng(1).uniform(0.02, 3.5, 1000)
    np.testing.assert_array_equal(to_fp8(values), format_of("hfp8_forward").quantize(values))


def test_students_functions_are_drawn_once_they_work():
    assert isinstance(draw_ring(ring_messages), widgets.LiveFigure)
    drawn = draw_buckets(all_sent)
    assert isinstance(drawn, widgets.LiveFigure) and "agrees at 20 of 20" in drawn.layout.meta["title"]


CATCHES = (  # a mistake, and words of the first example that it misses
    (
        "08.1",
        "the second half begins with the part that a rank sent first, not with the one that is complete",
        "1 of 2",
    ),
    ("08.2", "the network forgets that it is busy", "The network is still busy"),
    ("08.2", "a last message is always sent, and pays latency even if it is empty", "three latencies"),
    (
        "08.2",
        "what is left is sent at once, though the network is still busy",
        "the third layer's gradient is sent alone",
    ),
    ("08.2", "exactly the bucket's size is sent, and the rest kept", "nothing is kept back"),
    ("08.2", "a bucket is closed before it would hold more than its size", "3 bytes do not fill it"),
    ("08.3", "the search for devices halves its range, as if more were always faster", "More devices are not always"),
    ("08.3", "1,024 devices are not tried", "All 1,024 devices are needed"),
    ("08.3", "targets must be beaten, not met", "The time is met exactly"),
    ("08.3", "memory must be beaten, not met", "The memory is met exactly"),
)


@pytest.mark.parametrize(("number", "mistake", "said"), CATCHES)
def test_a_mistake_is_told_by_an_example_that_is_about_it(number, mistake, said):
    exercise = exercise_catalogue.get(number)
    function, given = exercise.reference, "".join(map(inspect.getsource, exercise.provided))
    source = next(each for each in exercise.mistakes if each.name == mistake).apply(inspect.getsource(function))
    verdict = judge(exercise, Answer(f"{given}\n\n{source}", function.__name__))
    assert verdict.status == "failed" and said in str(verdict) and mistake in str(verdict)


def test_examples_are_exact_where_their_texts_say_so():
    kept = [update_share(*example.args)[1] for example in exercise_catalogue.get("08.4").examples[:2]]
    assert [value.tolist() for value in kept] == [[0.0], [-0.015625]]


def test_the_published_result_as_the_lab_tells_it(capsys):
    preset = ClusterState(**PRESETS["DDL 2017 (4 × 64 P100)"]).simulation
    assert "The explorer's preset says 94.0 %, where the card computes 93.3" in TEXT
    assert round(100 * preset.efficiency, 1) == 94.0 and round(100 * ddl_step().efficiency, 1) == 93.3
    assert "14.5 of 215 ms" in TEXT and ddl_step().exposed_seconds == ddl_step().communication_seconds
    assert round(1e3 * ddl_step().exposed_seconds, 1) == 14.5 and round(1e3 * ddl_step().step_seconds) == 215
    command = TEXT.split("python3 start.py lplab ")[1].split("```")[0].replace("\\\n", " ")
    assert cli.main([*shlex.split(command), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert math.isclose(told["efficiency"], preset.efficiency, rel_tol=1e-3)


def test_bits_and_throughput_on_old_chips():
    found = [ClusterState(recipe=name).simulation for name in RECIPES]
    assert [round(100 * each.efficiency) for each in found] == [57, 26, 28] and "57, 26 and 28 %" in TEXT
    assert [round(each.throughput, -2) for each in found] == [9700, 22000, 21800]
    assert "9,700, 22,000 and 21,800 images a second" in TEXT


def test_what_the_lab_says_of_numbers():
    how = {"precision": "fp16_mixed", "batch": 32, "utilization": 0.5}
    one, slow = simulate("resnet50", "v100", **how), Cluster("v100", 64, "10Gb/s, 50us")
    many = simulate("resnet50", slow, **how)
    assert "ms of the backward pass: 15" in TEXT and round(1e3 * many.times.backward.item()) == 15
    assert "a link of 10 Gb/s needs 41 ms for it" in TEXT
    assert round(1e3 * 2 * workloads.get("resnet50").parameters / 1.25e9) == 41
    assert "They are 3 % of it here" in TEXT and round(100 * one.memory["weights"] / one.memory_bytes) == 3
    h100 = [
        simulate("resnet50", Cluster("h100", 64, "100Gb/s, 10us"), precision=p, batch=32, utilization=0.5)
        for p in ("fp32", "bf16")
    ]
    assert "three times the images, at half the efficiency" in TEXT
    assert 2.8 < h100[1].throughput / h100[0].throughput < 3.2
    assert 0.45 < h100[1].efficiency / h100[0].efficiency < 0.55
    assert "computing a sixth" in TEXT and 5.5 < h100[0].compute_seconds / h100[1].compute_seconds < 6.5
    net = {"batch": 32, "precision": "hfp8_2019"}
    plain, shared = (simulate("resnet50", Cluster("h100", 16, "25Gb/s, 10us"), sharded=s, **net) for s in (False, True))
    assert "the step is a fifth shorter" in TEXT and 0.75 < shared.step_seconds / plain.step_seconds < 0.83
