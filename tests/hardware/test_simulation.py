"""Simulated steps and sweeps: overlap against a loop, laws that must hold, memory, timelines, extreme clusters."""

import math
from itertools import pairwise

import numpy as np
import pytest

from lplab import compression
from lplab.compression.ratios import wire_bytes
from lplab.hardware import Cluster, Link, compute, overlap, precisions, scaling, simulate, sweep, workloads
from lplab.hardware.memory import memory_bytes
from lplab.hardware.traffic import tensors_of, traffic
from lplab.hardware.workloads import Layer, Workload

pytest.importorskip("pandas")


def exposed_by_events(ready, durations, backward, share):
    """The network step by step: it goes at a share of its speed until the backward pass ends."""
    now, left = 0.0, 0.0
    for there, duration in zip(ready, durations, strict=True):
        now, left = max(now, there), duration
        before = max(backward - now, 0.0)
        if left <= share * before and share > 0:
            now += left / share
        else:
            now = max(now, backward) + left - share * before
    return max(now - backward, 0.0)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_closed_form_of_overlap_is_the_loop(share):
    rng = np.random.default_rng(3)
    for _ in range(50):
        ready = np.sort(rng.uniform(0, 10, 6))
        durations = rng.uniform(0, 4, 6)
        found = overlap.exposed_seconds(ready, durations, ready[-1], share)
        assert math.isclose(found, exposed_by_events(ready, durations, ready[-1], share), abs_tol=1e-9)
        ends = overlap.transfers(ready, durations, ready[-1], share)[1]
        assert math.isclose(found, max(ends[-1] - ready[-1], 0), abs_tol=1e-9)


def test_buckets_from_the_last_layer_on():
    sizes = np.array([5.0, 1.0, 1.0, 8.0])
    assert overlap.buckets(sizes, 0).tolist() == [3, 2, 1, 0]
    assert overlap.buckets(sizes, 2).tolist() == [2, 1, 1, 0]
    assert overlap.buckets(sizes, math.inf).tolist() == [0, 0, 0, 0]


def test_one_device_alone_takes_what_its_chip_takes():
    found = simulate("resnet50", "h100", batch=64)
    assert math.isclose(found.step_seconds, compute.layer_times("resnet50", "h100", "bf16", 64).step_seconds)
    assert found.efficiency == 1 and found.exposed_seconds == found.sent_bytes == found.communication_seconds == 0


@pytest.mark.parametrize("devices", [1, 2, 3, 64, 10_000, 10_000_000])
@pytest.mark.parametrize("compressor", [None, "scalecom", "topk", "onebit"])
def test_clusters_of_any_size(devices, compressor):
    found = simulate("resnet18", Cluster("v100", devices), compressor=compressor, precision="fp16_mixed")
    assert math.isfinite(found.step_seconds) and 0 < found.efficiency <= 1
    parts = found.compute_seconds + found.exposed_seconds
    assert math.isclose(found.step_seconds, parts) and found.exposed_seconds <= found.communication_seconds * (
        1 + 1e-12
    )


def test_more_of_what_helps_never_hurts():
    def step(**changes):
        settings = {"bandwidth": 1e9, "latency": 1e-5, "overlap": 0.5, "devices": 16} | changes
        link = Link(settings["latency"], settings["bandwidth"])
        return simulate(
            "resnet50", Cluster("a100", settings["devices"], link), overlap=settings["overlap"]
        ).step_seconds

    base = step()
    assert step(bandwidth=2e9) < base < step(latency=1e-4)
    assert step(overlap=1.0) < base < step(overlap=0.0)
    assert step(devices=2) < base < step(devices=1024)


@pytest.mark.parametrize("name", compression.names())
def test_bytes_are_those_of_the_compressors_plan(name):
    compressor = compression.get(name)
    found = simulate("resnet50", Cluster("a100", 8), precision="fp32", compressor=compressor)
    expected = 0.0
    for infos in tensors_of(workloads.get("resnet50")):
        for info in infos:
            for transfer in compressor.for_layer(info).plan(info.shape):
                expected += wire_bytes(transfer.kind, transfer.payload_bytes, 8)
    assert math.isclose(found.sent_bytes, expected)


def test_all_parameters_are_tensors_of_a_compressor():
    for name in workloads.names():
        workload = workloads.get(name)
        assert sum(info.numel for infos in tensors_of(workload) for info in infos) == workload.parameters, name


def test_residues_are_what_the_compressor_really_allocates():
    info = tensors_of(workloads.get("resnet50"))[0][0]
    real = sum(array.nbytes for array in compression.TopK(0.01).init(info.shape).arrays().values())
    resnet, fp32 = workloads.get("resnet50"), precisions.get("fp32")
    assert traffic(resnet, fp32, compression.TopK(0.01)).state_bytes[0] == real == 4 * info.numel
    assert traffic(resnet, fp32, compression.DGC()).state_bytes.sum() == 2 * 4 * resnet.parameters


def test_memory_by_part():
    def parts(**changes):
        return simulate("resnet50", Cluster("a100", 8), precision="bf16", **{"batch": 32, **changes}).memory

    plain = parts()
    count = 25_557_032
    assert (
        plain["weights"] == 2 * count and plain["master"] == plain["optimizer"] == 4 * count and plain["residuals"] == 0
    )
    assert parts(batch=64)["activations"] == 2 * plain["activations"]
    sharded = parts(sharded=True)
    assert sharded["master"] == plain["master"] / 8 and sharded["weights"] == plain["weights"]
    assert parts(optimizer="adam")["optimizer"] == 2 * plain["optimizer"] and parts(optimizer="sgd")["optimizer"] == 0
    assert parts(compressor="topk")["residuals"] > 3.9 * count
    adam = memory_bytes(
        workloads.get("gpt3"), precisions.get("bf16"), traffic(workloads.get("gpt3"), precisions.get("bf16"))
    )
    assert adam["weights"] > 80e9 and not simulate("gpt3", "h100", batch=1).fits


def test_sharding_halves_the_gradients_way_and_sends_weights_instead():
    plain, sharded = (simulate("resnet50", Cluster("h100", 8), precision="hfp8_2019", sharded=s) for s in (False, True))
    count = 25_557_032 * 7 / 8
    assert math.isclose(plain.sent_bytes, 2 * 2 * count) and math.isclose(sharded.sent_bytes, (2 + 1) * count)


def test_a_measured_step_stands_in_for_the_modelled_one():
    found = simulate("resnet50", Cluster("p100", 4, "nvlink1"), precision="fp32", measured_seconds=0.2)
    assert math.isclose((found.times.forward + found.times.backward).item(), 0.2)


def test_everybody_waits_for_the_slowest():
    even, uneven = (simulate("resnet50", Cluster("h100", 8, "ideal", straggler=s)) for s in (0.0, 0.5))
    assert math.isclose(uneven.step_seconds, 1.5 * even.step_seconds, rel_tol=0.02)
    events = uneven.timeline(3)
    waits = [
        sum(e.end_seconds - e.start_seconds for e in events if e.device == d and e.kind == "idle") for d in range(3)
    ]
    assert waits[0] > waits[1] > 0 and waits[2] < 1e-5


@pytest.mark.parametrize("settings", [{}, {"compressor": "scalecom"}, {"sharded": True}, {"overlap": 0.25}])
def test_a_timeline_fills_the_step_without_gaps_or_overlaps(settings):
    found = simulate("resnet18", Cluster("v100", 16, "ethernet_10g"), precision="fp16_mixed", **settings)
    events = found.timeline(2)
    for device in 0, 1:
        lane = sorted((e.start_seconds, e.end_seconds) for e in events if e.device == device and e.lane == "compute")
        assert lane[0][0] == 0 and math.isclose(lane[-1][1], found.step_seconds)
        assert all(math.isclose(a[1], b[0], abs_tol=1e-12) for a, b in pairwise(lane))
        network = sorted((e.start_seconds, e.end_seconds) for e in events if e.device == device and e.lane == "network")
        assert all(b[0] >= a[1] - 1e-12 for a, b in pairwise(network))


def test_a_sweep_gives_what_single_simulations_give():
    frame = sweep("resnet18", devices=[1, 8], batch=[8, 32], precision=["fp32", "bf16"], compressor=["none", "topk"],
                  link=["ethernet_10g", "nvlink3"], overlap=[0.0, 1.0], chip="a100", sharded=[False, True])  # fmt: skip
    assert len(frame) == 2**7
    for row in frame.sample(12, random_state=1).to_dict("records"):
        cluster = Cluster("a100", int(row["devices"]), row["link"])
        settings = {name: row[name] for name in ("precision", "compressor", "overlap", "sharded")}
        one = simulate("resnet18", cluster, batch=int(row["batch"]), **settings).to_dict()
        for name in ("step_seconds", "exposed_seconds", "efficiency", "throughput", "sent_bytes", "memory_bytes"):
            assert math.isclose(row[name], one[name], rel_tol=1e-12), name


def test_a_step_and_a_sweep_have_the_same_columns():
    one, (row,) = simulate("resnet18", "a100").to_dict(), sweep("resnet18", chip="a100").to_dict("records")
    assert set(one) == set(row)
    assert all(one[name] == row[name] for name in one if isinstance(one[name], str | bool | int | float))


def test_times_are_plain_numbers():
    step = simulate("resnet18", Cluster("h100", 8))
    found = [seconds for event in step.timeline() for seconds in (event.start_seconds, event.end_seconds)]
    found += compute.layer_times("resnet18", "h100", "bf16").parts().values()
    assert {type(seconds) for seconds in found} == {float}


def test_thousands_of_points_are_one_array():
    frame = sweep("resnet50", devices=2.0 ** np.arange(10), bytes_per_second=np.geomspace(1e8, 1e12, 50),
                  batch=[8, 32, 128], latency_seconds=[1e-6, 1e-5, 1e-4])  # fmt: skip
    assert len(frame) == 4500 and frame.efficiency.between(0, 1).all()
    alone = frame[frame.devices == 1]
    assert (alone.efficiency == 1).all()


def test_weak_and_strong_scaling():
    weak = scaling("resnet50", [1, 4, 16], batch=64, link="ethernet_10g")
    strong = scaling("resnet50", [1, 4, 16, 4096], batch=64, mode="strong", link="ethernet_10g")
    assert weak.batch.tolist() == [64, 64, 64] and strong.batch.tolist() == [64, 16, 4, 1]
    assert (strong.efficiency[1:3] < weak.efficiency[1:]).all() and strong.efficiency.iloc[0] == weak.efficiency.iloc[
        0
    ] == 1
    assert strong.throughput.iloc[-1] == 64 / strong.step_seconds.iloc[-1]


def test_fewer_bits_compute_faster_and_scale_worse():
    wide, narrow = (simulate("resnet50", Cluster("h100", 64), precision=name, batch=64) for name in ("fp32", "bf16"))
    assert narrow.step_seconds < wide.step_seconds and narrow.efficiency < wide.efficiency


def bytes_of_resnet(**points: object) -> dict:
    design = simulate("resnet50", "h100").design
    return memory_bytes(design.workload, design.precision, design.traffic, **points)


@pytest.mark.parametrize(("ask", "message"), [
    (lambda: simulate("resnet50", "h1000"), "there is no chip 'h1000'; did you mean"),
    (lambda: simulate("resnet5", "h100"), "there is no workload 'resnet5'; did you mean"),
    (lambda: simulate(Workload("empty", "", ()), "h100"), "has no layers"),
    (lambda: simulate(Workload("pool", "", (Layer("p", "pool", inputs=4, outputs=1),)), "h100"), "no matrix product"),
    (lambda: Cluster("h100", 0), "1 or more, got 0"),
    (lambda: Cluster("h100", -3), "1 or more, got -3"),
    (lambda: Cluster("h100", 2, straggler=-0.1), "straggler must be 0 or more"),
    (lambda: simulate("resnet50", "h100", batch=0), "batch must be a whole number from 1"),
    (lambda: simulate("resnet50", "h100", batch=math.inf), "batch must be at most 2^53, got inf"),
    (lambda: simulate("resnet50", "h100").design.sent_bytes("8"), "the number of devices must be a number or an array"),
    (lambda: simulate("resnet50", "h100").design.traffic.sent_bytes("8"), "the number of devices must be a number or"),
    (lambda: bytes_of_resnet(devices="8"), "the number of devices must be a number or an array of numbers, got '8'"),
    (lambda: bytes_of_resnet(batch="8"), "batch must be a whole number from 1"),
    (lambda: simulate("resnet50", "h100", overlap=1.5), "overlap must be from 0 to 1"),
    (lambda: simulate("resnet50", "h100", bucket_bytes=-1), "bucket_bytes must be 0 or more"),
    (lambda: simulate("resnet50", "h100", precision="int8"), "int8 is for inference"),
    (lambda: simulate("resnet50", "h100", optimizer="lamb"), "allowed: sgd, momentum, adam"),
    (lambda: simulate("resnet50", "h100", measured_seconds=-1), "measured_seconds must be above 0"),
    (lambda: simulate("resnet50", "p100", precision="hfp8_2019"), "has no rate for fp8"),
    (lambda: simulate("resnet50", "h100", compressor="topq"), "did you mean topk"),
    (lambda: simulate("resnet50", "h100").timeline(0), "1 device or more, got 0"),
    (lambda: simulate("resnet50", "h100", bucket_bytes="big"), "bucket_bytes must be a number, got 'big'"),
    (lambda: simulate("resnet50", "h100", sharded="no"), "sharded must be True or False, got 'no'"),
    (lambda: simulate("resnet50", "h100", measured_seconds="1"), "measured_seconds must be a number, got '1'"),
    (lambda: simulate("resnet50", "h100", compressor=1.0), "a compressor is text"),
    (lambda: Cluster("h100", 2, link=2.0), "a link is a name, a text"),
    (lambda: sweep("resnet50", batch=[8, 1.5]), "batch must be a whole number from 1 (or an array of them), got 1.5"),
    (lambda: sweep("resnet50", batch=[8, math.inf]), "batch must be at most 2^53, got inf"),
    (lambda: sweep("resnet50", devices=[8, 1e30]), "the number of devices must be at most 2^53, got 1e+30"),
    (lambda: sweep("resnet50", overlap=[0.5, 2]), "overlap must be from 0 to 1, got 2"),
    (lambda: sweep("resnet50", devices=2, straggler=[0.1, -0.5]), "straggler must be 0 or more, got -0.5"),
    (lambda: sweep("resnet50", straggler=math.nan), "axis 'straggler' takes numbers, got nan"),
    (lambda: sweep("resnet50", bytes_per_second=[1e9, math.nan]), "axis 'bytes_per_second' takes numbers, got nan"),
    (lambda: sweep("resnet50", workload="vgg16"), "unknown axis 'workload'"),
    (lambda: sweep("resnet50", nodes=3), "unknown axis 'nodes'; allowed: chip"),
    (lambda: sweep("resnet50", devices=[]), "axis 'devices' has no values"),
    (lambda: sweep("resnet50", bytes_per_second=[1e9, -1]), "must be positive, got -1"),
    (lambda: scaling("resnet50", [1], batch=8, mode="medium"), "weak or strong"),
    (lambda: scaling("resnet50", [0], batch=8, mode="strong"), "1 or more, got 0"),
    (lambda: scaling("resnet50", [], batch=8, mode="strong"), "axis 'devices' has no values"),
    (lambda: Cluster("h100", "2"), "devices of a cluster must be a number, got '2'"),
    (lambda: Cluster("h100", [1, 2]), "devices of a cluster must be a number, got [1, 2]"),
    (lambda: simulate("resnet50", "h100", batch=[1, 2]), "one batch, got [1, 2]; lplab.hardware.sweep takes several"),
    (lambda: simulate("resnet50", "h100", utilization=None), "utilization must be above 0 and at most 1"),
])  # fmt: skip
def test_bad_input_is_told_in_one_line(ask, message):
    with pytest.raises(ValueError) as problem:
        ask()
    assert message in str(problem.value) and "\n" not in str(problem.value)


def test_what_is_no_cluster_is_refused():
    with pytest.raises(TypeError, match="on a Cluster, or on a chip, got int"):
        simulate("resnet50", 8)
