"""Real processes over gloo against the simulator: parameters, residuals and ledgers, bit for bit."""

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from lplab.compression import compressor_catalogue  # noqa: E402
from lplab.parallel import Learners  # noqa: E402
from lplab.training.loop.trainer import default_loss  # noqa: E402
from tests.parallel import checkpoint_run, gloo_run, lost_rank_run, overlap_run  # noqa: E402

WORLDS = [3, pytest.param(2, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]


@pytest.fixture
def runs(ranks):
    """What the ranks of a real run ended with, by the number of ranks."""
    return partial(ranks, gloo_run)


def simulated(name, world):
    learners = Learners(gloo_run.model(), default_loss, gloo_run.batches(world), gloo_run.COMPRESSORS[name], world,
                        optimizer=gloo_run.optimizer)  # fmt: skip
    list(learners.steps(gloo_run.STEPS))
    return learners


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", gloo_run.COMPRESSORS)
def test_a_real_run_and_the_simulator_have_the_same_bits(name, world, runs):
    learners = simulated(name, world)
    parameters = dict(learners.model.named_parameters())
    for cap in (0.2, 25):
        for rank, results in enumerate(runs(world)):
            real = results[name, cap]
            assert all(torch.equal(p, real["parameters"][n]) for n, p in parameters.items())
            for layer, residual in real["residuals"].items():
                assert residual.numpy().tobytes() == learners.residuals(layer)[rank].tobytes()
            ours = [
                (e.step, e.layer, e.kind, e.rank, e.payload_bytes) for e in learners.ledger.entries if e.rank == rank
            ]
            assert real["ledger"] == sorted(ours) and ours


@pytest.mark.parametrize("world", WORLDS)
def test_a_backends_own_order_of_additions_changes_the_last_bits_alone(world, runs):
    real = runs(world)[0]["reduced"]["parameters"]
    for name, parameter in simulated("scalecom", world).model.named_parameters():
        torch.testing.assert_close(parameter.detach(), real[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("world", WORLDS)
def test_one_nan_and_all_ranks_leave_the_step_out_together(world, runs):
    for results in runs(world):
        poisoned = results["poisoned"]
        assert poisoned["made"] == [True, True, False, True, True]
        assert all(torch.isfinite(r).all() for r in poisoned["residuals"].values())
        assert all(torch.isfinite(p).all() for p in poisoned["parameters"].values())
        first = runs(world)[0]["poisoned"]["parameters"]
        assert all(torch.equal(p, first[n]) for n, p in poisoned["parameters"].items())
        for other in (results["poisoned, plainly"], results["poisoned, waiting"]):
            assert other["made"] == poisoned["made"]
            assert all(torch.equal(p, other["parameters"][n]) for n, p in poisoned["parameters"].items())


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("way", ["tensors", "waiting"])
@pytest.mark.parametrize("name", gloo_run.COMPRESSORS)
def test_each_way_through_the_hook_has_the_same_bits(name, way, world, runs):
    """The operations that serve gradients on a GPU, here on the CPU; and buckets that the backward pass waits for."""
    for results in runs(world):
        usual, other = results[name, 0.2], results[way, name]
        assert all(torch.equal(p, other["parameters"][n]) for n, p in usual["parameters"].items())
        assert all(torch.equal(r, other["residuals"][n]) for n, r in usual["residuals"].items())
        assert usual["ledger"] == other["ledger"] and usual["ledger"]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("variant", overlap_run.VARIANTS)
def test_behind_the_backward_pass_awkward_trainings_have_the_same_bits(variant, world, ranks):
    """With unused parameters DistributedDataParallel sends messages of its own in the same moments."""
    results = ranks(overlap_run, world)
    for result in results:
        behind, waiting, first = result[variant, True], result[variant, False], results[0][variant, True]
        assert behind["skipped"] == waiting["skipped"] and sum(behind["skipped"]) == variant.startswith("scaled")
        assert all(torch.equal(a, b) for a, b in zip(behind["parameters"], first["parameters"], strict=True))
        for kind in ("parameters", "residuals"):
            assert all(torch.equal(a, b) for a, b in zip(behind[kind], waiting[kind], strict=True)) and behind[kind]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", overlap_run.COMPRESSORS)
def test_strides_and_what_overflows_change_no_bit(name, world, ranks):
    """Against the simulator with parameters row by row: the same averages and states, and the same steps skipped."""
    learners = Learners(
        overlap_run.Products(strided=False),
        lambda output, _: output,
        lambda step, rank: (overlap_run.gradients(step, rank, world), None),
        compressor_catalogue.get(name),
        world,
    )
    skipped = [step.skipped for step in learners.steps(6)]
    residuals = name not in ("dense", "qsgd")
    assert skipped[:3] == [False, False, True] and not skipped[5] and (skipped[4] or not residuals)
    for rank, result in enumerate(ranks(overlap_run, world)):
        for way in overlap_run.WAYS:
            real = result[name, way]
            assert real["skipped"] == skipped and all(real["finite"])
            if way.startswith("ordered"):
                assert all(torch.equal(p, real["parameters"][n]) for n, p in learners.model.named_parameters())
                simulated = learners.state_dict()["memories"][rank]["layers"]
                assert all(
                    torch.equal(array, real["states"][n][key]) and array.isfinite().all()
                    for n, arrays in simulated.items()
                    for key, array in arrays.items()
                )


@pytest.mark.parametrize("world", WORLDS)
def test_ranks_that_lose_another_say_so(world, ranks):
    *others, gone = ranks(lost_rank_run, world)
    assert gone is None
    for rank, left in enumerate(others):
        said = f"the exchange of gradients failed in step {lost_rank_run.STEPS} on rank {rank} of {world}; if another"
        assert len(left["messages"]) == 2 and all(message.startswith(said) for message in left["messages"])
        assert left["step"] == lost_rank_run.STEPS


@pytest.mark.parametrize("world", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_a_checkpoint_of_two_ranks_serves_more_and_theirs_serves_two_again(world, ranks):
    """The mean of the residuals, which is the update still to come, stays; the same ranks resume with their own."""
    results = ranks(checkpoint_run, world)

    def residuals(moment):
        return [result[moment]["residuals"] for result in results if moment in result]

    for rank in (0, 1):
        before, after = results[rank]["two saved"], results[rank]["two resumed"]
        assert before["step"] == after["step"] == checkpoint_run.STEPS
        for kind in ("weights", "residuals"):
            assert all(torch.equal(t, after[kind][n]) for n, t in before[kind].items())
    for saved, loaded, steps in (("two saved", "all loaded", 1), ("all saved", "two loaded", 2)):
        before, after = residuals(saved), residuals(loaded)
        assert len(before) != len(after) and before[0].keys() == after[0].keys() and before[0]
        for layer in before[0]:
            mean = torch.stack([one[layer] for one in before]).double().mean(0)
            for one in after:
                torch.testing.assert_close(one[layer].double(), mean, rtol=1e-6, atol=1e-9)
            assert not torch.equal(before[0][layer], before[1][layer]), "the ranks had residuals of their own"
        assert [result[loaded]["step"] for result in results if loaded in result] == [
            steps * checkpoint_run.STEPS
        ] * len(after)
        assert all(
            torch.equal(weight, results[0][loaded]["weights"][n]) for n, weight in results[0][saved]["weights"].items()
        )
