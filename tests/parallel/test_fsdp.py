"""FSDP with few bits over gloo: weights against the simulated sharded update, gradients between replicas by hand."""

from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.distributed.fsdp import FSDPModule  # noqa: E402

from lplab.compression import LayerInfo, compressor_catalogue, exchange  # noqa: E402
from lplab.compression.sharded_weights import LEARNING_RATE, MOMENTUM, ShardedUpdateFormats  # noqa: E402
from lplab.parallel import LocalSteps, SimulatedShardedTraining  # noqa: E402
from lplab.parallel.fsdp import FSDPHook, broadcast_from_first  # noqa: E402
from lplab.training.loop.trainer import default_loss  # noqa: E402
from tests.parallel import fsdp_run  # noqa: E402

WORLDS = [3, pytest.param(2, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]


def gradients(net, step, rank):
    net.zero_grad()
    inputs, targets = fsdp_run.batch(step, rank)
    default_loss(net(inputs), targets).backward()
    return {name: p.grad.numpy().copy() for name, p in net.named_parameters()}


def shard(gradient, number, shards):
    """Rows of one shard; all have as many as the first, filled up with zeros."""
    rows = -(-len(gradient) // shards)
    part = np.zeros((rows, *gradient.shape[1:]), np.float32)
    own = gradient[number * rows : (number + 1) * rows]
    part[: len(own)] = own
    return part


def by_hand(world, skip=None):
    """The training of fsdp_run between replicas, in numpy: each shard is one exchange of the replicas."""
    shards = 2 if world == 4 else 1
    replicas, net = world // shards, fsdp_run.model(bias=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    states, compressors, number = {}, {}, 0
    for step in range(fsdp_run.STEPS):
        of_ranks = [gradients(net, step, rank) for rank in range(world)]
        if step == skip:
            number += 1
            continue
        for name, parameter in net.named_parameters():
            averages = []
            for part in range(shards):
                means = []
                for replica in range(replicas):
                    total = np.float32(0)
                    for rank in range(replica * shards, (replica + 1) * shards):
                        total = total + shard(of_ranks[rank][name], part, shards)
                    means.append(total / np.float32(shards))
                key = (name, part)
                if key not in states:
                    info = LayerInfo(name, means[0].shape, "dense" if means[0].ndim > 1 else "small")
                    compressors[key] = compressor_catalogue.get(fsdp_run.COMPRESSOR).for_layer(info)
                    states[key] = [compressors[key].init(means[0].shape) for _ in range(replicas)]
                averages.append(exchange(compressors[key], means, states[key], step=number, layer=name))
                for state in states[key]:
                    state.commit()
            parameter.grad = torch.from_numpy(np.concatenate(averages)[: len(parameter)])
        optimizer.step()
        number += 1
    return dict(net.named_parameters())


@pytest.mark.parametrize("world", WORLDS)
def test_weights_gathered_in_8_bits_are_those_of_the_sharded_update(world, ranks):
    """The owner's float32 weights are the 8-bit values plus a float32 residual: the same bits after each step."""
    formats = ShardedUpdateFormats("fp32", "fp32", fsdp_run.WEIGHT, "fp32")
    simulated = SimulatedShardedTraining(fsdp_run.model(bias=False), fsdp_run.batch, world, scheme=formats)
    list(simulated.steps(fsdp_run.STEPS))
    weights = np.split(simulated.sharded_weights.weights(), 3)
    for result in ranks(fsdp_run, world):
        real = result["weights in 8 bits"]["weights"]
        assert all((tensor.numpy().ravel() == w).all() for tensor, w in zip(real.values(), weights, strict=True))


@pytest.mark.parametrize("world", WORLDS)
def test_weights_in_8_bits_take_a_quarter_of_the_bytes(world, ranks):
    rows, width = -(-fsdp_run.WIDTH // world), fsdp_run.WIDTH
    for result in ranks(fsdp_run, world):
        ledger = result["weights in 8 bits"]["ledger"]
        sizes = {kind: {n for _, k, n in ledger if k == kind} for kind in ("all_gather", "reduce_scatter")}
        assert sizes == {"all_gather": {rows * width * (world - 1)}, "reduce_scatter": {4 * rows * width * (world - 1)}}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("run", "skip"), [("replicas", None), ("poisoned", 2), ("overflowing", 2)])
def test_scalecom_between_replicas(run, skip, world, ranks):
    """Bit for bit; a step with NaN on one rank, or a sum that overflows, is made by none, and leaves no trace."""
    expected = by_hand(world, skip)
    for result in ranks(fsdp_run, world):
        real = result[run]
        assert real["skipped"] == [step == skip for step in range(fsdp_run.STEPS)]
        assert all(torch.equal(real["weights"][name], parameter) for name, parameter in expected.items())
    for result in ranks(fsdp_run, world):
        residuals = [t for arrays in result["residuals"].values() for t in arrays.values()]
        assert residuals and all(torch.isfinite(r).all() and r.any() for r in residuals)


@pytest.mark.parametrize("world", WORLDS)
def test_a_resumed_run_goes_on_bit_for_bit(world, ranks):
    for result in ranks(fsdp_run, world):
        on, resumed = result["gone on"]["weights"], result["resumed"]["weights"]
        assert all(torch.equal(tensor, resumed[name]) for name, tensor in on.items())
        assert any((tensor != result["poisoned"]["weights"][name]).any() for name, tensor in on.items())


@pytest.mark.parametrize("world", WORLDS)
def test_models_states_and_steps_that_do_not_fit_are_refused(world, ranks):
    for result in ranks(fsdp_run, world):
        mesh, state, step = result["refusals"]
        assert "float32 parameters are needed, sharded along the first dimension over a mesh of one dimension" in mesh
        assert "'world': 99} here is" in state.replace(",", "") and "FSDP's residuals need the same ranks" in state
        assert "in this step not all parameters have gradients (seen in '3')" in step


@pytest.mark.parametrize("world", WORLDS)
def test_replicas_begin_with_the_weights_and_buffers_of_the_first(world, ranks):
    """Without a broadcast each replica trained weights of its own, and only their updates were equal."""
    found = [result["another seed"] for result in ranks(fsdp_run, world)]
    for one in found:
        first = next(other for other in found if other["shard"] == one["shard"])
        assert all(torch.equal(value, one["after"][name]) for name, value in first["before"].items())
    assert len({one["before"]["0.weight"].sum().item() for one in found}) == world, "each had made its own"


@pytest.mark.parametrize("world", WORLDS)
def test_a_group_without_gradients_is_noticed_in_the_same_step(world, ranks):
    for result in ranks(fsdp_run, world):
        left_out = result["left out"]
        assert [bool(message) for message in left_out["said"]] == [False, True, False, False]
        assert "in this step not all parameters have gradients (seen in '1')" in left_out["said"][1]
        assert left_out["step"] == 3


def rounded(x, largest):
    """Integers with one scale for each block, written anew: float32 of the same shape."""
    flat, found = x.ravel(), np.empty(x.size, np.float32)
    for start in range(0, x.size, fsdp_run.BLOCK):
        block = flat[start : start + fsdp_run.BLOCK]
        scale = np.abs(block).max() / np.float32(largest)
        found[start : start + len(block)] = np.rint(block / (scale if scale > 0 else np.float32(1))) * scale
    return found.reshape(x.shape)


def zeropp_by_hand(world):
    """The training of fsdp_run in numpy: weights rounded to 8 bits, gradients rounded twice to 4."""
    group, net, master = fsdp_run.per_node(world), fsdp_run.model(bias=True), fsdp_run.model(bias=True)
    net[3].bias.requires_grad_(False)
    optimizer = torch.optim.SGD(master.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    for step in range(fsdp_run.STEPS):
        for p, own in zip(net.parameters(), master.parameters(), strict=True):
            if own.dim() > 1:
                parts = [rounded(shard(own.detach().numpy(), r, world), 127) for r in range(world)]
                p.data.copy_(torch.from_numpy(np.concatenate(parts)[: len(p)]))
            else:
                p.data.copy_(own)
        of_ranks = []
        for rank in range(world):
            net.zero_grad()
            inputs, targets = fsdp_run.batch(step, rank)
            default_loss(net(inputs), targets).backward()
            of_ranks.append({n: p.grad.numpy().copy() for n, p in net.named_parameters() if p.grad is not None})
        for name, own in master.named_parameters():
            if name not in of_ranks[0]:
                continue
            # Biases travel in float32.
            cut, means = partial(rounded, largest=7) if own.dim() > 1 else np.asarray, []
            for part in range(world):
                total = np.float32(0)
                for node in range(world // group):
                    ranks, inside = range(node * group, (node + 1) * group), np.float32(0)
                    for rank in ranks:
                        inside = inside + cut(shard(of_ranks[rank][name], part, world))
                    total = total + (cut(inside) if world > group else inside)
                means.append(total / np.float32(world))
            own.grad = torch.from_numpy(np.concatenate(means)[: len(own)])
        optimizer.step()
    return dict(master.named_parameters())


@pytest.mark.parametrize("world", WORLDS)
def test_zero_plus_plus_has_the_bits_of_two_roundings_by_hand(world, ranks):
    expected = zeropp_by_hand(world)
    for result in ranks(fsdp_run, world):
        for name, parameter in expected.items():
            assert torch.equal(result["zero++"]["weights"][name], parameter.detach()), name
        poisoned = result["zero++ poisoned"]["weights"]["0.weight"]
        assert torch.isnan(poisoned).any(), "NaN of one rank is not rounded away"


@pytest.mark.parametrize("world", WORLDS)
def test_bytes_of_zero_plus_plus_are_those_of_its_messages(world, ranks):
    """The last layer: a matrix in 4 or 8 bits and its scales, and its bias in float32, which is frozen."""
    rows, group = -(-fsdp_run.WIDTH // world), fsdp_run.per_node(world)
    count = rows * fsdp_run.WIDTH
    scales = 4 * -(-count // fsdp_run.BLOCK)
    part, nodes = count // 2 + scales, world // group
    expected = {
        "all_gather": (count + scales + 4 * rows) * (world - 1),
        "reduce_scatter_inside": (group - 1) * nodes * part,
        "reduce_scatter_between": (nodes - 1) * part,
    }
    for result in ranks(fsdp_run, world):
        found = {kind: n for layer, kind, n in result["zero++"]["ledger"] if layer == "3"}
        assert found == {kind: n for kind, n in expected.items() if n}


@pytest.mark.parametrize("world", WORLDS)
def test_learners_whose_models_are_sharded_meet_with_the_bits_of_the_simulator(world, ranks):
    """Fragments, a delay, messages about whole weights; then again from a checkpoint with a shard for each rank."""
    run = LocalSteps(
        fsdp_run.model(bias=True),
        fsdp_run.batch,
        learners=len(fsdp_run.learners(world)),
        inner=fsdp_run.inner,
        **fsdp_run.LOCAL,
    )
    for part, before in (("begun", 0), ("resumed", fsdp_run.ROUNDS)):
        list(run.rounds(fsdp_run.ROUNDS))
        for result in ranks(fsdp_run, world):
            real = result["local steps"][part]
            own = run.state_dict()["own"][real["learner"]]
            for name, weight in run.shared.weights.items():
                assert torch.equal(real["shared"][name], weight.detach()), name
                assert torch.equal(real["own"][name], own[name]), name
            sent = [e.payload_bytes for e in run.ledger.entries if e.rank == real["learner"] and e.step >= before]
            assert real["sent"] == (sum(sent) if real["leads"] else 0)
            assert real["took part"] == tuple(range(len(fsdp_run.learners(world))))
            assert "sharded over several dimensions of a mesh" in result["local steps"]["refusal"]
    leaders = [rank for rank, result in enumerate(ranks(fsdp_run, world)) if result["local steps"]["begun"]["leads"]]
    assert leaders == [own[0] for own in fsdp_run.learners(world)]


def test_weights_that_are_not_there_yet_are_refused():
    with torch.device("meta"):
        net = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="weight has no values yet, being on the device 'meta': initialize"):
        broadcast_from_first(net, None)


def test_what_cannot_be_hooked_is_refused(monkeypatch):
    with pytest.raises(TypeError, match="under torch's fully_shard is needed, got Linear"):
        FSDPHook(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="give both compressor= and replicas=, or neither"):
        FSDPHook(nn.Linear(2, 2), compressor="scalecom")
    with pytest.raises(ValueError, match="weight: only codes of 8, 16 or 32 bits can be sent, 'int4' has 4"):
        FSDPHook(nn.Linear(2, 2), weight="int4")
    with pytest.raises(ValueError, match="give gradient=, too"):
        FSDPHook(nn.Linear(2, 2), per_node=2)
    with pytest.raises(ValueError, match="unknown format 'int5' of blocks; allowed: e3m0"):
        FSDPHook(nn.Linear(2, 2), gradient="int5")
    monkeypatch.delattr(FSDPModule, "set_all_reduce_hook")
    with pytest.raises(RuntimeError, match="has no FSDPModule.set_all_reduce_hook: update it"):
        FSDPHook(nn.Linear(2, 2))
