"""Simulated learners that meet seldom: a clock that ticks by events, bytes of plans, laws, nodes, bad input."""

import math

import numpy as np
import pytest

from lplab import compression
from lplab.compression.fragments import MeetingSchedule, block_of, fragment_numbers
from lplab.compression.ratios import wire_bytes
from lplab.hardware import METHODS, Cluster, Link, compare_methods, simulate, simulate_local_steps, workloads
from lplab.hardware.local_steps import OUTER_NUMBERS
from lplab.hardware.traffic import tensors_of

SLOW = Cluster("h100", 4, Link(0.01, 50e6))


def seconds_by_the_clock(step, transfers, work, schedule, share, rounds=2):
    """Step by step: the network has work left, and goes at a share of its speed while the learners compute."""
    now = 0.0
    for number in range(rounds * schedule.fragments):
        fragment, left = number % schedule.fragments, None
        for taken in range(schedule.every // schedule.fragments):
            if schedule.every // schedule.fragments - taken == schedule.delay:
                left = transfers[fragment]
            if left is not None:
                left = max(left - share * step, 0.0)
            now += step
        now += (transfers[fragment] if left is None else left) + work[fragment]
    return now / (rounds * schedule.every)


@pytest.mark.parametrize("overlap", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(("every", "fragments", "delay"), [(30, 1, 0), (30, 1, 7), (30, 3, 9), (12, 12, 0), (8, 2, 3)])
def test_the_closed_form_is_the_clock(every, fragments, delay, overlap):
    settings = {"every": every, "fragments": fragments, "delay": delay, "overlap": overlap}
    found = simulate_local_steps("gpt", SLOW, compressor="lowbit", measured_seconds=0.3, **settings)
    expected = seconds_by_the_clock(
        found.step_alone_seconds,
        found.transfer_seconds,
        found.work_seconds,
        MeetingSchedule(every, fragments, delay),
        overlap,
    )
    assert math.isclose(found.step_seconds, expected, rel_tol=1e-12)
    assert math.isclose(found.step_seconds, found.compute_seconds + found.exposed_seconds)
    assert found.exposed_seconds <= found.communication_seconds


@pytest.mark.parametrize("name", ["dense", "lowbit", "sparseloco", "scalecom", "powersgd"])
@pytest.mark.parametrize("fragments", [1, 3])
def test_bytes_are_those_of_the_compressors_plan_whatever_the_fragments(name, fragments):
    compressor, whole = compression.get(name), 0.0
    for infos in tensors_of(workloads.get("gpt")):
        for info in infos:
            for transfer in compressor.for_layer(info).plan(info.shape):
                whole += wire_bytes(transfer.kind, transfer.payload_bytes, 4)
    found = simulate_local_steps("gpt", SLOW, compressor=name, every=30, fragments=fragments)
    assert math.isclose(found.meeting_bytes.sum(), whole) and len(found.meeting_bytes) == fragments
    assert math.isclose(found.sent_bytes, whole / 30) and found.peak_bytes == found.meeting_bytes.max()
    assert math.isclose(found.total_bytes(60), 2 * whole)
    assert found.total_bytes(30 // fragments - 1) == 0
    assert math.isclose(found.total_bytes(30 + 30 // fragments), whole + found.meeting_bytes[0])


def test_seconds_of_a_meeting_by_hand():
    """Rings of four learners: six messages of a quarter of the model, or three of a learner's payload."""
    count, link = 124_439_808, Link(0.01, 50e6)
    dense = simulate_local_steps("gpt", Cluster("h100", 4, link, algorithm="ring"), every=10)
    assert dense.transfer_seconds[0] == pytest.approx(6 * (0.01 + count / 50e6), rel=1e-3)
    few = simulate_local_steps("gpt", SLOW, compressor="sparseloco", every=10)
    assert few.transfer_seconds[0] == pytest.approx(3 * (0.01 + few.peak_bytes / 3 / 50e6), rel=1e-2)
    assert few.exposed_seconds == pytest.approx(few.transfer_seconds[0] / 10)


def test_one_learner_alone_meets_nobody():
    found = simulate_local_steps("gpt", "h100", compressor="sparseloco")
    assert found.efficiency == 1 and found.sent_bytes == found.communication_seconds == found.memory["shared"] == 0
    assert math.isclose(found.step_seconds, simulate("gpt", "h100").step_seconds)


def test_more_of_what_helps_never_hurts():
    def seconds(**changes):
        settings = {
            "every": 30,
            "delay": 3,
            "overlap": 0.5,
            "bandwidth": 50e6,
            "latency": 0.01,
            "learners": 8,
        } | changes
        link = Link(settings.pop("latency"), settings.pop("bandwidth"))
        cluster = Cluster("h100", settings.pop("learners"), link)
        return simulate_local_steps("gpt", cluster, compressor="lowbit", **settings).step_seconds

    base = seconds()
    assert seconds(every=60) < base < seconds(every=15)
    assert seconds(delay=6) < base < seconds(delay=0)
    assert seconds(overlap=1.0) < base < seconds(overlap=0.0)
    assert seconds(bandwidth=1e8) < base < seconds(latency=0.1)
    assert seconds(learners=4) < base < seconds(learners=16)
    assert seconds(bandwidth=math.inf, latency=0.0) < base


def test_fragments_lower_the_peak_and_leave_the_sum():
    whole, parts = (simulate_local_steps("gpt", SLOW, every=30, fragments=n) for n in (1, 6))
    assert parts.peak_bytes < whole.peak_bytes / 2 and math.isclose(parts.sent_bytes, whole.sent_bytes)


def test_a_node_is_one_learner():
    """Its devices meet in each step over the link inside; the link between carries one learner's bytes."""
    nodes = Cluster("h100", 32, "home_500m", devices_per_node=8, inner_link="nvlink4")
    found = simulate_local_steps("gpt", nodes, compressor="sparseloco")
    alone = simulate_local_steps("gpt", Cluster("h100", 4, "home_500m"), compressor="sparseloco")
    assert found.learners == alone.learners == 4
    assert math.isclose(found.sent_bytes, alone.sent_bytes)
    assert math.isclose(found.exposed_seconds, alone.exposed_seconds)
    inside = simulate("gpt", Cluster("h100", 8, "nvlink4", algorithm="ring"))
    assert math.isclose(found.step_alone_seconds, inside.step_seconds)
    assert found.throughput > 7 * alone.throughput * alone.step_seconds / found.step_seconds


def test_the_slowest_learner_is_waited_for():
    slow = simulate_local_steps("gpt", Cluster("h100", 4, "wan_1g", straggler=0.5))
    fast = simulate_local_steps("gpt", Cluster("h100", 4, "wan_1g"))
    assert math.isclose(slow.step_alone_seconds, 1.5 * fast.step_alone_seconds)


def test_memory_has_the_shared_weights_the_outer_state_and_the_residual():
    """SparseLoCo's residual takes the place of DiLoCo's momentum: as many bytes."""
    count = 124_439_808
    few = simulate_local_steps("gpt", SLOW, compressor="sparseloco", outer="mean")
    dense = simulate_local_steps("gpt", SLOW, compressor="dense", outer="nesterov")
    assert few.memory["residuals"] == few.memory["shared"] == 4 * count
    assert dense.memory["residuals"] == 0 and dense.memory["shared"] == 8 * count
    assert few.memory_bytes == dense.memory_bytes and dense.fits
    assert {name: value for name, value in dense.to_dict().items() if name in ("every", "learners", "outer")} == {
        "every": 30, "learners": 4, "outer": "nesterov",
    }  # fmt: skip


def test_methods_side_by_side():
    """At 100 Mb/s data parallelism is over; the methods come in the order of their bytes."""
    rows = {row["method"]: row for row in compare_methods("gpt", Cluster("h100", 4, "home_100m"), measured_seconds=1.0)}
    assert list(rows) == list(METHODS)
    sent = [rows[name]["sent_bytes"] for name in ("ddp", "diloco", "streaming", "sparseloco")]
    assert sent == sorted(sent, reverse=True)
    assert rows["ddp"]["efficiency"] < 0.05 and rows["sparseloco"]["efficiency"] > 0.9
    assert rows["streaming"]["peak_bytes"] < rows["diloco"]["peak_bytes"] / 3
    assert rows["ddp"]["peak_bytes"] == simulate("gpt", Cluster("h100", 4, "home_100m")).sent_bytes
    fast = compare_methods("gpt", Cluster("h100", 4, "nvlink4"), measured_seconds=1.0, methods=["ddp", "diloco"])
    assert all(row["efficiency"] > 0.98 for row in fast)


def test_outer_optimizers_are_those_of_the_training():
    pytest.importorskip("torch")
    from lplab.parallel.local_rounds import OUTER

    assert set(OUTER) == set(OUTER_NUMBERS)


# ---- fragments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["strided", "consecutive"])
@pytest.mark.parametrize("fragments", [1, 2, 3, 5, 15])
def test_fragments_keep_blocks_whole_and_none_is_empty(fragments, pattern):
    names = [layer.name for layer in workloads.get("gpt").layers]
    found = fragment_numbers(names, fragments, pattern)
    assert set(found) == set(range(fragments))
    assert len({(block_of(name), number) for name, number in zip(names, found, strict=True)}) == 16
    sizes = np.bincount([found[names.index(first)] for first in {block_of(n): n for n in names}.values()])
    assert sizes.max() - sizes.min() <= 1
    if pattern == "consecutive":
        assert found == sorted(found)


@pytest.mark.parametrize(("ask", "message"), [
    (lambda: MeetingSchedule(30, 4), "every must be a multiple of the number of fragments"),
    (lambda: MeetingSchedule(30, 3, 10), "delay must be less than every / fragments = 10 steps"),
    (lambda: MeetingSchedule(0), "every must be an integer from 1"),
    (lambda: MeetingSchedule(30, 0), "fragments must be an integer from 1"),
    (lambda: MeetingSchedule(30, 3, -1), "delay must be an integer from 0"),
    (lambda: fragment_numbers(["a", "b"], 3), "a model of 2 blocks cannot be cut into 3 fragments"),
    (lambda: fragment_numbers(["a", "b"], 2, "random"), "must be one of strided, consecutive, got 'random'"),
    (lambda: simulate_local_steps("gpt", 4), "simulated on a Cluster, or on a chip, got int"),
    (lambda: simulate_local_steps("gpt", SLOW, outer="average"), "outer optimizer"),
    (lambda: simulate_local_steps("gpt", SLOW, overlap=2), "overlap must be from 0 to 1"),
    (lambda: compare_methods("gpt", SLOW, methods=["diloko"]), "diloco"),
    (lambda: simulate_local_steps("gpt", SLOW).total_bytes(-1), "steps must be an integer from 0"),
])  # fmt: skip
def test_bad_input_is_told_in_one_line(ask, message):
    with pytest.raises((ValueError, TypeError), match=message) as problem:
        ask()
    assert "\n" not in str(problem.value)
