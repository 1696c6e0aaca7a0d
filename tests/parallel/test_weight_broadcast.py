"""Weights in 8 bits: real processes, the simulator and a master-weight run have the same bits; bytes are counted."""

from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from lplab import formats  # noqa: E402
from lplab.claims.eight_bit_weights import Master  # noqa: E402
from lplab.compression.weight_shares import Owner, Scheme, from_bytes, rounded, share_sizes, to_bytes  # noqa: E402
from lplab.parallel import SharedWeights  # noqa: E402
from lplab.parallel.weight_broadcast import checked, flat, put  # noqa: E402
from tests.parallel import weight_run  # noqa: E402

WORLDS = [3, pytest.param(2, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
WEIGHTS = 20 * 31 + 31 + 31 * 5 + 5


@pytest.fixture
def runs(ranks):
    """What the ranks of a real run ended with, by the number of ranks."""
    return partial(ranks, weight_run)


def simulated(world, **options):
    run = SharedWeights(weight_run.model(), weight_run.batches(world), world, **options)
    return run, list(run.steps(weight_run.STEPS))


def same(array, tensor):
    return array.tobytes() == tensor.numpy().tobytes()


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", weight_run.SCHEMES)
def test_processes_and_the_simulator_have_the_same_bits(name, world, runs):
    run, _ = simulated(world, scheme=weight_run.SCHEMES[name])
    for rank, results in enumerate(runs(world)):
        real = results[name]
        assert same(run.owners.visible(), real["visible"]) and same(flat(run.model.parameters()), real["visible"])
        assert same(run.owners.weights(), real["master"])
        assert same(run.owners.owners[rank].kept, real["kept"])


@pytest.mark.parametrize("world", WORLDS)
def test_both_are_the_run_with_master_weights_on_one_owner(world, runs):
    """Which is other code: the library's SGD with 16-bit master weights."""
    model = weight_run.model()
    master, _ = simulated(world, owners=Master(flat(model.parameters())))
    real = runs(world)[0]["residual"]
    assert same(master.owners.weights(), real["master"]) and same(master.owners.visible(), real["visible"])
    assert not same(master.owners.weights(), runs(world)[0]["forgetful"]["master"]), "the rest is needed"


@pytest.mark.parametrize("world", WORLDS)
def test_float32_shares_are_ordinary_training(world, runs):
    """Another yardstick, torch's own SGD on the mean of the gradients; float32 rounds in another order."""
    model = weight_run.model()
    update = torch.optim.SGD(model.parameters(), lr=2**-4, momentum=0.875)
    yardstick = SharedWeights(weight_run.model(), weight_run.batches(world), world, owners=Torch(model, update))
    list(yardstick.steps(weight_run.STEPS))
    real = runs(world)[0]["float32"]["master"]
    torch.testing.assert_close(torch.from_numpy(flat(model.parameters())), real, rtol=1e-4, atol=1e-6)


class Torch:
    """An optimizer of torch in the place of owners."""

    def __init__(self, model, update):
        self.parameters, self.update = list(model.parameters()), update

    def visible(self):
        return flat(self.parameters)

    def step(self, gradients):
        mean, start = torch.from_numpy(np.mean(gradients, axis=0)), 0
        for p in self.parameters:
            p.grad = mean[start : start + p.numel()].view(p.shape).clone()
            start += p.numel()
        self.update.step()


@pytest.mark.parametrize("world", WORLDS)
def test_any_rate_has_the_same_bits_in_processes_and_in_the_simulator(world, runs):
    run, _ = simulated(world, rate=0.1, momentum=0.9)
    assert same(run.owners.weights(), runs(world)[0]["other rate"]["master"])


@pytest.mark.parametrize("world", WORLDS)
def test_bytes_are_those_of_the_buffers(world, runs):
    for rank, results in enumerate(runs(world)):
        own = share_sizes(WEIGHTS, world)[rank]
        gradients, weights = 2 * (WEIGHTS - own), (world - 1) * own
        steps = range(weight_run.STEPS)
        expected = [
            row for s in steps for row in ((s, "reduce_scatter", rank, gradients), (s, "all_gather", rank, weights))
        ]
        assert results["residual"]["ledger"] == expected
        assert Scheme().sent_bytes(WEIGHTS, world, rank) == (gradients, weights)
        floats = sum(nbytes for *_, nbytes in results["float32"]["ledger"])
        assert floats == weight_run.STEPS * 4 * ((WEIGHTS - own) + (world - 1) * own)
    _, steps = simulated(world)
    assert steps[0].sent_bytes == sum(b for r in runs(world) for s, _, _, b in r["residual"]["ledger"] if s == 0)
    assert steps[0].sent_bytes == 3 * (world - 1) * WEIGHTS, (
        "2 bytes of gradient and 1 of weight, to each other learner"
    )


@pytest.mark.parametrize("world", WORLDS)
def test_one_nan_and_all_ranks_leave_the_step_out_together(world, runs):
    first = runs(world)[0]["poisoned"]
    for results in runs(world):
        assert results["poisoned"]["made"] == [step != 2 for step in range(weight_run.STEPS)]
        assert torch.equal(results["poisoned"]["visible"], first["visible"]) and first["visible"].isfinite().all()

    def batches(step, rank):
        inputs, targets = weight_run.batches(world)(step, rank)
        return (inputs * float("nan") if (step, rank) == (2, world - 1) else inputs), targets

    run = SharedWeights(weight_run.model(), batches, world)
    assert [s.skipped for s in run.steps(weight_run.STEPS)] == [step == 2 for step in range(weight_run.STEPS)]
    assert same(run.owners.weights(), first["master"])


@pytest.mark.parametrize("world", WORLDS)
def test_a_checkpoint_goes_on_bit_for_bit(world, runs):
    for results in runs(world):
        assert torch.equal(results["resumed"]["master"], results["residual"]["master"])
        assert torch.equal(results["resumed"]["visible"], results["residual"]["visible"])


def test_one_learner_sends_nothing_and_is_the_master_run():
    run, steps = simulated(1)
    master, _ = simulated(1, owners=Master(flat(weight_run.model().parameters())))
    assert not any(s.sent_bytes for s in steps)
    assert (run.owners.weights() == master.owners.weights()).all()


# ---- one owner -------------------------------------------------------------------------------------------------------


def test_the_rest_rebuilds_every_16_bit_weight_below_2048():
    """All values of 1-6-9, not a sample. Beyond, the rest of the largest 8-bit weight, 30, needs more than 10 bits."""
    values = formats.get("dlfloat16").values
    values = values[np.isfinite(values)].astype(np.float32)
    rebuilt, inside = Owner(values, Scheme()).weights, np.abs(values) < 2048
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
    np.testing.assert_array_equal(codes, fmt.encode(rounded(values, name)))
    back = from_bytes(codes.tobytes(), name)
    assert back.dtype == np.float32 and (back == fmt.decode(codes)).all()


def test_what_is_not_finite_is_not_taken_for_a_number():
    arrived = from_bytes(to_bytes(np.float32([np.nan, 1.0]), "bf16"), "bf16")
    assert np.isnan(arrived[0]) and arrived[1] == 1


def test_float32_weights_are_rebuilt_too():
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal(20_000) * 10.0 ** rng.integers(-6, 1, 20_000)).astype(np.float32)
    owner = Owner(weights, Scheme("fp32", "fp32", "hfp8_forward", "fp32"))
    np.testing.assert_array_equal(owner.weights, weights)
    assert (owner.sent == rounded(weights, "hfp8_forward")).all() and (owner.sent != weights).mean() > 0.99


def test_memory_of_owners_shrinks_with_their_number():
    assert [Scheme().owner_bytes(1000, n) for n in (1, 4)] == [4000, 1000]
    assert Scheme(rest=None).owner_bytes(1000, 4) == 500


@pytest.mark.parametrize(("weights", "learners"), [(10, 3), (2, 5), (0, 2), (7, 7)])
def test_shares_cover_all_weights(weights, learners):
    sizes = share_sizes(weights, learners)
    assert sum(sizes) == weights and len(sizes) == learners and max(sizes) - min(sizes) <= 1


def test_more_learners_than_weights():
    model = torch.nn.Linear(1, 1)
    batch = (torch.ones(2, 1), torch.zeros(2, 1))
    run = SharedWeights(model, lambda step, rank: batch, 5, loss=torch.nn.functional.mse_loss)
    assert [s.sent_bytes for s in run.steps(2)] == [3 * 4 * 2] * 2


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="learners must be 1 or more, got 0"):
        share_sizes(10, 0)
    with pytest.raises(ValueError, match="no parameters"):
        checked([])
    with pytest.raises(TypeError, match=r"float32 parameters, got torch\.float64"):
        checked([torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))])
    with pytest.raises(ValueError, match="unknown format"):
        Scheme(weight="e9m9x")


def test_put_is_the_inverse_of_flat():
    model = weight_run.model()
    values = np.arange(WEIGHTS, dtype=np.float32)
    put(values, model.parameters())
    assert (flat(model.parameters()) == values).all()
