"""Collectives: their formulas against counting, NCCL's constants, links, fabrics of nodes."""

import math

import numpy as np
import pytest

from lplab.compression.ratios import wire_bytes
from lplab.hardware import Link, network
from lplab.hardware.network import links, nccl_tuner
from lplab.hardware.network.all_reduce_algorithms import ALL_REDUCE, log2_ceil, log2_floor
from lplab.hardware.network.fabric import COLLECTIVES, Fabric
from lplab.hardware.sourced_value import GRADES, sources

RANKS = np.array([1, 2, 3, 4, 7, 8, 64, 1000, 10_000_000])


def ring_by_hand(ranks: int, nbytes: int) -> tuple[int, list[float]]:
    """Steps of a ring all-reduce and bytes that each rank sends, counted message by message."""
    part, sent, steps = nbytes / ranks, [0.0] * ranks, 0
    for _ in range(2 * (ranks - 1)):
        steps += 1
        for rank in range(ranks):
            sent[rank] += part
    return steps, sent


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 64])
def test_t28_ring_all_reduce_has_the_steps_and_bytes_of_counting(ranks):
    steps, sent = ring_by_hand(ranks, 1 << 20)
    assert network.steps("ring", ranks) == steps == 2 * (ranks - 1)
    assert math.isclose(network.sent_bytes("ring", ranks, 1 << 20), max(sent))
    assert math.isclose(wire_bytes("all_reduce", 1 << 20, ranks), max(sent))


@pytest.mark.parametrize("power", range(1, 11))
def test_t29_halving_doubling_of_powers_of_two(power):
    ranks = 2**power
    assert network.steps("halving_doubling", ranks) == 2 * power
    assert math.isclose(network.sent_bytes("halving_doubling", ranks, 1e6), 2e6 * (ranks - 1) / ranks)


def halving_by_hand(ranks: int) -> tuple[int, float, float]:
    """Steps, bytes that pass one after the other, and bytes of the busiest rank, for a buffer of one byte."""
    power = 1 << (ranks.bit_length() - 1)
    left = ranks - power
    sent, steps, path = [0.0] * ranks, 0, 0.0

    def exchange(senders, share):
        nonlocal steps, path
        steps, path = steps + 1, path + share
        for rank in senders:
            sent[rank] += share

    if left:
        exchange(range(power, ranks), 1.0)  # left-over ranks fold in
    shares = [0.5**i for i in range(1, power.bit_length())]
    for share in shares + shares[::-1]:
        exchange(range(power), share)
    if left:
        exchange(range(left), 1.0)  # and are given the sum
    return steps, path, max(sent)


@pytest.mark.parametrize("ranks", [2, 3, 5, 6, 8, 12, 100])
def test_halving_doubling_of_any_ranks_is_counting(ranks):
    steps, path, sent = halving_by_hand(ranks)
    found = ALL_REDUCE["halving_doubling"]
    assert network.steps("halving_doubling", ranks) == steps
    assert math.isclose(network.sent_bytes("halving_doubling", ranks, 1.0), sent)
    assert math.isclose(found.seconds(ranks, 1e9, Link(0.0, 1e9)), path)


def test_t30_and_t31_the_latencies_of_nccls_tuner():
    assert math.isclose(nccl_tuner.latency_seconds("ring", "simple", 2, 8) * 1e6, 8.4 + 28 * 3.4 + 2 * 9.6)
    assert math.isclose(nccl_tuner.latency_seconds("tree", "ll", 2, 8) * 1e6, 4.4 + 2 * (7 * 0.52 * 1.8 + 5.0))
    busy = nccl_tuner.latency_seconds("ring", "simple", 2, 8, busy=True)
    assert math.isclose(busy, 1.9 * nccl_tuner.latency_seconds("ring", "simple", 2, 8))


def test_nccls_trees_have_a_ceiling_and_a_share_by_protocol():
    def tree(protocol, nodes, bus):
        return nccl_tuner.bandwidth("tree", protocol, nodes, 8, bus)

    assert [tree("simple", nodes, 450e9) for nodes in (1, 2, 3)] == [55e9, 55e9, 40e9]
    assert math.isclose(tree("simple", 4, 20e9), 0.9 * 20e9 / 2)
    assert math.isclose(tree("ll", 4, 20e9), 0.9 * 20e9 / 3.8 / 2)
    assert math.isclose(tree("ll128", 1, 20e9), 0.9 * 20e9 * 7 / 9 / 2)
    assert math.isclose(tree("ll128", 4, 20e9), 0.9 * 20e9 * 0.915 / 2)


def test_nccls_rings_across_nodes_are_slower_to_begin_from_4096_bytes_a_rank_on():
    latency = nccl_tuner.latency_seconds("ring", "simple", 2, 8)
    sizes = np.array([16 * 4096 - 1, 16 * 4096])
    found = nccl_tuner.all_reduce_seconds(2, 8, sizes, 1e15, "ring", "simple")
    np.testing.assert_allclose(found, [latency, 1.9 * latency], rtol=1e-5)
    inside = nccl_tuner.all_reduce_seconds(1, 8, sizes, 1e15, "ring", "simple")
    np.testing.assert_allclose(inside, nccl_tuner.latency_seconds("ring", "simple", 1, 8), rtol=1e-5)


@pytest.mark.parametrize(("inner", "hop"), [("pcie4", "pci"), ("nvlink3", "nvlink")])
def test_nccl_hops_inside_a_node_are_those_of_its_link(inner, hop):
    fabric = Fabric("infiniband_hdr", "nccl", devices_per_node=8, inner_link=inner)
    assert fabric.seconds("all_reduce", 1e3, 16) == nccl_tuner.all_reduce_seconds(2, 8, 1e3, 25e9, inner=hop)


def test_t52_the_preset_of_gtopk():
    link, beta = links.get("gtopk_10g"), 1.2 / (9 * 2**30 / 8)  # seconds a byte, as in their script
    for ranks in 2, 4, 8, 16, 32:
        expected = 2 * (ranks - 1) * 45.25e-6 + 2 * (ranks - 1) / ranks * 1e8 * beta
        assert math.isclose(network.all_reduce_seconds("ring", ranks, 1e8, link), expected)


def test_a_broadcast_of_a_large_buffer_by_hand():
    """Scatter in log2 8 = 3 steps, all-gather in 8 − 1 = 7: 10 ms. Each sends 7/8 of the buffer: 2 · 0.875 s."""
    assert math.isclose(network.broadcast_seconds(8, 1e9, Link(1e-3, 1e9)), 0.010 + 1.75)


@pytest.mark.parametrize("algorithm", network.names())
def test_arrays_give_what_single_numbers_give(algorithm):
    together = network.all_reduce_seconds(algorithm, RANKS, 1e6, Link(1e-6, 1e9), 1e-12)
    one_by_one = [network.all_reduce_seconds(algorithm, n, 1e6, Link(1e-6, 1e9), 1e-12) for n in RANKS.tolist()]
    np.testing.assert_array_equal(together, one_by_one)
    assert together[0] == 0 and (together[1:] > 0).all() and np.isfinite(together).all()


def test_every_argument_may_be_an_array():
    link = Link(np.array([1e-6, 2e-6]), np.array([1e9, 2e9]))
    found = network.all_reduce_seconds("ring", np.array([[4], [8]]), np.array([1e6, 2e6]), link)
    assert found.shape == (2, 2) and found[1, 1] == network.all_reduce_seconds("ring", 8, 2e6, Link(2e-6, 2e9))


def test_auto_is_the_fastest_and_the_choice_depends_on_size():
    small, large = (
        {name: network.all_reduce_seconds(name, 512, nbytes, Link(1e-5, 1e10)) for name in ("ring", "halving_doubling")}
        for nbytes in (1e3, 1e9)
    )
    assert small["halving_doubling"] < small["ring"] / 10
    assert math.isclose(large["ring"], large["halving_doubling"], rel_tol=0.1)
    assert network.all_reduce_seconds("auto", 512, 1e3, Link(1e-5, 1e10)) <= min(small.values())


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 1023, 1024, 1025, 2**40 + 1])
def test_logarithms_are_exact(n):
    assert log2_floor(np.array(float(n))) == n.bit_length() - 1
    assert log2_ceil(np.array(float(n))) == (n - 1).bit_length()


@pytest.mark.parametrize(("ask", "message"), [
    (lambda: network.all_reduce_seconds("ring", 0, 1, "ideal"), "whole number, 1 or more, got 0"),
    (lambda: network.all_reduce_seconds("ring", 2.5, 1, "ideal"), "got 2.5"),
    (lambda: network.all_reduce_seconds("rung", 2, 1, "ideal"), "did you mean ring"),
    (lambda: network.all_reduce_seconds("ring", 2, -1, "ideal"), "0 bytes or more, got -1"),
    (lambda: network.all_reduce_seconds("ring", "8", 1, "ideal"), "number of devices must be a number .*, got '8'"),
    (lambda: network.all_reduce_seconds("ring", [2, "4"], 1, "ideal"), "devices must be a number or an array of num"),
    (lambda: network.steps("ring", "many"), "the number of devices must be a number .*, got 'many'"),
    (lambda: network.steps("ring", 1e30), r"the number of devices must be at most 2\^53, got 1e\+30"),
    (lambda: network.steps("ring", 10**400), "the number of devices must be within the range of float64"),
    (lambda: network.sent_bytes("ring", 8, "1MB"), "the bytes of a message must be a number or .*, got '1MB'"),
    (lambda: network.all_gather_seconds(8, "1000", "ideal"), "the bytes of a message must be .*, got '1000'"),
    (lambda: Fabric("ideal").seconds("all_reduce", None, 8), "the bytes of a message must be a number or .*, got None"),
    (lambda: Fabric("ideal", devices_per_node="4"), "the number of devices must be a number or .*, got '4'"),
    (lambda: Link(1e-6, 1e9).seconds("1e6"), "the bytes of a message must be a number or .*, got '1e6'"),
    (lambda: Link(1e-6, 1e9).shared("two"), "the ways of a shared link must be a number or .*, got 'two'"),
    (lambda: Link("x", 1e9), "latency_seconds of a link must be a number or an array of numbers, got 'x'"),
    (lambda: Link(1e-6, "fast"), "bytes_per_second of a link must be a number or an array of numbers, got 'fast'"),
    (lambda: Link(None, 1e9), "latency_seconds of a link must be a number or an array of numbers, got None"),
    (lambda: Link(1e-6, -5.0), "must be positive, got -5.0"),
    (lambda: Link(1e-6, 0.0), "must be positive, got 0.0"),
    (lambda: Link(-1e-6, 1.0), "must be finite and 0 or more, got -1e-06"),
    (lambda: Link(0.0, np.array([1.0, math.nan])), "must be positive, got nan"),
    (lambda: links.get("-5Gb/s"), "must be positive"),
    (lambda: links.get("ethernet_9g"), "did you mean"),
    (lambda: links.get("1.2.3Gb/s"), "there is no link '1.2.3Gb/s'"),
    (lambda: Fabric("ideal", devices_per_node=4), "need inner_link="),
    (lambda: Fabric("ideal", devices_per_node=4, inner_link="ideal").split(6), "6 devices do not fill nodes of 4"),
    (lambda: Fabric("ideal", "rings"), "did you mean ring"),
    (lambda: Fabric("ideal").seconds("scatter", 1, 2), "allowed: all_reduce, all_gather"),
    (lambda: nccl_tuner.all_reduce_seconds(1, 8, 1e9, -1.0), "bus_bytes_per_second must be positive, got -1"),
    (lambda: nccl_tuner.all_reduce_seconds(1, 8, 1e9, "fast"), "bus_bytes_per_second must be a number .*, got 'fast'"),
    (lambda: nccl_tuner.all_reduce_seconds(1, 8, "1GB", 1e9), "the bytes of a message must be a number .*, got '1GB'"),
    (lambda: nccl_tuner.latency_seconds("ring", "ll", 1, 8, inner="wire"), "allowed: nvlink, pci"),
])  # fmt: skip
def test_bad_input_is_told_in_one_line(ask, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as problem:
        ask()
    assert "\n" not in str(problem.value)


def test_every_link_of_the_table_has_grades_and_sources_that_exist():
    for name in links.names():
        link = links.get(name)
        assert {link.latency_grade, link.bandwidth_grade} <= set(GRADES), name
        assert all(source in sources() or source == "lplab" for source in link.source.split("; ")), name


def test_a_file_of_links_of_your_own(tmp_path):
    path = tmp_path / "links.csv"
    path.write_text("name,label,latency_seconds,bytes_per_second\nmine,My wire,1e-6,1e9 measured bench\n", "utf-8")
    assert links.load(path)["mine"].bandwidth_grade == "measured"
    path.write_text("name,label,latency_seconds,bytes_per_second\nmine,My wire,1e-6,-1\n", "utf-8")
    with pytest.raises(ValueError, match="link mine: bytes_per_second of a link must be positive"):
        links.load(path)
    path.write_text("name,latency_seconds,bytes_per_second\nmine,1e-6,1e9\nmine,1e-6,2e9\n", "utf-8")
    with pytest.raises(ValueError, match="link mine is given twice"):
        links.load(path)


@pytest.mark.parametrize("text", ["10Gb/s", "1.25GB/s", "1250 MB/s , 10us", "1.25e9B/s,1e-2ms"])
def test_a_link_can_be_typed_in_several_ways(text):
    assert math.isclose(links.get(text).seconds(1.25e9), 1.00001, rel_tol=1e-9)


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_nodes_of_one_device_are_a_flat_network(kind):
    flat, nodes = Fabric("nvlink3", "ring"), Fabric("nvlink3", "ring", devices_per_node=1, inner_link="ideal")
    assert flat.seconds(kind, 1e6, 8) == nodes.seconds(kind, 1e6, 8) > 0
    assert flat.seconds(kind, 1e6, 1) == 0


def test_nodes_share_their_link_and_ddl_is_the_sum_over_dimensions():
    nodes = Fabric("infiniband_edr", "ring", devices_per_node=4, inner_link="nvlink1")
    outer, inner = links.get("infiniband_edr").shared(4), links.get("nvlink1")
    expected = network.all_reduce_seconds("ring", 4, 1e8, inner)
    expected += network.all_reduce_seconds("ring", 64, 1e8 / 4, outer)
    assert math.isclose(nodes.seconds("all_reduce", 1e8, 256), expected)
    scattered = nodes.seconds("reduce_scatter", 1e8, 256) + nodes.seconds("gather_shards", 1e8, 256)
    assert math.isclose(scattered, expected)


def test_a_gather_grows_with_the_devices_and_a_sum_does_not():
    fabric = Fabric(Link(0.0, 1e9), "ring")
    sums, gathers = (fabric.seconds(kind, 1e6, np.array([64, 512])) for kind in ("all_reduce", "all_gather"))
    assert sums[1] / sums[0] < 1.02 and math.isclose(gathers[1] / gathers[0], 511 / 63)


@pytest.mark.parametrize("name", [*network.names(), "nccl"])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather"])
def test_an_algorithm_may_be_spelled_with_capitals_and_dashes(name, kind):
    own, other = (Fabric("nvlink3", word).seconds(kind, 1e6, 6) for word in (name, name.upper().replace("_", "-")))
    assert own == other


def test_nccls_names_may_be_spelled_with_capitals():
    for ask in (nccl_tuner.latency_seconds, nccl_tuner.bandwidth):
        more = () if ask is nccl_tuner.latency_seconds else (1e9,)
        assert ask("Ring", "Simple", 2, 8, *more) == ask("ring", "simple", 2, 8, *more)


def test_a_parameter_server_is_a_bottleneck_and_shards_are_not():
    one, many = (Fabric(Link(0.0, 1e9), name) for name in ("parameter_server", "sharded_server"))
    assert math.isclose(one.seconds("all_reduce", 1e6, 100), 2 * 100 * 1e6 / 1e9)
    assert math.isclose(many.seconds("all_reduce", 1e6, 100), 2 * 1e6 / 1e9)
    assert one.seconds("all_gather", 1e3, 100) > 50 * many.seconds("all_gather", 1e3, 100)
