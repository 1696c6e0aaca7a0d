"""Weights in 8 bits: real processes, the simulator and a master-weight run have the same bits; bytes are counted."""

from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from lplab import formats  # noqa: E402
from lplab.claims.papers.hfp8_2019_distributed import MasterWeightRun  # noqa: E402
from lplab.compression.sharded_weights import (  # noqa: E402
    ShardedUpdateFormats,
    WeightShard,
    from_bytes,
    round_to_format,
    shard_sizes,
    to_bytes,
)
from lplab.parallel import SimulatedShardedTraining  # noqa: E402
from lplab.parallel.sharded_update import check_parameters, flatten, load_flat  # noqa: E402
from tests.parallel import sharded_update_run  # noqa: E402

WORLDS = [3, pytest.param(2, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
WEIGHTS = 20 * 31 + 31 + 31 * 5 + 5


@pytest.fixture
def runs(ranks):
    """What the ranks of a real run ended with, by the number of ranks."""
    return partial(ranks, sharded_update_run)


def simulated(world, **options):
    run = SimulatedShardedTraining(sharded_update_run.model(), sharded_update_run.batches(world), world, **options)
    return run, list(run.steps(sharded_update_run.STEPS))


def same(array, tensor):
    return array.tobytes() == tensor.numpy().tobytes()


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", sharded_update_run.SCHEMES)
def test_processes_and_the_simulator_have_the_same_bits(name, world, runs):
    run, _ = simulated(world, scheme=sharded_update_run.SCHEMES[name])
    for rank, results in enumerate(runs(world)):
        real = results[name]
        assert same(run.sharded_weights.broadcast_weights(), real["broadcast weights"]) and same(
            flatten(run.model.parameters()), real["broadcast weights"]
        )
        assert same(run.sharded_weights.weights(), real["master"])
        assert same(run.sharded_weights.shards[rank].residual, real["residual"])


@pytest.mark.parametrize("world", WORLDS)
def test_both_are_the_run_with_master_weights_on_one_owner(world, runs):
    """Which is other code: the library's SGD with 16-bit master weights."""
    model = sharded_update_run.model()
    master, _ = simulated(world, sharded_weights=MasterWeightRun(flatten(model.parameters())))
    real = runs(world)[0]["residual"]
    assert same(master.sharded_weights.weights(), real["master"]) and same(
        master.sharded_weights.broadcast_weights(), real["broadcast weights"]
    )
    assert not same(master.sharded_weights.weights(), runs(world)[0]["no residual"]["master"]), "the residual is needed"


@pytest.mark.parametrize("world", WORLDS)
def test_float32_shares_are_ordinary_training(world, runs):
    """Another yardstick, torch's own SGD on the mean of the gradients; float32 rounds in another order."""
    model = sharded_update_run.model()
    update = torch.optim.SGD(model.parameters(), lr=2**-4, momentum=0.875)
    yardstick = SimulatedShardedTraining(
        sharded_update_run.model(), sharded_update_run.batches(world), world, sharded_weights=Torch(model, update)
    )
    list(yardstick.steps(sharded_update_run.STEPS))
    real = runs(world)[0]["float32"]["master"]
    torch.testing.assert_close(torch.from_numpy(flatten(model.parameters())), real, rtol=1e-4, atol=1e-6)


class Torch:
    """An optimizer of torch in the place of owners."""

    def __init__(self, model, update):
        self.parameters, self.update = list(model.parameters()), update

    def broadcast_weights(self):
        return flatten(self.parameters)

    def step(self, gradients):
        mean, start = torch.from_numpy(np.mean(gradients, axis=0)), 0
        for p in self.parameters:
            p.grad = mean[start : start + p.numel()].view(p.shape).clone()
            start += p.numel()
        self.update.step()


@pytest.mark.parametrize("world", WORLDS)
def test_any_rate_has_the_same_bits_in_processes_and_in_the_simulator(world, runs):
    run, _ = simulated(world, learning_rate=0.1, momentum=0.9)
    assert same(run.sharded_weights.weights(), runs(world)[0]["other learning rate"]["master"])


@pytest.mark.parametrize("world", WORLDS)
def test_bytes_are_those_of_the_buffers(world, runs):
    for rank, results in enumerate(runs(world)):
        own = shard_sizes(WEIGHTS, world)[rank]
        gradients, weights = 2 * (WEIGHTS - own), (world - 1) * own
        steps = range(sharded_update_run.STEPS)
        expected = [
            row for s in steps for row in ((s, "reduce_scatter", rank, gradients), (s, "all_gather", rank, weights))
        ]
        assert results["residual"]["ledger"] == expected
        assert ShardedUpdateFormats().sent_bytes(WEIGHTS, world, rank) == (gradients, weights)
        floats = sum(nbytes for *_, nbytes in results["float32"]["ledger"])
        assert floats == sharded_update_run.STEPS * 4 * ((WEIGHTS - own) + (world - 1) * own)
    _, steps = simulated(world)
    assert steps[0].sent_bytes == sum(b for r in runs(world) for s, _, _, b in r["residual"]["ledger"] if s == 0)
    assert steps[0].sent_bytes == 3 * (world - 1) * WEIGHTS, (
        "2 bytes of gradient and 1 of weight, to each other learner"
    )


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("name", "factor"), [("poisoned", float("nan")), ("too large for 1-6-9", 1e20)])
def test_one_nan_and_all_ranks_leave_the_step_out_together(name, factor, world, runs):
    """Or one gradient that overflows in the format of the message."""
    first = runs(world)[0]["poisoned"]
    for results in runs(world):
        assert results[name]["made"] == [step != 2 for step in range(sharded_update_run.STEPS)]
        assert torch.equal(results[name]["broadcast weights"], first["broadcast weights"])
        assert first["broadcast weights"].isfinite().all()

    def batches(step, rank):
        inputs, targets = sharded_update_run.batches(world)(step, rank)
        return (inputs * factor if (step, rank) == (2, world - 1) else inputs), targets

    run = SimulatedShardedTraining(sharded_update_run.model(), batches, world)
    assert [s.skipped for s in run.steps(sharded_update_run.STEPS)] == [
        step == 2 for step in range(sharded_update_run.STEPS)
    ]
    assert same(run.sharded_weights.weights(), first["master"])


@pytest.mark.parametrize("world", WORLDS)
def test_a_checkpoint_goes_on_bit_for_bit(world, runs):
    for results in runs(world):
        assert torch.equal(results["resumed"]["master"], results["residual"]["master"])
        assert torch.equal(results["resumed"]["broadcast weights"], results["residual"]["broadcast weights"])


def test_one_learner_sends_nothing_and_is_the_master_run():
    run, steps = simulated(1)
    master, _ = simulated(1, sharded_weights=MasterWeightRun(flatten(sharded_update_run.model().parameters())))
    assert not any(s.sent_bytes for s in steps)
    assert (run.sharded_weights.weights() == master.sharded_weights.weights()).all()


# ---- one owner -------------------------------------------------------------------------------------------------------


def test_the_residual_rebuilds_every_16_bit_weight_below_2048():
    """All values of 1-6-9, not a sample. Beyond, that of the largest 8-bit weight, 30, needs more than 10 bits."""
    values = formats.get("dlfloat16").values
    values = values[np.isfinite(values)].astype(np.float32)
    rebuilt, inside = WeightShard(values, ShardedUpdateFormats()).weights, np.abs(values) < 2048
    assert len(values) > 65_000 and inside.mean() > 0.6
    np.testing.assert_array_equal(rebuilt[inside], values[inside])
    assert (rebuilt != values).any()


@pytest.mark.parametrize("name", ["hfp8_forward", "fp8_152", "e4m3fn", "dlfloat16", "fp16", "bf16", "fp32", "int8"])
def test_codes_on_the_wire_are_those_of_the_format(name):
    """The fast way by tables against the format itself: every value of 8 and 16 bits, ties and zeros among others."""
    fmt = formats.get(name)
    rng = np.random.default_rng(0)
    values = (rng.standard_normal(5000) * 10.0 ** rng.integers(-6, 4, 5000)).astype(np.float32)
    if fmt.bits <= 16:
        every = fmt.decode(np.arange(2**fmt.bits, dtype=f"u{fmt.bits // 8}")).astype(np.float32)
        values = np.concatenate([every[np.isfinite(every)], values])
    values = np.append(values, np.float32([0.0, -0.0]))
    codes = np.frombuffer(to_bytes(values, name), f"u{fmt.bits // 8}")
    np.testing.assert_array_equal(codes, fmt.encode(round_to_format(values, name)))
    back = from_bytes(codes.tobytes(), name)
    assert back.dtype == np.float32 and (back == fmt.decode(codes)).all()


def test_what_is_not_finite_is_not_taken_for_a_number():
    arrived = from_bytes(to_bytes(np.float32([np.nan, 1.0]), "bf16"), "bf16")
    assert np.isnan(arrived[0]) and arrived[1] == 1


def test_float32_weights_are_rebuilt_too():
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal(20_000) * 10.0 ** rng.integers(-6, 1, 20_000)).astype(np.float32)
    owner = WeightShard(weights, ShardedUpdateFormats("fp32", "fp32", "hfp8_forward", "fp32"))
    np.testing.assert_array_equal(owner.weights, weights)
    assert (owner.sent == round_to_format(weights, "hfp8_forward")).all() and (owner.sent != weights).mean() > 0.99


@pytest.mark.parametrize(("weights", "learners"), [(10, 3), (2, 5), (0, 2), (7, 7)])
def test_shares_cover_all_weights(weights, learners):
    sizes = shard_sizes(weights, learners)
    assert sum(sizes) == weights and len(sizes) == learners and max(sizes) - min(sizes) <= 1


def test_more_learners_than_weights():
    model = torch.nn.Linear(1, 1)
    batch = (torch.ones(2, 1), torch.zeros(2, 1))
    run = SimulatedShardedTraining(model, lambda step, rank: batch, 5, loss=torch.nn.functional.mse_loss)
    assert [s.sent_bytes for s in run.steps(2)] == [3 * 4 * 2] * 2


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="learners must be 1 or more, got 0"):
        shard_sizes(10, 0)
    with pytest.raises(ValueError, match="no parameters"):
        check_parameters([])
    with pytest.raises(TypeError, match=r"float32 parameters, got torch\.float64"):
        check_parameters([torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))])
    with pytest.raises(ValueError, match="unknown format"):
        ShardedUpdateFormats(weight="e9m9x")


def test_put_is_the_inverse_of_flat():
    model = sharded_update_run.model()
    values = np.arange(WEIGHTS, dtype=np.float32)
    load_flat(values, model.parameters())
    assert (flatten(model.parameters()) == values).all()
