"""The model of network and step against real processes over links of a known speed (Linux and root; else skipped).

Bytes are counted by the kernel and must agree closely. Seconds hang on what else the machine does: they are bounded
from below by the link, which no machine can beat, and from above with a wide margin.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from lplab.compression.ratios import total_wire_bytes  # noqa: E402
from lplab.hardware import Cluster, Link, network, precisions, simulate, workloads  # noqa: E402
from lplab.hardware.accelerators import Accelerator  # noqa: E402
from lplab.parallel import Learners, shards  # noqa: E402
from lplab.training.loop.trainer import default_loss  # noqa: E402
from tests.hardware import capped, capped_run  # noqa: E402

PROJECT = Path(__file__).parents[2]
BITS_PER_SECOND = 40e6
LINK = Link(1e-4, BITS_PER_SECOND / 8 * capped.PAYLOAD_SHARE)
HEADERS = 1.12  # bytes on the line over payload, at most: headers, acknowledgements, and gloo's own messages
ROOM = 1.8  # for a machine that does other things, too
BURST = 64_000  # bytes that may leave at once after a pause
WORLDS = [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def runs():
    """What all ranks found, by their number; each is run once."""
    reason, found = capped.why_not(), {}
    if reason:
        pytest.skip(reason)

    def of(world):
        if world not in found:
            with capped.capped(world, BITS_PER_SECOND) as links:
                script, path = str(Path(capped_run.__file__)), {"PYTHONPATH": str(PROJECT)}
                ranks = [links.start(rank, [script], **path) for rank in range(world)]
                try:
                    outputs = [rank.communicate(timeout=400) for rank in ranks]
                finally:
                    for rank in ranks:
                        rank.kill()
            assert not any(rank.returncode for rank in ranks), outputs[0][1][-3000:]
            found[world] = [json.loads(output) for output, _ in outputs]
        return found[world]

    return of


def seconds(found):
    """The fastest of the repeats."""
    return min(time for time, _ in found)


def nbytes(ranks, *where):
    """Bytes sent in one call: median of the repeats, mean over the ranks."""
    for key in where:
        ranks = [rank[key] for rank in ranks]
    return float(np.mean([np.median([count for _, count in rank]) for rank in ranks]))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("size", capped_run.SIZES)
def test_bytes_of_an_all_reduce(world, size, runs):
    model = network.sent_bytes("ring", world, size)
    assert 1 < nbytes(runs(world), "all_reduce", str(size)) / model < HEADERS


@pytest.mark.parametrize("world", WORLDS)
def test_seconds_of_an_all_reduce(world, runs):
    for size in capped_run.SIZES:
        model = network.all_reduce_seconds("ring", world, size, LINK)
        real = seconds(runs(world)[0]["all_reduce"][str(size)])
        free = 2 * BURST / LINK.bytes_per_second
        assert real > 0.95 * model - free, "faster than the link"
        if size == max(capped_run.SIZES):
            assert real < ROOM * model


def simulated(exchange, world, alone):
    """The simulator's step of the same network with the computing time of one process."""
    net = capped_run.model()
    workload = workloads.from_module(net, torch.zeros(capped_run.BATCH, capped_run.WIDTH))
    chip = Accelerator("cpu", "one core", {"fp32": 1e10})
    bits = replace(precisions.get("fp32"), gradient_wire_bits=16, weight_wire_bits=8)
    settings = {
        "dense": {"precision": "fp32"},
        "scalecom": {"precision": "fp32", "compressor": "scalecom:chunk=100,beta=1"},
        "weights in 8 bits": {"precision": bits, "sharded": True},
    }[exchange]
    cluster = Cluster(chip, world, LINK, algorithm="ring")
    return simulate(workload, cluster, batch=capped_run.BATCH, measured_seconds=alone, **settings)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("exchange", capped_run.EXCHANGES)
def test_bytes_of_a_step(exchange, world, runs):
    """All three exchanges send what the simulator says: dense gradients, ScaleCom's, and weights in 8 bits."""
    model = simulated(exchange, world, 0.01).sent_bytes
    more = 10_000 * world if exchange == "scalecom" else 0  # small messages to everybody: headers weigh more
    assert 1 < nbytes(runs(world), "step", exchange) / model < HEADERS + more / model


def counted(exchange, world):
    """Bytes that a rank sends in a step by the traffic log of simulated learners, on average."""
    name = exchange.removesuffix(", ordered")
    batches = shards(lambda step: (torch.ones(world, capped_run.WIDTH), torch.zeros(world, dtype=torch.long)), world)
    learners = Learners(capped_run.model(), default_loss, batches, capped_run.COMPRESSORS[name], world)
    learners.one_step()
    return total_wire_bytes(learners.ledger.entries, world, ordered=exchange in capped_run.ORDERED) / world


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("exchange", [*capped_run.COMPRESSORS, *capped_run.ORDERED])
def test_bytes_of_the_hook_are_those_of_the_byte_counter(exchange, world, runs):
    """By default a rank's sums are less than twice its values; in the order of ranks they go to every other rank."""
    small = 6_000 * world if exchange.startswith("scalecom") else 0  # messages for which headers weigh more
    model = counted(exchange, world)
    assert 1 < nbytes(runs(world), "step", exchange) / model < HEADERS + small / model


def table_of_the_page():
    """Kilobytes in docs/compress_training.md: {exchange: (2 ranks, 4 ranks, 8 ranks)}."""
    page = (PROJECT / "docs/compress_training.md").read_text("utf-8")
    rows = re.findall(r"^\| `([^|]*)` \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", page, re.M)
    return {name: tuple(int(n.replace(",", "")) for n in numbers) for name, *numbers in rows}


EXCHANGES_OF_THE_PAGE = {
    "dense": "dense",
    "dense, ordered=True": "dense, ordered",
    "scalecom:chunk=100": "scalecom",
    "scalecom:chunk=100, ordered=True": "scalecom, ordered",
}


def test_kilobytes_of_eight_ranks_on_the_page_are_counted():
    table = table_of_the_page()
    assert table.keys() == EXCHANGES_OF_THE_PAGE.keys()
    for name, exchange in EXCHANGES_OF_THE_PAGE.items():
        assert table[name][2] == round(counted(exchange, 8) / 1e3)


@pytest.mark.parametrize(("column", "world"), [pytest.param(i, n, marks=pytest.mark.slow) for i, n in ((0, 2), (1, 4))])
def test_kilobytes_of_two_and_four_ranks_on_the_page_were_measured(column, world, runs):
    for name, kilobytes in table_of_the_page().items():
        real = nbytes(runs(world), "step", EXCHANGES_OF_THE_PAGE[name]) / 1e3
        assert kilobytes[column] == pytest.approx(real, rel=0.03, abs=4), name


@pytest.mark.parametrize("world", WORLDS)
def test_seconds_of_a_dense_step(world, runs):
    alone = seconds(runs(world)[0]["step"]["alone"])
    model = simulated("dense", world, alone).step_seconds
    real = seconds(runs(world)[0]["step"]["dense"])
    assert 0.9 < real / model < ROOM, f"{real:.3f} s, by the model {model:.3f} s"


@pytest.mark.parametrize("world", WORLDS)
def test_the_exchanges_stand_in_the_model_s_order(world, runs):
    """Dense, weights in 8 bits, ScaleCom: each at least a quarter faster than the one before, as the model says."""
    found = runs(world)[0]["step"]
    real = [seconds(found[name]) for name in ("dense", "weights in 8 bits", "scalecom")]
    model = [simulated(name, world, 0.01).step_seconds for name in ("dense", "weights in 8 bits", "scalecom")]
    for slow, fast in ((0, 1), (1, 2)):
        assert model[fast] < 0.75 * model[slow]
        assert real[fast] < real[slow]


@pytest.mark.parametrize("world", WORLDS)
def test_behind_the_backward_pass_a_slow_link_changes_no_bit(world, runs):
    """Buckets wait for the link while the backward pass ends; all ranks have the weights of the hook that waits."""
    assert len({weights for rank in runs(world) for weights in rank["weights"]}) == 1


def test_a_network_that_is_refused_says_why(monkeypatch):
    monkeypatch.setattr(capped.os, "geteuid", lambda: 1000)
    assert capped.why_not() == "network namespaces need root"
